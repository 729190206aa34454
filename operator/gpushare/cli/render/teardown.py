"""`gpushare render teardown`: what removes the kernel module from a node that there is."""

from gpushare.cli.cluster.access import Access
from gpushare.cli.cluster.snapshot import PLANNED, observe_pools
from gpushare.cli.errors.failures import build_unknown
from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.core.analysis.due_teardown import NotDueError, expect_commands_due
from gpushare.render.teardown import render_teardown_commands


def render_commands(access: Access, node: str) -> str:
    """What a person types on `node`. Raises `CommandError` where nothing is to be typed now."""
    cluster = access.read(*PLANNED)
    seen = observe_pools(cluster)
    if node not in seen.snapshot.nodes:
        raise build_unknown("node", node, seen.snapshot.nodes)
    try:
        expect_commands_due(seen.snapshot, seen.known.setup, node, cluster.taken_at)
    except NotDueError as error:
        raise CommandError(Exit.NOT_CALLED_FOR, str(error)) from error
    return render_teardown_commands(node, seen.snapshot.nodes[node].container_runtime)
