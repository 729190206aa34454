"""The labels that must be on a node now, and what is done where somebody else changes them."""

from dataclasses import replace

from gpushare import names
from gpushare.api.pool import Pool
from gpushare.core.nodechange.kernel_module import note_module
from gpushare.core.nodechange.last_applied import note_readings
from gpushare.core.nodechange.ongoing_change import owned_labels
from gpushare.core.ownership.drift import Verdict
from gpushare.core.snapshot.actions import NodeState, StepResult, build_apply
from gpushare.core.snapshot.effective_mode import describe_unknown
from gpushare.core.snapshot.isolation_label import find_isolation_label
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext
from gpushare.editions.registry import MODES, desired_labels
from gpushare.names import Reason


def find_enforced_labels(seen: NodeSnapshot, pool: Pool, from_mode: str) -> dict[str, str]:
    """The labels that must be there now.

    While a node waits for a change, those are not the pool's yet, but of the mode in force; a value
    that is the pool's already was put there by a person who prepares the node for it.
    """
    applied, wanted = seen.records.applied, desired_labels(pool.name, pool.spec)
    if applied is None or applied.edition is not pool.spec.edition or from_mode != applied.schedule:
        return wanted | find_isolation_label(seen.node, wanted, seen.records)
    effective_mode = MODES[applied.edition, applied.schedule].labels
    labels = desired_labels(applied.pool, pool.spec)
    held = {key: value for key, value in labels.items() if key not in names.MODE_LABELS}
    present = seen.node.labels
    held |= {
        key: wanted[key] if key in wanted and present.get(key) == wanted[key] else value
        for key, value in effective_mode.items()
    }
    return held | find_isolation_label(seen.node, held, seen.records)


def plan_revert_in_wait(
    seen: NodeSnapshot, held: dict[str, str], verdict: Verdict, ctx: ReconcileContext
) -> StepResult | None:
    """Drift on a node that waits for another change: back to what is in force; None without."""
    once_ours = {*(seen.records.initial_values or ()), names.LABEL_ISOLATION_VERIFIED}
    lost = {key: held[key] for key in held.keys() & once_ours - seen.node.owned}
    if lost.items() <= seen.node.labels.items():
        return None
    labels = {**owned_labels(seen.node), **lost}
    message = "labels put back"
    applied = seen.records.applied
    if applied is not None:
        applied = applied.model_copy(update=note_readings(seen, applied, ctx))
    records = seen.records.model_copy(update={"drift": verdict.record, "applied": applied})
    if applied is not None:
        records = note_module(seen, records, MODES[applied.edition, applied.schedule], ctx)
    action = build_apply(seen.node, labels, records, cordon=seen.node.owns_cordon, message=message)
    return seen.plan(NodeState.UPDATING, Reason.DRIFT_REVERTED, message, action)


def plan_conflict(
    seen: NodeSnapshot, held: dict[str, str], verdict: Verdict, ctx: ReconcileContext
) -> StepResult:
    """A rival writes the mode: no change begins, and no plugin is restarted.

    What a plugin reads meanwhile nobody knows; it must read ours once the fight is over.
    """
    labels = {key: value for key, value in held.items() if key not in verdict.given_up}
    plan = seen.plan_conflict(verdict)
    if verdict.wait is not None:
        return plan
    records = seen.records.model_copy(update={"drift": verdict.record})
    applied = seen.records.applied
    if applied is not None:
        mode = MODES[applied.edition, applied.schedule]
        stays = not mode.labels.items() <= labels.items()
        applied = applied.model_copy(update=note_readings(seen, applied, ctx, stays=stays))
        records = records.model_copy(update={"applied": applied})
        records = note_module(seen, records, mode, ctx)
        if applied.mode_unknown:
            plan = replace(plan, message=f"{plan.message}. {describe_unknown(applied)}")
    action = build_apply(
        seen.node, labels, records, cordon=seen.node.owns_cordon, message=plan.message
    )
    ours = action.labels
    settled = ours.items() <= seen.node.labels.items() and ours.keys() <= seen.node.owned
    return plan if settled and records == seen.records else replace(plan, action=action)


def describe_conflicts(plan: StepResult, conflicting: StepResult) -> StepResult:
    """A plan of a node on which somebody fights for a label that is not the mode's."""
    wakes = [
        p.requeue_after_seconds for p in (plan, conflicting) if p.requeue_after_seconds is not None
    ]
    plan = replace(
        plan, conflicts=conflicting.conflicts, requeue_after_seconds=min(wakes, default=None)
    )
    if plan.reason not in (Reason.DRIFT_REVERTED, Reason.UPDATING):
        return plan
    return replace(
        plan, state=conflicting.state, reason=conflicting.reason, message=conflicting.message
    )
