"""Changes that fail: at their deadline, or because the resource stays away.

That a change failed is written on its node, so that no restart forgets it, and halts the pool until
the attempt is another one: a new spec, or a person's retry annotation.
"""

from dataclasses import replace
from datetime import datetime

from gpushare.core.nodechange.blockers import find_blocking_pods
from gpushare.core.nodechange.completion import is_completion
from gpushare.core.nodechange.ongoing_change import owned_labels
from gpushare.core.nodechange.teardown import resume, waits_for_user
from gpushare.core.records.change_record import Change, ChangePhase, Failure
from gpushare.core.snapshot.actions import (
    ApplyNode,
    CreateJob,
    DeletePlugins,
    NodeState,
    RecordPlugins,
    StepResult,
    build_apply,
)
from gpushare.core.snapshot.admissions import record_boot
from gpushare.core.snapshot.change_policy import Policy
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext
from gpushare.editions.edition import Mode, Outcome
from gpushare.editions.registry import MODES, find_transition
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


def plan_resumed(
    seen: NodeSnapshot, change: Change, policy: Policy, ctx: ReconcileContext
) -> StepResult | None:
    """A change that failed in another attempt gets a new deadline; None where it did not."""
    if change.failure is None or change.failure.attempt == policy.attempt:
        return None
    again: dict[str, object] = {"failure": None, "restarted_again": None, "labelled_at": ctx.now}
    if change.teardown is not None:
        again |= resume(seen, change)
    action = _write_change(seen, change.model_copy(update=again), "tried again")
    return seen.plan(NodeState.UPDATING, Reason.UPDATING, "tried again", action)


def judge_progress(
    seen: NodeSnapshot,
    change: Change,
    plan: StepResult,
    policy: Policy,
    ctx: ReconcileContext,
) -> StepResult:
    """`plan` of a change whose labels are written, or what is done because it takes too long.

    Waiting for pods has no deadline, nor has waiting for a person; everything else has.
    """
    if is_completion(plan):
        return plan
    if change.failure is not None:
        return _plan_failed(seen, change, change.failure, plan, policy, ctx)
    assert change.labelled_at is not None
    if plan.state is NodeState.FAILED:
        return _plan_failure(seen, change, plan.reason, plan.message, policy, ctx)
    if plan.reason is Reason.WORKLOADS_PRESENT or waits_for_user(seen, change, policy, ctx):
        return plan
    seconds = policy.ready_timeout.total_seconds()
    deadline = change.labelled_at + policy.ready_timeout
    if ctx.now >= deadline and _is_ours_to_do(plan) and not seen.is_refused:
        # Pods were waited for, or no operator ran: what is left to do has its time from now on.
        later = change.model_copy(update={"labelled_at": ctx.now})
        return replace(plan, action=_write_change(seen, later, "the deadline runs anew"))
    if ctx.now >= deadline:
        since = "the labels" if change.teardown is None else "its last step"
        message = f"{plan.message}, {seconds:g} s after {since}"
        failed = _plan_failure(seen, change, Reason.DEADLINE_EXCEEDED, message, policy, ctx)
        return replace(failed, requeue_after_seconds=plan.requeue_after_seconds)
    zero_until = _find_end_of_patience(seen, change, plan, ctx)
    if zero_until is not None and ctx.now >= zero_until:
        if change.restarted_again is None and policy.may_restart:
            plan = _plan_renewal(seen, change)
        elif change.restarted_again is not None:
            message = f"{plan.message}, and a second restart did not help"
            found = plan.reason is not Reason.NO_CARDS
            reason = Reason.RESOURCE_STAYS_ZERO if found else plan.reason
            return _plan_failure(seen, change, reason, message, policy, ctx)
        zero_until = None
    return _tell_deadline(plan, deadline, zero_until, ctx)


def _is_ours_to_do(plan: StepResult) -> bool:
    """Whether the next step is one that nobody but us was waiting for."""
    return isinstance(plan.action, RecordPlugins | DeletePlugins | CreateJob)


def _tell_deadline(
    plan: StepResult, deadline: datetime, zero_until: datetime | None, ctx: ReconcileContext
) -> StepResult:
    waits = [(moment - ctx.now).total_seconds() for moment in (deadline, zero_until) if moment]
    if plan.requeue_after_seconds is not None:
        waits.append(plan.requeue_after_seconds)
    return replace(plan, deadline=deadline, requeue_after_seconds=min(waits))


def plan_overdue_recheck(
    seen: NodeSnapshot,
    change: Change,
    plan: StepResult,
    policy: Policy,
    ctx: ReconcileContext,
) -> StepResult:
    """`plan` of a cordoned node whose pods are to be read again; failed where that is refused.

    Nothing is written on the node, since nothing was: it goes on as soon as they can be read.
    """
    deadline = change.since + policy.ready_timeout
    if not seen.is_refused:
        return plan
    if ctx.now < deadline:
        return replace(plan, requeue_after_seconds=(deadline - ctx.now).total_seconds())
    seconds = policy.ready_timeout.total_seconds()
    message = f"its pods can't be read, {seconds:g} s after the cordon"
    halts = "" if change.initializing else f"{plan.node} failed in phase {change.phase}: {message}"
    return replace(
        plan,
        state=NodeState.FAILED,
        reason=Reason.DEADLINE_EXCEEDED,
        message=message,
        halts=halts,
    )


def _find_end_of_patience(
    seen: NodeSnapshot, change: Change, plan: StepResult, ctx: ReconcileContext
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
    return max(since) + ctx.timing.zero_patience if since else None


def _is_zero(seen: NodeSnapshot, mode: Mode) -> bool:
    return bool(mode.plugin) and any(not seen.node.allocatable.get(r) for r in mode.resources)


def _plan_renewal(seen: NodeSnapshot, change: Change) -> StepResult:
    phase = ChangePhase.LABELLED if change.teardown is None else ChangePhase.REBOOTED
    again = {"phase": phase, "restart": True, "plugins": (), "restarted_again": True}
    message = "the plugin came back without its resource; it is restarted once more"
    action = _write_change(seen, change.model_copy(update=again), message)
    return seen.plan(NodeState.UPDATING, Reason.PLUGIN_RESTARTING, message, action)


def _plan_failure(
    seen: NodeSnapshot,
    change: Change,
    reason: Reason,
    message: str,
    policy: Policy,
    ctx: ReconcileContext,
) -> StepResult:
    """Write on the node that its change failed."""
    failure = Failure(
        attempt=policy.attempt,
        phase=change.phase,
        reason=reason,
        message=message[:_MESSAGE_CHARACTERS],
        at=ctx.now,
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
    seen: NodeSnapshot,
    change: Change,
    failure: Failure,
    plan: StepResult,
    policy: Policy,
    ctx: ReconcileContext,
) -> StepResult:
    """A change that failed: taken back where the pool says so, or left until it is mended."""
    kept = _UNTIL_MENDED
    if policy.rolls_back and change.teardown is not None:
        kept = f"a teardown is not rolled back; {kept}"
    elif policy.rolls_back and change.rolls_back is None and not change.initializing:
        transition = find_transition(change.edition, change.to, change.from_mode)
        from_mode, to = MODES[change.edition, change.to], MODES[change.edition, change.from_mode]
        blocker = find_blocking_pods(transition, from_mode, to, seen.pods)
        if change.from_mode == change.to:
            kept = f"there is no other mode to go back to; {kept}"
        elif transition.refusal is not None:
            way = f"{from_mode.schedule} -> {to.schedule}"
            kept = f"not rolled back ({way}: {transition.message}); {kept}"
        elif transition.outcome is Outcome.APPLY_AND_RESTART and not policy.may_restart:
            kept = f"not rolled back: devicePlugin.restart is Never, and that needs one; {kept}"
        elif blocker is not None:
            kept = f"rolled back to {to.schedule} later: {blocker.message}"
        else:
            return _plan_rollback(seen, change, failure, transition.outcome, ctx)
    return replace(
        plan,
        state=NodeState.FAILED,
        reason=read_reason(failure),
        message=f"{failure.message}; {kept}",
        halts=_halt(seen, change, failure),
    )


def _plan_rollback(
    seen: NodeSnapshot, change: Change, failure: Failure, outcome: Outcome, ctx: ReconcileContext
) -> StepResult:
    """The change back; it goes through every step again, on the node that is still cordoned."""
    back = Change(
        pool=change.pool,
        claim=change.claim,
        edition=change.edition,
        from_mode=change.to,
        to=change.from_mode,
        phase=ChangePhase.CORDONED,
        since=ctx.now,
        restart=outcome is Outcome.APPLY_AND_RESTART,
        labelled_at=change.labelled_at,
        before=change.before,
        admitted=change.admitted,
        boot_id=change.boot_id,
        rolls_back=failure,
    )
    message = f"rolled back: {change.to} -> {change.from_mode}"
    plan = seen.plan(
        NodeState.UPDATING, Reason.ROLLED_BACK, message, _write_change(seen, back, message)
    )
    return replace(plan, halts=_halt(seen, change, failure))


def _halt(seen: NodeSnapshot, change: Change, failure: Failure) -> str:
    """A node that joins takes no capacity away, so that it fails alone."""
    return "" if change.initializing else describe_failure(seen.node.name, failure)


def _write_change(seen: NodeSnapshot, change: Change, message: str) -> ApplyNode:
    return build_apply(
        seen.node,
        owned_labels(seen.node),
        seen.records.model_copy(update={"change": change}),
        cordon=True,
        message=message,
    )
