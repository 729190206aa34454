"""`gpushare render teardown`: what removes the kernel module from a node that there is."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from gpushare.cli.access import Access
from gpushare.cli.exits import CommandError, Exit
from gpushare.cli.failures import build_unknown
from gpushare.cli.world import PLANNED, Seen, observe_pools
from gpushare.core.dueteardown import NotDueError, expect_commands_due, find_due_job
from gpushare.render.teardown import (
    format_teardown_job,
    render_teardown_commands,
    render_teardown_job,
)


def render_commands(access: Access, node: str) -> str:
    """What a person types on `node`. Raises `CommandError` where nothing is to be typed now."""
    seen, now = _observe(access, node)
    with _refused():
        expect_commands_due(seen.world, seen.known.setup, node, now)
    return render_teardown_commands(node, seen.world.nodes[node].container_runtime)


def render_job(access: Access, node: str, *, namespace: str, image: str) -> str:
    """The Job of the phase that `node` is in. Raises `CommandError` where it needs none."""
    seen, now = _observe(access, node)
    with _refused():
        due = find_due_job(seen.world, seen.known.setup, node, now)
    manifest = render_teardown_job(due.job, pool=due.pool, namespace=namespace, image=image)
    return format_teardown_job(manifest)


def _observe(access: Access, node: str) -> tuple[Seen, datetime]:
    cluster = access.read(*PLANNED)
    seen = observe_pools(cluster)
    if node not in seen.world.nodes:
        raise build_unknown("node", node, seen.world.nodes)
    return seen, cluster.taken_at


@contextmanager
def _refused() -> Iterator[None]:
    try:
        yield
    except NotDueError as error:
        raise CommandError(Exit.NOT_CALLED_FOR, str(error)) from error
