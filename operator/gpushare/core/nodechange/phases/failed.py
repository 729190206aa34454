"""The rules of a change that failed: its node stays cordoned, and halts its pool's rollout.

The change may still be completed automatically, by the rules of the phase in which it failed.
"""

from dataclasses import dataclass, replace

from gpushare.core.nodechange.blockers import find_blocking_pods
from gpushare.core.nodechange.member_step import MemberStep
from gpushare.core.nodechange.phases.labelled import is_completion
from gpushare.core.nodechange.phases.teardown import MODULE_FAILURES, find_removing_job, resume
from gpushare.core.nodechange.step import Step
from gpushare.core.records.change_record import Change, ChangePhase, Failure
from gpushare.core.rollout.window_state import HOLDS_ALL
from gpushare.core.snapshot.actions import ApplyNode, EvictPods, NodeState, StepResult
from gpushare.editions.edition import Outcome, Transition
from gpushare.editions.registry import find_transition
from gpushare.names import Reason

UNTIL_FIXED = "The node stays cordoned until this is fixed"


@dataclass(frozen=True)
class FailedStep:
    """A node whose change failed, and the result of the rules of the phase in which it failed."""

    member: MemberStep
    failure: Failure
    phase_result: StepResult

    @property
    def is_of_another_attempt(self) -> bool:
        """Whether the spec or a retry annotation has changed since the failure."""
        return self.failure.attempt != self.member.policy.attempt

    @property
    def may_try_again(self) -> bool:
        """Whether the change may be tried again now, in a new attempt.

        It may not while the pool is frozen or contested; a teardown, which ends with a reboot, may
        only in a window.
        """
        refusal, is_teardown = self.member.window_refusal, self.member.change.teardown is not None
        is_held = refusal is not None and (refusal.reason in HOLDS_ALL or is_teardown)
        return self.is_of_another_attempt and not is_held

    @property
    def is_superseded(self) -> bool:
        """Whether the pool wants a mode other than the one that the change brings."""
        change = self.member.change
        wanted = self.member.wanted
        is_unread = not wanted.is_resolved and wanted.config == change.mode.config
        if wanted.schedule == change.to or is_unread:
            return False
        return change.rolls_back is None or self.is_of_another_attempt

    def failed(self, message: str, plan: StepResult) -> StepResult:
        """Return `plan` with state Failed, the failure's reason, and `message`."""
        reason = _read_reason(self.failure)
        return replace(plan, state=NodeState.FAILED, reason=reason, message=message)


def complete(step: FailedStep) -> StepResult | None:
    """Verify the mode and uncordon the node if the plugin has returned after all."""
    is_over = is_completion(step.phase_result) and not step.may_try_again
    return step.phase_result if is_over else None


def cordon_again(step: FailedStep) -> StepResult | None:
    """Cordon the node again if a user uncordoned it, even if its plugin has returned."""
    member = step.member
    if member.seen.is_out_of_service:
        return None
    plan = step.failed(f"{step.failure.message}. The node is cordoned again", step.phase_result)
    if isinstance(plan.action, ApplyNode) and plan.action.cordon:
        # That write restores the cordon together with the labels.
        return plan
    return replace(plan, action=member.write_change("cordoned again"))


def wait_for_job(step: FailedStep) -> StepResult | None:
    """Wait for a Job that removes the module, if the pool now wants another mode."""
    job = find_removing_job(step.member.seen)
    if not step.is_superseded or job is None:
        return None
    # The Job may remove the module from under pods that come next.
    message = f"{step.failure.message}. Waiting for Job {job} to end"
    return step.member.seen.plan(NodeState.FAILED, _read_reason(step.failure), message)


def follow(step: FailedStep, plan: StepResult) -> StepResult:
    """Return `plan`, which leads to another mode, as the plan of a node that is still failed.

    It wakes when the failed change must be looked at again, since that may still be completed.
    """
    message = f"{step.failure.message}. {plan.message}"
    wakes = (plan.requeue_after_seconds, step.phase_result.requeue_after_seconds)
    wake = min((wake for wake in wakes if wake is not None), default=None)
    return replace(step.failed(message, plan), requeue_after_seconds=wake)


def try_again(step: FailedStep) -> StepResult | None:
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


def roll_back(step: FailedStep) -> StepResult | None:
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
    plan = member.updating(Reason.ROLLED_BACK, message, action)
    # The failed change may be verified before that is written.
    wake = step.phase_result.requeue_after_seconds
    return replace(plan, halts=describe_halt(member, step.failure), requeue_after_seconds=wake)


def stay(step: FailedStep) -> StepResult:
    """Keep the node cordoned until the failure is fixed, or a user decides. No pod is evicted."""
    plan = step.failed(f"{step.failure.message}. {_why_not_rolled_back(step)}", step.phase_result)
    if isinstance(plan.action, EvictPods):
        plan = replace(plan, action=None)
    return replace(plan, halts=describe_halt(step.member, step.failure))


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


def describe_halt(step: Step, failure: Failure) -> str:
    """Describe the failure by which the node halts its pool; empty for a node that joins.

    A node that joins takes no capacity away, so its failure halts no other node.
    """
    return "" if step.change.initializing else describe_failure(step.seen.node.name, failure)


def describe_failure(node: str, failure: Failure) -> str:
    """Describe which node failed, in which phase, and why."""
    return f"Node {node} failed in phase {failure.phase}: {failure.message}"


def _read_reason(failure: Failure) -> Reason:
    """Return the failure's reason; a reason unknown to this version becomes DeadlineExceeded."""
    known = failure.reason in set(Reason)
    return Reason(failure.reason) if known else Reason.DEADLINE_EXCEEDED
