"""The end of a change: its verified return, uncordoned and recorded in one write."""

from gpushare.core.actions import ApplyNode, NodePlan, NodeState, build_apply
from gpushare.core.blockers import find_pods_of_another_mode
from gpushare.core.change import build_applied, change_labels, plan_held
from gpushare.core.modes import MODES
from gpushare.core.module import is_left_loaded
from gpushare.core.observed import Observed, Pass
from gpushare.core.records import Change, NodeRecords
from gpushare.core.verify import verify_return
from gpushare.names import Reason


def plan_completion(seen: Observed, change: Change, at: Pass) -> NodePlan:
    """Wait for plugin, components and resource, then uncordon and write `applied`."""
    to = MODES[change.edition, change.to]
    missing = verify_return(seen.node, seen.pods, change=change, was_zero=seen.was_zero, at=at)
    if missing is not None:
        wait = missing.wait.total_seconds() if missing.wait is not None else None
        return NodePlan(
            seen.node.name,
            NodeState.UPDATING,
            missing.reason,
            missing.message,
            wake_after_seconds=wait,
        )
    if (users := find_pods_of_another_mode(to, seen.pods)) is not None:
        return plan_held(seen, users)
    applied = build_applied(seen, change.pool, to, change=change)
    action = build_apply(
        seen.node,
        change_labels(seen, change),
        NodeRecords(
            found=seen.records.found,
            applied=applied,
            drift=seen.records.drift,
            module=is_left_loaded(seen, change),
            disk=seen.records.disk,
        ),
        cordon=False,
        message=f"{change.to} verified, uncordoned",
    )
    return seen.plan(NodeState.UPDATING, Reason.UPDATING, "verified", action)


def is_completion(plan: NodePlan) -> bool:
    """Whether this plan ends the change."""
    return isinstance(plan.action, ApplyNode) and not plan.action.cordon
