"""The labels that must be on a node now, and what is done where somebody else changes them."""

from dataclasses import replace

from gpushare import names
from gpushare.api.pool import Pool
from gpushare.core.actions import NodePlan, NodeState, build_apply
from gpushare.core.applied import note_readings
from gpushare.core.change import owned_labels
from gpushare.core.drift import Verdict
from gpushare.core.inforce import describe_unknown
from gpushare.core.isolationlabel import find_isolation_label
from gpushare.core.modes import MODES, desired_labels
from gpushare.core.module import note_module
from gpushare.core.observed import Observed, Pass
from gpushare.names import Reason


def find_held(seen: Observed, pool: Pool, of: str) -> dict[str, str]:
    """The labels that must be there now.

    While a node waits for a change, those are not the pool's yet, but of the mode in force; a value
    that is the pool's already was put there by a person who prepares the node for it.
    """
    applied, wanted = seen.records.applied, desired_labels(pool.name, pool.spec)
    if applied is None or applied.edition is not pool.spec.edition or of != applied.schedule:
        return wanted | find_isolation_label(seen.node, wanted, seen.records)
    in_force = MODES[applied.edition, applied.schedule].labels
    labels = desired_labels(applied.pool, pool.spec)
    held = {key: value for key, value in labels.items() if key not in names.MODE_LABELS}
    present = seen.node.labels
    held |= {
        key: wanted[key] if key in wanted and present.get(key) == wanted[key] else value
        for key, value in in_force.items()
    }
    return held | find_isolation_label(seen.node, held, seen.records)


def plan_put_back(
    seen: Observed, held: dict[str, str], verdict: Verdict, at: Pass
) -> NodePlan | None:
    """Drift on a node that waits for another change: back to what is in force; None without."""
    once_ours = {*(seen.records.found or ()), names.LABEL_ISOLATION_VERIFIED}
    lost = {key: held[key] for key in held.keys() & once_ours - seen.node.owned}
    if lost.items() <= seen.node.labels.items():
        return None
    labels = {**owned_labels(seen.node), **lost}
    message = "labels put back"
    applied = seen.records.applied
    if applied is not None:
        applied = applied.model_copy(update=note_readings(seen, applied, at))
    records = seen.records.model_copy(update={"drift": verdict.record, "applied": applied})
    if applied is not None:
        records = note_module(seen, records, MODES[applied.edition, applied.schedule], at)
    action = build_apply(seen.node, labels, records, cordon=seen.node.owns_cordon, message=message)
    return seen.plan(NodeState.UPDATING, Reason.DRIFT_REPAIRED, message, action)


def plan_contested(seen: Observed, held: dict[str, str], verdict: Verdict, at: Pass) -> NodePlan:
    """A rival writes the mode: no change begins, and no plugin is restarted.

    What a plugin reads meanwhile nobody knows; it must read ours once the fight is over.
    """
    labels = {key: value for key, value in held.items() if key not in verdict.given_up}
    plan = seen.plan_contested(verdict)
    if verdict.wait is not None:
        return plan
    records = seen.records.model_copy(update={"drift": verdict.record})
    applied = seen.records.applied
    if applied is not None:
        mode = MODES[applied.edition, applied.schedule]
        stays = not mode.labels.items() <= labels.items()
        applied = applied.model_copy(update=note_readings(seen, applied, at, stays=stays))
        records = records.model_copy(update={"applied": applied})
        records = note_module(seen, records, mode, at)
        if applied.mode_unknown:
            plan = replace(plan, message=f"{plan.message}. {describe_unknown(applied)}")
    action = build_apply(
        seen.node, labels, records, cordon=seen.node.owns_cordon, message=plan.message
    )
    ours = action.labels
    settled = ours.items() <= seen.node.labels.items() and ours.keys() <= seen.node.owned
    return plan if settled and records == seen.records else replace(plan, action=action)


def tell_rivals(plan: NodePlan, contested: NodePlan) -> NodePlan:
    """A plan of a node on which somebody fights for a label that is not the mode's."""
    wakes = [p.wake_after_seconds for p in (plan, contested) if p.wake_after_seconds is not None]
    plan = replace(plan, rivals=contested.rivals, wake_after_seconds=min(wakes, default=None))
    if plan.reason not in (Reason.DRIFT_REPAIRED, Reason.UPDATING):
        return plan
    return replace(plan, state=contested.state, reason=contested.reason, message=contested.message)
