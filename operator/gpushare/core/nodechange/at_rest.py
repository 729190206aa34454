"""The rules of a node on which no change is under way."""

from dataclasses import replace
from datetime import timedelta
from functools import cached_property

from gpushare import names
from gpushare.api.pool import Pool
from gpushare.core.nodechange.blockers import (
    find_mig,
    find_other_edition,
    find_pods_of_another_pool,
)
from gpushare.core.nodechange.last_applied import plan_noted
from gpushare.core.nodechange.ongoing_change import transition_of
from gpushare.core.nodechange.revert_in_wait import (
    find_enforced_labels,
    plan_conflict,
    plan_revert_in_wait,
)
from gpushare.core.nodechange.step import Step
from gpushare.core.ownership.drift import Verdict, judge_drift
from gpushare.core.snapshot.actions import Blocker, NodeState, StepResult
from gpushare.core.snapshot.effective_mode import find_effective_mode
from gpushare.names import Reason


class RestingStep(Step):
    """A member of a pool in a mode that is in force, or waiting for its change."""

    @cached_property
    def member_of(self) -> Pool:
        """Its pool."""
        assert self.pool is not None
        return self.pool

    @cached_property
    def reason_to_stay_away(self) -> Blocker | None:
        """Why the node must be left exactly as it is."""
        node, pool = self.seen.node, self.member_of
        return (
            find_mig(node)
            or find_other_edition(node, pool.spec.edition)
            or find_pods_of_another_pool(node, pool.name, self.seen.pods)
        )

    @cached_property
    def from_mode(self) -> str:
        """The mode that is in force."""
        return find_effective_mode(
            self.member_of.spec.edition,
            self.seen.node,
            self.seen.pods,
            self.seen.records.applied,
        )

    @cached_property
    def enforced_labels(self) -> dict[str, str]:
        """The labels that must be there now."""
        return find_enforced_labels(self.seen, self.member_of, self.from_mode)

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
        wanted = self.member_of.spec.schedule
        return applied is not None and applied.schedule == self.from_mode != wanted


def leave_alone(step: RestingStep) -> StepResult | None:
    """MIG devices, labels of another edition, or pods of another pool: nothing is written."""
    blocker = step.reason_to_stay_away
    return step.blocked(blocker) if blocker is not None else None


def wait_after_abort(step: RestingStep) -> StepResult | None:
    """A change was aborted for a pod or a user: it is tried again 30 s later."""
    change, pool = step.seen.records.change, step.member_of
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


def yield_to_manager(step: RestingStep) -> StepResult | None:
    """Another manager keeps writing the mode's labels: no change begins, no plugin is restarted."""
    if not step.verdict.fought_over & names.MODE_LABELS:
        return None
    return plan_conflict(step.seen, step.enforced_labels, step.verdict, step.ctx)


def pause_reverts(step: RestingStep) -> StepResult | None:
    """Labels were put back 6 times within a minute: done again after that."""
    if step.verdict.wait is None:
        return None
    return step.seen.plan_pause(step.verdict, step.ctx.now)


def revert(step: RestingStep) -> StepResult | None:
    """It waits for a change, and somebody changed the labels in force: they are put back."""
    if not step.waits_for_change:
        return None
    return plan_revert_in_wait(step.seen, step.enforced_labels, step.verdict, step.ctx)


def note_readings(step: RestingStep) -> StepResult | None:
    """It waits for a change, and its plugin restarted: what it has read is written down."""
    if not step.waits_for_change:
        return None
    return plan_noted(step.seen, step.enforced_labels, step.ctx)


def keep_cordon(step: RestingStep, plan: StepResult) -> StepResult:
    """`plan`, of a node that is cordoned by us although no change is recorded: it was removed by
    hand, and half-way changed it must not take pods."""
    if not step.seen.node.owns_cordon or plan.action is not None:
        return plan
    return replace(plan, message=f"{plan.message}. The cordon is ours, and stays until then")
