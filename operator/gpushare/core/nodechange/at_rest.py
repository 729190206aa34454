"""The rules of a node on which no change is under way."""

from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property

from gpushare import names
from gpushare.api.pool import Pool
from gpushare.core.deviceplugin.verification import verify_mode
from gpushare.core.nodechange.blockers import (
    find_mig,
    find_other_edition,
    find_pods_of_another_pool,
)
from gpushare.core.nodechange.kernel_module import note_module
from gpushare.core.nodechange.last_applied import note_readings
from gpushare.core.nodechange.step import Step, owned_labels, transition_of
from gpushare.core.ownership.drift import Verdict, judge_drift
from gpushare.core.snapshot.actions import Blocker, NodeState, StepResult, build_apply
from gpushare.core.snapshot.effective_mode import describe_unknown, find_effective_mode
from gpushare.core.snapshot.isolation_label import find_isolation_label
from gpushare.core.snapshot.node import NodeSnapshot
from gpushare.editions.registry import desired_labels
from gpushare.names import Reason


@dataclass(frozen=True)
class MemberStep(Step):
    """The same of a node that belongs to a pool."""

    pool: Pool

    @cached_property
    def reason_to_stay_away(self) -> Blocker | None:
        """Why the node must be left exactly as it is."""
        node, pool = self.seen.node, self.pool
        return (
            find_mig(node)
            or find_other_edition(node, pool.spec.edition)
            or find_pods_of_another_pool(node, pool.name, self.seen.pods)
        )

    @cached_property
    def effective_mode(self) -> str:
        """The mode that is in force."""
        return find_effective_mode(
            self.pool.spec.edition,
            self.seen.node,
            self.seen.pods,
            self.seen.records.applied,
        )

    @cached_property
    def enforced_labels(self) -> dict[str, str]:
        """The labels that must be there now."""
        return find_enforced_labels(self.seen, self.pool, self.effective_mode)

    @cached_property
    def verdict(self) -> Verdict:
        """What others did to them."""
        records = self.seen.records
        return judge_drift(
            self.seen.node, records, self.enforced_labels, self.policy.claim, self.ctx.now
        )

    @cached_property
    def waits_for_change(self) -> bool:
        """The recorded mode is in force, and the pool wants another."""
        applied = self.seen.records.applied
        wanted = self.pool.spec.schedule
        return applied is not None and applied.schedule == self.effective_mode != wanted


def leave_alone(step: MemberStep) -> StepResult | None:
    """MIG devices, labels of another edition, or pods of another pool: nothing is written."""
    blocker = step.reason_to_stay_away
    return step.blocked(blocker) if blocker is not None else None


def wait_after_abort(step: MemberStep) -> StepResult | None:
    """A change was aborted for a pod or a user: it is tried again 30 s later."""
    change, pool = step.seen.records.change, step.pool
    if change is None or change.not_before is None:
        return None
    left = change.not_before - step.ctx.now
    # A time further off was written by a clock that is ahead, or by hand.
    if not timedelta() < left <= step.ctx.timing.backoff:
        return None
    wanted = (pool.name, pool.spec.edition, pool.spec.schedule)
    is_same = (change.pool, change.edition, change.to) == wanted
    kind = step.policy.kind_of(change.from_mode, change.to, transition_of(change).outcome)
    return StepResult(
        step.seen.node.name,
        NodeState.WAITING,
        Reason.WAITING_AFTER_LATE_BINDING,
        "gave way to a pod that was bound during the cordon, or to a person; tried again at "
        f"{change.not_before.isoformat(timespec='seconds')}",
        requeue_after_seconds=left.total_seconds(),
        kind=kind if is_same else None,
    )


def yield_to_manager(step: MemberStep) -> StepResult | None:
    """Another manager keeps writing the mode's labels: no change begins, no plugin is restarted.

    What a plugin reads meanwhile nobody knows; it must read ours once the conflict is over.
    """
    seen, verdict = step.seen, step.verdict
    if not verdict.fought_over & names.MODE_LABELS:
        return None
    plan = seen.plan_conflict(verdict)
    if verdict.wait is not None:
        return plan
    labels = {k: v for k, v in step.enforced_labels.items() if k not in verdict.given_up}
    records = seen.records.model_copy(update={"drift": verdict.record})
    applied = seen.records.applied
    if applied is not None:
        mode = applied.mode
        stays = not mode.labels.items() <= labels.items()
        readings = note_readings(seen, applied, step.ctx, stays=stays)
        applied = applied.model_copy(update=readings)
        records = records.model_copy(update={"applied": applied})
        records = note_module(seen, records, mode, step.ctx)
        if applied.mode_unknown:
            plan = replace(plan, message=f"{plan.message}. {describe_unknown(applied)}")
    action = build_apply(
        seen.node, labels, records, cordon=seen.node.owns_cordon, message=plan.message
    )
    ours = action.labels
    settled = ours.items() <= seen.node.labels.items() and ours.keys() <= seen.node.owned
    return plan if settled and records == seen.records else replace(plan, action=action)


def pause_reverts(step: MemberStep) -> StepResult | None:
    """Labels were put back 6 times within a minute: done again after that."""
    if step.verdict.wait is None:
        return None
    return step.seen.plan_pause(step.verdict, step.ctx.now)


def revert(step: MemberStep) -> StepResult | None:
    """It waits for a change, and the labels in force were changed: they are put back."""
    seen, held, applied = step.seen, step.enforced_labels, step.seen.records.applied
    if not step.waits_for_change or applied is None:
        return None
    once_ours = {*(seen.records.initial_values or ()), names.LABEL_ISOLATION_VERIFIED}
    lost = {key: held[key] for key in held.keys() & once_ours - seen.node.owned}
    if lost.items() <= seen.node.labels.items():
        return None
    applied = applied.model_copy(update=note_readings(seen, applied, step.ctx))
    records = seen.records.model_copy(update={"drift": step.verdict.record, "applied": applied})
    message = "labels put back"
    action = build_apply(
        seen.node,
        {**owned_labels(seen.node), **lost},
        note_module(seen, records, applied.mode, step.ctx),
        cordon=seen.node.owns_cordon,
        message=message,
    )
    return step.updating(Reason.DRIFT_REVERTED, message, action)


def note_restart(step: MemberStep) -> StepResult | None:
    """It waits for a change, and its plugin restarted: what it has read is written down.

    It has read the labels of the mode in force, which are there and ours. Unless that is written
    down, a label that is written later could have been what it read.
    """
    seen, held, applied = step.seen, step.enforced_labels, step.seen.records.applied
    if not step.waits_for_change or applied is None or applied.restart_pending:
        return None
    mode = applied.mode
    intact = held.items() <= seen.node.labels.items() and held.keys() <= seen.node.owned
    if not intact or not mode.labels.items() <= held.items():
        return None
    if applied.mode_unknown and verify_mode(seen.node, seen.pods, mode, step.ctx) is not None:
        return None
    changes = note_readings(seen, applied, step.ctx)
    if not changes:
        return None
    records = seen.records.model_copy(update={"applied": applied.model_copy(update=changes)})
    message = "records are written"
    action = build_apply(
        seen.node,
        owned_labels(seen.node),
        records,
        cordon=seen.node.owns_cordon,
        message=message,
    )
    return step.updating(Reason.UPDATING, message, action)


def keep_cordon(step: MemberStep, plan: StepResult) -> StepResult:
    """`plan`, of a node that is cordoned by us although no change is recorded: it was removed by
    hand, and half-way changed it must not take pods."""
    if not step.seen.node.owns_cordon or plan.action is not None:
        return plan
    return replace(plan, message=f"{plan.message}. The cordon is ours, and stays until then")


def find_enforced_labels(seen: NodeSnapshot, pool: Pool, from_mode: str) -> dict[str, str]:
    """The labels that must be there now.

    While a node waits for a change, those are not the pool's yet, but of the mode in force; a value
    that is the pool's already was put there by a person who prepares the node for it.
    """
    applied, wanted = seen.records.applied, desired_labels(pool.name, pool.spec)
    if applied is None or applied.edition is not pool.spec.edition or from_mode != applied.schedule:
        return wanted | find_isolation_label(seen.node, wanted, seen.records)
    effective_mode = applied.mode.labels
    labels = desired_labels(applied.pool, pool.spec)
    held = {key: value for key, value in labels.items() if key not in names.MODE_LABELS}
    present = seen.node.labels
    held |= {
        key: wanted[key] if key in wanted and present.get(key) == wanted[key] else value
        for key, value in effective_mode.items()
    }
    return held | find_isolation_label(seen.node, held, seen.records)


def describe_conflicts(plan: StepResult, conflicting: StepResult) -> StepResult:
    """A plan of a node on which another manager fights for a label that is not the mode's."""
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
