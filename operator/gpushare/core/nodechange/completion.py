"""The end of a change: its verified return, uncordoned and recorded in one write."""

from gpushare.core.deviceplugin.verification import verify_return
from gpushare.core.nodechange.blockers import find_pods_of_another_mode
from gpushare.core.nodechange.kernel_module import is_left_loaded
from gpushare.core.nodechange.ongoing_change import (
    build_last_applied,
    change_labels,
    plan_wait_cordoned,
)
from gpushare.core.records.change_record import Change
from gpushare.core.records.node_records import NodeRecords
from gpushare.core.snapshot.actions import ApplyNode, NodeState, StepResult, build_apply
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext
from gpushare.editions.registry import MODES
from gpushare.names import Reason


def plan_completion(seen: NodeSnapshot, change: Change, ctx: ReconcileContext) -> StepResult:
    """Wait for plugin, components and resource, then uncordon and write `applied`."""
    to = MODES[change.edition, change.to]
    missing = verify_return(seen.node, seen.pods, change=change, was_zero=seen.was_zero, ctx=ctx)
    if missing is not None:
        wait = missing.wait.total_seconds() if missing.wait is not None else None
        return StepResult(
            seen.node.name,
            NodeState.UPDATING,
            missing.reason,
            missing.message,
            requeue_after_seconds=wait,
        )
    if (users := find_pods_of_another_mode(to, seen.pods)) is not None:
        return plan_wait_cordoned(seen, users)
    applied = build_last_applied(seen, change.pool, to, change=change)
    action = build_apply(
        seen.node,
        change_labels(seen, change),
        NodeRecords(
            initial_values=seen.records.initial_values,
            applied=applied,
            drift=seen.records.drift,
            module=is_left_loaded(seen, change),
            disk=seen.records.disk,
        ),
        cordon=False,
        message=f"{change.to} verified, uncordoned",
    )
    return seen.plan(NodeState.UPDATING, Reason.UPDATING, "verified", action)


def is_completion(plan: StepResult) -> bool:
    """Whether this plan ends the change."""
    return isinstance(plan.action, ApplyNode) and not plan.action.cordon
