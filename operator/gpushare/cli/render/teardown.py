"""`gpushare render teardown`: what removes the kernel module from a node that there is."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from gpushare.cli.cluster.access import Access
from gpushare.cli.cluster.snapshot import PLANNED, observe_pools
from gpushare.cli.errors.failures import build_unknown
from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.core.analysis.due_teardown import NotDueError, expect_commands_due, find_due_job
from gpushare.core.analysis.seen import Seen
from gpushare.render.teardown import (
    format_teardown_job,
    render_teardown_commands,
    render_teardown_job,
)


def render_commands(access: Access, node: str) -> str:
    """What a person types on `node`. Raises `CommandError` where nothing is to be typed now."""
    seen, now = _observe(access, node)
    with _refused():
        expect_commands_due(seen.snapshot, seen.known.setup, node, now)
    return render_teardown_commands(node, seen.snapshot.nodes[node].container_runtime)


def render_job(access: Access, node: str, *, namespace: str, image: str) -> str:
    """The Job of the phase that `node` is in. Raises `CommandError` where it needs none."""
    seen, now = _observe(access, node)
    with _refused():
        due = find_due_job(seen.snapshot, seen.known.setup, node, now)
    manifest = render_teardown_job(due.job, pool=due.pool, namespace=namespace, image=image)
    return format_teardown_job(manifest)


def _observe(access: Access, node: str) -> tuple[Seen, datetime]:
    cluster = access.read(*PLANNED)
    seen = observe_pools(cluster)
    if node not in seen.snapshot.nodes:
        raise build_unknown("node", node, seen.snapshot.nodes)
    return seen, cluster.taken_at


@contextmanager
def _refused() -> Iterator[None]:
    try:
        yield
    except NotDueError as error:
        raise CommandError(Exit.NOT_CALLED_FOR, str(error)) from error
