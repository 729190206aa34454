"""Renders the commands that remove the kernel module from a node of the cluster."""

from datetime import datetime

from gpushare import names
from gpushare.analysis.inspect.pools import plan_snapshot
from gpushare.cli.cluster.access import Access
from gpushare.cli.cluster.snapshot import PLANNED, observe_pools
from gpushare.cli.errors.failures import build_unknown
from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.core.nodechange.phases.teardown import asks_for_commands
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.render.teardown import render_teardown_commands
from gpushare.settings import Settings


def render_commands(access: Access, node: str) -> str:
    """Render the commands for `node`. Raises `CommandError` where none are due now."""
    cluster = access.read(*PLANNED)
    seen = observe_pools(cluster)
    if node not in seen.snapshot.nodes:
        raise build_unknown("node", node, seen.snapshot.nodes)
    expect_commands_due(seen.snapshot, seen.known.setup, node, cluster.taken_at)
    return render_teardown_commands(node, seen.snapshot.nodes[node].container_runtime)


def expect_commands_due(
    snapshot: ClusterSnapshot, setup: Settings, node: str, now: datetime
) -> None:
    """Raise `CommandError` unless a user is to remove the module from `node` now.

    Elsewhere that would take isolation from pods, or the installer would put the module back.
    """
    plans_by_pool = plan_snapshot(snapshot, setup, now).plans_by_pool
    plans = [
        pool_plans.plans[node] for pool_plans in plans_by_pool.values() if node in pool_plans.plans
    ]
    if not any(map(asks_for_commands, plans)):
        told = ". ".join(f"{plan.reason}: {plan.message}" for plan in plans)
        start = f"{names.ANNOTATION_TEARDOWN}={names.TEARDOWN_START}"
        raise CommandError(
            Exit.NOT_CALLED_FOR,
            f"node {node} needs no commands now ({told or 'no pool has it'}). They are due once "
            "its reason is ModuleRemoval: set schedule share and isolationTeardown.policy Manual "
            f"in its pool, annotate the node {start}, and wait until it is empty, cordoned and "
            "labelled",
        )
