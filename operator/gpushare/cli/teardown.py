"""`gpushare render teardown`: what removes the kernel module from a node that there is."""

from gpushare.api.cluster import Kind
from gpushare.cli.access import Access
from gpushare.cli.exits import CommandError, Exit
from gpushare.cli.failures import build_unknown
from gpushare.cli.world import observe_pools
from gpushare.core.duejob import NoJobDueError, find_due_job
from gpushare.render.teardown import (
    format_teardown_job,
    render_teardown_commands,
    render_teardown_job,
)


def render_commands(access: Access, node: str) -> str:
    """What a person types on `node`. Raises `CommandError` where there is no such node."""
    access.read(Kind.NODES, node=node)
    return render_teardown_commands(node)


def render_job(access: Access, node: str, *, namespace: str, image: str) -> str:
    """The Job of the phase that `node` is in. Raises `CommandError` where it needs none."""
    cluster = access.read(*Kind)
    world = observe_pools(cluster).world
    if node not in world.nodes:
        raise build_unknown("node", node, world.nodes)
    try:
        due = find_due_job(world, node, cluster.taken_at)
    except NoJobDueError as error:
        raise CommandError(Exit.NOT_FOUND, str(error)) from error
    manifest = render_teardown_job(due.job, pool=due.pool, namespace=namespace, image=image)
    return format_teardown_job(manifest)
