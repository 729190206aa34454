"""The rules of a change that failed: its node stays cordoned, and halts its pool's rollout.

The change may still be completed automatically, by the rules of the phase in which it failed.
"""

from dataclasses import dataclass

from gpushare.core.nodechange.blockers import find_blocking_pods
from gpushare.core.nodechange.member_step import MemberStep
from gpushare.core.nodechange.phases.labelled import is_completion
from gpushare.core.nodechange.phases.teardown import MODULE_FAILURES, find_removing_job, resume
from gpushare.core.nodechange.step import Step
from gpushare.core.records.change_record import Change, ChangePhase, Failure
from gpushare.core.rollout.window_state import HOLDS_ALL
from gpushare.core.snapshot.actions import (
    ApplyNode,
    EvictPods,
    Halt,
    NodeState,
    Verdict,
)
from gpushare.editions.edition import Outcome, Transition
from gpushare.editions.registry import find_transition
from gpushare.names import Reason

UNTIL_FIXED = "The node stays cordoned until this is fixed"


@dataclass(frozen=True)
class FailedStep:
    """A node whose change failed, and the result of the rules of the phase in which it failed."""

    member: MemberStep
    failure: Failure
    in_phase: Verdict

    @property
    def is_of_another_attempt(self) -> bool:
        """Whether the spec or a retry annotation has changed since the failure."""
        return self.failure.attempt != self.member.policy.attempt

    @property
    def may_try_again(self) -> bool:
        """Whether the change may be tried again now, in a new attempt.

        It may not while the pool is frozen, contested or paused; a teardown, which ends with a
        reboot, may only in a window.
        """
        refusal, is_teardown = self.member.window_refusal, self.member.change.teardown is not None
        is_held = refusal is not None and (refusal.reason in HOLDS_ALL or is_teardown)
        return self.is_of_another_attempt and self.member.pool.acts and not is_held

    @property
    def is_superseded(self) -> bool:
        """Whether the pool wants a mode other than the one that the change brings."""
        change, wanted = self.member.change, self.member.wanted
        is_unread = not wanted.is_resolved and wanted.config == change.mode.config
        if wanted.schedule == change.to or is_unread:
            return False
        return change.rolls_back is None or self.is_of_another_attempt

    @property
    def reason(self) -> Reason:
        """The failure's reason; a reason unknown to this version becomes DeadlineExceeded."""
        known = self.failure.reason in set(Reason)
        return Reason(self.failure.reason) if known else Reason.DEADLINE_EXCEEDED


def complete(step: FailedStep) -> Verdict | None:
    """Verify the mode and uncordon the node if the plugin has returned after all."""
    is_over = is_completion(step.in_phase) and not step.may_try_again
    return step.in_phase if is_over else None


def cordon_again(step: FailedStep) -> Verdict | None:
    """Cordon the node again if a user uncordoned it, even if its plugin has returned."""
    member = step.member
    if member.seen.is_out_of_service:
        return None
    message, action = f"{step.failure.message}. The node is cordoned again", step.in_phase.action
    if not (isinstance(action, ApplyNode) and action.cordon):
        # The phase's write would restore the cordon together with the labels.
        action = member.write_change("cordoned again")
    waits = step.in_phase.requeue_after
    return Verdict(NodeState.FAILED, step.reason, message, action, requeue_after=waits)


def wait_for_job(step: FailedStep) -> Verdict | None:
    """Wait for a Job that removes the module, if the pool now wants another mode."""
    job = find_removing_job(step.member.seen)
    if not step.is_superseded or job is None:
        return None
    # The Job may remove the module from under pods that come next.
    message = f"{step.failure.message}. Waiting for Job {job} to end"
    return Verdict(NodeState.FAILED, step.reason, message)


def follow(step: FailedStep, to_other_mode: Verdict) -> Verdict:
    """Return the verdict that leads to another mode, on a node that is still failed.

    The node is decided again when the failed change must be: that may still be completed.
    """
    waits = (to_other_mode.requeue_after, step.in_phase.requeue_after)
    return Verdict(
        NodeState.FAILED,
        step.reason,
        f"{step.failure.message}. {to_other_mode.message}",
        to_other_mode.action,
        to_other_mode.start,
        requeue_after=min((wait for wait in waits if wait is not None), default=None),
        pending=to_other_mode.pending,
    )


def try_again(step: FailedStep) -> Verdict | None:
    """Try again with a new deadline if the spec or a retry annotation has changed."""
    member = step.member
    if not step.may_try_again:
        return None
    again: dict[str, object] = {
        "failure": None,
        "restarted_again": None,
        "labelled_at": member.ctx.now,
    }
    if member.change.teardown is not None:
        again |= resume(member.seen, member.change)
    message = "The change is tried again"
    return member.updating(Reason.UPDATING, message, member.write_change(message, **again))


def roll_back(step: FailedStep) -> Verdict | None:
    """Roll back if the pool does: the reverse change takes every step, on the cordoned node."""
    if _why_not_rolled_back(step):
        return None
    member, change = step.member, step.member.change
    message = f"Rolling back {change.to} -> {change.from_mode}"
    action = member.write_change(
        message,
        from_mode=change.to,
        to=change.from_mode,
        phase=ChangePhase.CORDONED,
        since=member.ctx.now,
        restart=_find_reverse(change).outcome is Outcome.APPLY_AND_RESTART,
        plugins=(),
        restarted_again=None,
        failure=None,
        rolls_back=step.failure,
    )
    return Verdict(
        NodeState.UPDATING,
        Reason.ROLLED_BACK,
        message,
        action,
        # The failed change may be verified before that is written.
        requeue_after=step.in_phase.requeue_after,
        halt=describe_halt(member, step.failure),
    )


def stay(step: FailedStep) -> Verdict:
    """Keep the cordon, and restore labels, until the failure is fixed. No pod is evicted."""
    member, action = step.member, step.in_phase.action
    # The limit of restarts ends without an event, and a rollback can begin then.
    free_at = member.find_restart_limit() if member.policy.rolls_back else None
    waits = (step.in_phase.requeue_after, free_at - member.ctx.now if free_at else None)
    return Verdict(
        NodeState.FAILED,
        step.reason,
        f"{step.failure.message}. {_why_not_rolled_back(step)}",
        None if isinstance(action, EvictPods) else action,
        requeue_after=min((wait for wait in waits if wait is not None), default=None),
        halt=describe_halt(member, step.failure),
    )


def _why_not_rolled_back(step: FailedStep) -> str:
    """Explain why the change is not rolled back now; empty if it can be."""
    member, change, policy = step.member, step.member.change, step.member.policy
    if until_retried := tell_to_retry(member, step.failure.reason):
        return until_retried
    if policy.rolls_back and change.teardown is not None:
        return f"A teardown is not rolled back. {UNTIL_FIXED}"
    if not policy.rolls_back or change.rolls_back is not None or change.initializing:
        return UNTIL_FIXED
    former = member.from_mode
    if change.from_mode == change.to or not former.is_resolved:
        return f"There is no former mode to roll back to. {UNTIL_FIXED}"
    if not member.ctx.plugin_daemonsets.defines(former):
        return f"Not rolled back: the ConfigMap no longer defines {former.schedule}. {UNTIL_FIXED}"
    transition = _find_reverse(change)
    if transition.refusal is not None:
        way = f"{change.to} -> {change.from_mode}"
        return (
            f"It is not rolled back, because {way} {transition.outcome}. The node stays cordoned "
            "until the failure is fixed, then recovers automatically"
        )
    if transition.outcome is Outcome.APPLY_AND_RESTART and not policy.may_restart:
        why = "The device plugin must be restarted, but devicePlugin.restart is Never"
        return f"Not rolled back: {why}. {UNTIL_FIXED}"
    if free_at := member.find_restart_limit():
        then = free_at.isoformat(timespec="seconds")
        return (
            f"Its plugin was replaced too often within an hour: it is not rolled back until {then}"
        )
    if not member.seen.node.ready:
        # In phase Cordoned the rollback would be aborted for that, and return to this rule.
        return f"The rollback to {change.from_mode} waits until the node is Ready"
    blocker = (
        member.reason_to_stay_away
        or member.seen.maintenance
        or find_blocking_pods(transition, member.to, member.from_mode, member.seen.pods)
    )
    if blocker is not None:
        return f"The rollback to {change.from_mode} waits. {blocker.message}"
    return ""


def _find_reverse(change: Change) -> Transition:
    return find_transition(change.edition, change.to, change.from_mode)


def tell_to_retry(step: Step, reason: str) -> str:
    """Explain how to retry a teardown that failed, for which no other Job starts; else empty."""
    if reason not in MODULE_FAILURES:
        return ""
    node = step.seen.node.name
    return f"The node stays cordoned: fix the cause, then run `kubectl gpushare retry node/{node}`"


def describe_halt(step: Step, failure: Failure) -> Halt | None:
    """Describe the failure by which the node halts its pool; None for a node that joins.

    A node that joins takes no capacity away, so its failure halts no other node.
    """
    if step.change.initializing:
        return None
    return Halt(failure.describe(step.seen.node.name))
