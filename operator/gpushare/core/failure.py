"""Changes that fail: at their deadline, or because the resource stays away.

That a change failed is written on its node, so that no restart forgets it, and halts the pool until
the attempt is another one: a new spec, or a person's retry annotation.
"""

from dataclasses import replace
from datetime import datetime

from gpushare.core.actions import (
    ApplyNode,
    CreateJob,
    DeletePlugins,
    NodePlan,
    NodeState,
    RecordPlugins,
    build_apply,
)
from gpushare.core.admitted import record_boot
from gpushare.core.blockers import find_blocking_pods
from gpushare.core.change import owned_labels
from gpushare.core.completion import is_completion
from gpushare.core.modes import MODES, Mode
from gpushare.core.observed import Observed, Pass
from gpushare.core.policy import Policy
from gpushare.core.records import Change, Failure, Step
from gpushare.core.teardown import resume, waits_for_person
from gpushare.core.transitions import Outcome, find_transition
from gpushare.names import Reason

_MESSAGE_CHARACTERS = 400
_SILENT = (Reason.RESOURCE_NOT_READY, Reason.NO_CARDS)
_UNTIL_MENDED = "the node stays cordoned until this is mended"


def describe_failure(node: str, failure: Failure) -> str:
    """Which node failed, at which step and why."""
    return f"{node} failed at the step {failure.step}: {failure.message}"


def read_reason(failure: Failure) -> Reason:
    """Its reason; one that only another version of the operator knows is a passed deadline."""
    known = failure.reason in set(Reason)
    return Reason(failure.reason) if known else Reason.DEADLINE_EXCEEDED


def plan_resumed(seen: Observed, change: Change, policy: Policy, at: Pass) -> NodePlan | None:
    """A change that failed in another attempt gets a new deadline; None where it did not."""
    if change.failure is None or change.failure.attempt == policy.attempt:
        return None
    again: dict[str, object] = {"failure": None, "renewed": None, "labelled_at": at.now}
    if change.teardown is not None:
        again |= resume(seen, change)
    action = _write_change(seen, change.model_copy(update=again), "tried again")
    return seen.plan(NodeState.UPDATING, Reason.UPDATING, "tried again", action)


def judge_progress(
    seen: Observed, change: Change, plan: NodePlan, policy: Policy, at: Pass
) -> NodePlan:
    """`plan` of a change whose labels are written, or what is done because it takes too long.

    Waiting for pods has no deadline, nor has waiting for a person; everything else has.
    """
    if is_completion(plan):
        return plan
    if change.failure is not None:
        return _plan_failed(seen, change, change.failure, plan, policy, at)
    assert change.labelled_at is not None
    if plan.state is NodeState.FAILED:
        return _plan_failure(seen, change, plan.reason, plan.message, policy, at)
    if plan.reason is Reason.WORKLOADS_PRESENT or waits_for_person(seen, change, policy, at):
        return plan
    seconds = policy.ready_timeout.total_seconds()
    deadline = change.labelled_at + policy.ready_timeout
    if at.now >= deadline and _is_ours_to_do(plan) and not seen.is_refused:
        # Pods were waited for, or no operator ran: what is left to do has its time from now on.
        later = change.model_copy(update={"labelled_at": at.now})
        return replace(plan, action=_write_change(seen, later, "the deadline runs anew"))
    if at.now >= deadline:
        since = "the labels" if change.teardown is None else "its last step"
        message = f"{plan.message}, {seconds:g} s after {since}"
        failed = _plan_failure(seen, change, Reason.DEADLINE_EXCEEDED, message, policy, at)
        return replace(failed, wake_after_seconds=plan.wake_after_seconds)
    zero_until = _find_end_of_patience(seen, change, plan, at)
    if zero_until is not None and at.now >= zero_until:
        if change.renewed is None and policy.may_restart:
            plan = _plan_renewal(seen, change)
        elif change.renewed is not None:
            message = f"{plan.message}, and a second restart did not help"
            found = plan.reason is not Reason.NO_CARDS
            reason = Reason.RESOURCE_STAYS_ZERO if found else plan.reason
            return _plan_failure(seen, change, reason, message, policy, at)
        zero_until = None
    return _tell_deadline(plan, deadline, zero_until, at)


def _is_ours_to_do(plan: NodePlan) -> bool:
    """Whether the next step is one that nobody but us was waiting for."""
    return isinstance(plan.action, RecordPlugins | DeletePlugins | CreateJob)


def _tell_deadline(
    plan: NodePlan, deadline: datetime, zero_until: datetime | None, at: Pass
) -> NodePlan:
    waits = [(moment - at.now).total_seconds() for moment in (deadline, zero_until) if moment]
    if plan.wake_after_seconds is not None:
        waits.append(plan.wake_after_seconds)
    return replace(plan, deadline=deadline, wake_after_seconds=min(waits))


def plan_overdue_look(
    seen: Observed, change: Change, plan: NodePlan, policy: Policy, at: Pass
) -> NodePlan:
    """`plan` of a cordoned node whose pods are to be read again; failed where that is refused.

    Nothing is written on the node, since nothing was: it goes on as soon as they can be read.
    """
    deadline = change.since + policy.ready_timeout
    if not seen.is_refused:
        return plan
    if at.now < deadline:
        return replace(plan, wake_after_seconds=(deadline - at.now).total_seconds())
    seconds = policy.ready_timeout.total_seconds()
    message = f"its pods can't be read, {seconds:g} s after the cordon"
    halts = "" if change.joining else f"{plan.node} failed at the step {change.step}: {message}"
    return replace(
        plan,
        state=NodeState.FAILED,
        reason=Reason.DEADLINE_EXCEEDED,
        message=message,
        halts=halts,
    )


def _find_end_of_patience(
    seen: Observed, change: Change, plan: NodePlan, at: Pass
) -> datetime | None:
    """When a plugin that is Ready without its resource has had time enough; None where none is.

    Seen in the field: the plugin runs, and the node shows "0" until it is restarted once more
    (NVIDIA/k8s-device-plugin, issue 1228).
    """
    to = MODES[change.edition, change.to]
    if plan.reason not in _SILENT or not _is_zero(seen, to):
        return None
    replaced = {plugin.uid for plugin in change.plugins}
    since = [
        pod.ready_since
        for pod in seen.pods
        if pod.daemonset == to.plugin and pod.ready_since and pod.uid not in replaced
    ]
    return max(since) + at.timing.zero_patience if since else None


def _is_zero(seen: Observed, mode: Mode) -> bool:
    return bool(mode.plugin) and any(not seen.node.allocatable.get(r) for r in mode.resources)


def _plan_renewal(seen: Observed, change: Change) -> NodePlan:
    step = Step.LABELLED if change.teardown is None else Step.REBOOTED
    again = {"step": step, "restart": True, "plugins": (), "renewed": True}
    message = "the plugin came back without its resource; it is restarted once more"
    action = _write_change(seen, change.model_copy(update=again), message)
    return seen.plan(NodeState.UPDATING, Reason.PLUGIN_RESTARTING, message, action)


def _plan_failure(
    seen: Observed, change: Change, reason: Reason, message: str, policy: Policy, at: Pass
) -> NodePlan:
    """Write on the node that its change failed."""
    failure = Failure(
        attempt=policy.attempt,
        step=change.step,
        reason=reason,
        message=message[:_MESSAGE_CHARACTERS],
        at=at.now,
    )
    update: dict[str, object] = {"failure": failure}
    if reason is Reason.MODULE_STILL_LOADED:
        # In another one it may be gone.
        update |= record_boot(seen)
    failed = change.model_copy(update=update)
    action = _write_change(seen, failed, f"failed: {failure.message}")
    told = message if policy.rolls_back else f"{message}; {_UNTIL_MENDED}"
    plan = seen.plan(NodeState.FAILED, reason, told, action)
    return replace(plan, halts=_halt(seen, change, failure))


def _plan_failed(
    seen: Observed, change: Change, failure: Failure, plan: NodePlan, policy: Policy, at: Pass
) -> NodePlan:
    """A change that failed: taken back where the pool says so, or left until it is mended."""
    kept = _UNTIL_MENDED
    if policy.rolls_back and change.teardown is not None:
        kept = f"a teardown is not rolled back; {kept}"
    elif policy.rolls_back and change.undoes is None and not change.joining:
        transition = find_transition(change.edition, change.to, change.of)
        of, to = MODES[change.edition, change.to], MODES[change.edition, change.of]
        blocker = find_blocking_pods(transition, of, to, seen.pods)
        if change.of == change.to:
            kept = f"there is no other mode to go back to; {kept}"
        elif transition.refusal is not None:
            kept = f"not rolled back ({of.schedule} -> {to.schedule}: {transition.message}); {kept}"
        elif transition.outcome is Outcome.APPLY_AND_RESTART and not policy.may_restart:
            kept = f"not rolled back: devicePlugin.restart is Never, and that needs one; {kept}"
        elif blocker is not None:
            kept = f"rolled back to {to.schedule} later: {blocker.message}"
        else:
            return _plan_rollback(seen, change, failure, transition.outcome, at)
    return replace(
        plan,
        state=NodeState.FAILED,
        reason=read_reason(failure),
        message=f"{failure.message}; {kept}",
        halts=_halt(seen, change, failure),
    )


def _plan_rollback(
    seen: Observed, change: Change, failure: Failure, outcome: Outcome, at: Pass
) -> NodePlan:
    """The change back; it goes through every step again, on the node that is still cordoned."""
    back = Change(
        pool=change.pool,
        claim=change.claim,
        edition=change.edition,
        of=change.to,
        to=change.of,
        step=Step.CORDONED,
        since=at.now,
        restart=outcome is Outcome.APPLY_AND_RESTART,
        labelled_at=change.labelled_at,
        before=change.before,
        admitted=change.admitted,
        boot_id=change.boot_id,
        undoes=failure,
    )
    message = f"rolled back: {change.to} -> {change.of}"
    plan = seen.plan(
        NodeState.UPDATING, Reason.ROLLED_BACK, message, _write_change(seen, back, message)
    )
    return replace(plan, halts=_halt(seen, change, failure))


def _halt(seen: Observed, change: Change, failure: Failure) -> str:
    """A node that joins takes no capacity away, so that it fails alone."""
    return "" if change.joining else describe_failure(seen.node.name, failure)


def _write_change(seen: Observed, change: Change, message: str) -> ApplyNode:
    return build_apply(
        seen.node,
        owned_labels(seen.node),
        seen.records.model_copy(update={"change": change}),
        cordon=True,
        message=message,
    )
