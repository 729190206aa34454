"""Changes that fail: at their deadline, or because the resource stays away.

That a change failed is written on its node, so that no restart forgets it, and halts the pool until
the attempt is another one: a new spec, or a person's retry annotation.
"""

from dataclasses import replace
from datetime import datetime

from gpushare.core.nodechange.blockers import find_blocking_pods
from gpushare.core.nodechange.labelled import is_completion
from gpushare.core.nodechange.step import Step
from gpushare.core.nodechange.teardown import resume, waits_for_user
from gpushare.core.records.change_record import ChangePhase, Failure
from gpushare.core.snapshot.actions import (
    CreateJob,
    DeletePlugins,
    NodeState,
    RecordPlugins,
    StepResult,
)
from gpushare.core.snapshot.admissions import record_boot
from gpushare.editions.edition import Outcome
from gpushare.editions.registry import find_transition
from gpushare.names import Reason

_MESSAGE_CHARACTERS = 400
_SILENT = (Reason.RESOURCE_NOT_READY, Reason.NO_CARDS)
_UNTIL_MENDED = "the node stays cordoned until this is mended"


def describe_failure(node: str, failure: Failure) -> str:
    """Which node failed, at which step and why."""
    return f"{node} failed in phase {failure.phase}: {failure.message}"


def read_reason(failure: Failure) -> Reason:
    """Its reason; one that only another version of the operator knows is a passed deadline."""
    known = failure.reason in set(Reason)
    return Reason(failure.reason) if known else Reason.DEADLINE_EXCEEDED


def try_again(step: Step) -> StepResult | None:
    """It failed, and the spec or a retry annotation is another by now: it gets a new deadline."""
    change = step.change
    if change.failure is None or change.failure.attempt == step.policy.attempt:
        return None
    again: dict[str, object] = {
        "failure": None,
        "restarted_again": None,
        "labelled_at": step.ctx.now,
    }
    if change.teardown is not None:
        again |= resume(step.seen, change)
    action = step.write_change("tried again", **again)
    return step.updating(Reason.UPDATING, "tried again", action)


def judge_progress(step: Step, plan: StepResult) -> StepResult:
    """`plan` of a change whose labels are written, or what is done because it takes too long.

    Waiting for pods has no deadline, nor has waiting for a person; everything else has.
    """
    change, policy, now = step.change, step.policy, step.ctx.now
    if is_completion(plan):
        return plan
    if change.failure is not None:
        return _plan_failed(step, change.failure, plan)
    assert change.labelled_at is not None
    if plan.state is NodeState.FAILED:
        return _plan_failure(step, plan.reason, plan.message)
    if plan.reason is Reason.WORKLOADS_PRESENT or waits_for_user(step):
        return plan
    deadline = change.labelled_at + policy.ready_timeout
    if now >= deadline and _is_ours_to_do(plan) and not step.seen.is_refused:
        # Pods were waited for, or no operator ran: what is left to do has its time from now on.
        return replace(plan, action=step.write_change("the deadline runs anew", labelled_at=now))
    if now >= deadline:
        since = "the labels" if change.teardown is None else "its last step"
        message = f"{plan.message}, {policy.ready_timeout.total_seconds():g} s after {since}"
        failed = _plan_failure(step, Reason.DEADLINE_EXCEEDED, message)
        return replace(failed, requeue_after_seconds=plan.requeue_after_seconds)
    zero_until = _find_end_of_patience(step, plan)
    if zero_until is not None and now >= zero_until:
        if change.restarted_again is None and policy.may_restart:
            plan = _restart_again(step)
        elif change.restarted_again is not None:
            message = f"{plan.message}, and a second restart did not help"
            found = plan.reason is not Reason.NO_CARDS
            reason = Reason.RESOURCE_STAYS_ZERO if found else plan.reason
            return _plan_failure(step, reason, message)
        zero_until = None
    waits = [(moment - now).total_seconds() for moment in (deadline, zero_until) if moment]
    if plan.requeue_after_seconds is not None:
        waits.append(plan.requeue_after_seconds)
    return replace(plan, deadline=deadline, requeue_after_seconds=min(waits))


def _is_ours_to_do(plan: StepResult) -> bool:
    """Whether the next step is one that nobody but us was waiting for."""
    return isinstance(plan.action, RecordPlugins | DeletePlugins | CreateJob)


def _find_end_of_patience(step: Step, plan: StepResult) -> datetime | None:
    """When a plugin that is Ready without its resource has had time enough; None where none is.

    Seen in the field: the plugin runs, and the node shows "0" until it is restarted once more
    (NVIDIA/k8s-device-plugin, issue 1228).
    """
    to, offered = step.to, step.seen.node.allocatable
    is_zero = bool(to.plugin) and any(not offered.get(r) for r in to.resources)
    if plan.reason not in _SILENT or not is_zero:
        return None
    replaced = {plugin.uid for plugin in step.change.plugins}
    since = [
        pod.ready_since
        for pod in step.seen.pods
        if pod.daemonset == to.plugin and pod.ready_since and pod.uid not in replaced
    ]
    return max(since) + step.ctx.timing.zero_patience if since else None


def _restart_again(step: Step) -> StepResult:
    is_teardown = step.change.teardown is not None
    message = "the plugin came back without its resource; it is restarted once more"
    action = step.write_change(
        message,
        phase=ChangePhase.REBOOTED if is_teardown else ChangePhase.LABELLED,
        restart=True,
        plugins=(),
        restarted_again=True,
    )
    return step.updating(Reason.PLUGIN_RESTARTING, message, action)


def _plan_failure(step: Step, reason: Reason, message: str) -> StepResult:
    """Write on the node that its change failed."""
    failure = Failure(
        attempt=step.policy.attempt,
        phase=step.change.phase,
        reason=reason,
        message=message[:_MESSAGE_CHARACTERS],
        at=step.ctx.now,
    )
    # In another boot the module may be gone.
    boot = record_boot(step.seen) if reason is Reason.MODULE_STILL_LOADED else {}
    action = step.write_change(f"failed: {failure.message}", failure=failure, **boot)
    told = message if step.policy.rolls_back else f"{message}; {_UNTIL_MENDED}"
    plan = step.seen.plan(NodeState.FAILED, reason, told, action)
    return replace(plan, halts=_halt(step, failure))


def _plan_failed(step: Step, failure: Failure, plan: StepResult) -> StepResult:
    """A change that failed: taken back where the pool says so, or left until it is mended."""
    change, policy = step.change, step.policy
    kept = _UNTIL_MENDED
    if policy.rolls_back and change.teardown is not None:
        kept = f"a teardown is not rolled back; {kept}"
    elif policy.rolls_back and change.rolls_back is None and not change.initializing:
        transition = find_transition(change.edition, change.to, change.from_mode)
        blocker = find_blocking_pods(transition, step.to, step.from_mode, step.seen.pods)
        if change.from_mode == change.to:
            kept = f"there is no other mode to go back to; {kept}"
        elif transition.refusal is not None:
            way = f"{change.to} -> {change.from_mode}"
            kept = f"not rolled back ({way}: {transition.message}); {kept}"
        elif transition.outcome is Outcome.APPLY_AND_RESTART and not policy.may_restart:
            kept = f"not rolled back: devicePlugin.restart is Never, and that needs one; {kept}"
        elif not step.seen.node.ready:
            # Cordoned, it would be aborted for that, and come back here.
            kept = f"rolled back to {change.from_mode} later: the node is not ready"
        elif blocker is not None:
            kept = f"rolled back to {change.from_mode} later: {blocker.message}"
        else:
            return _plan_rollback(step, failure, transition.outcome)
    return replace(
        plan,
        state=NodeState.FAILED,
        reason=read_reason(failure),
        message=f"{failure.message}; {kept}",
        halts=_halt(step, failure),
    )


def _plan_rollback(step: Step, failure: Failure, outcome: Outcome) -> StepResult:
    """The change back; it goes through every step again, on the node that is still cordoned."""
    change = step.change
    message = f"rolled back: {change.to} -> {change.from_mode}"
    action = step.write_change(
        message,
        from_mode=change.to,
        to=change.from_mode,
        phase=ChangePhase.CORDONED,
        since=step.ctx.now,
        restart=outcome is Outcome.APPLY_AND_RESTART,
        plugins=(),
        restarted_again=None,
        failure=None,
        rolls_back=failure,
    )
    plan = step.updating(Reason.ROLLED_BACK, message, action)
    return replace(plan, halts=_halt(step, failure))


def _halt(step: Step, failure: Failure) -> str:
    """A node that joins takes no capacity away, so that it fails alone."""
    return "" if step.change.initializing else describe_failure(step.seen.node.name, failure)
