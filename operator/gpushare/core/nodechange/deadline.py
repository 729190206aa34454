"""Judges the deadline of a change whose labels are written, and plans what follows when it passes.

A failure is recorded on the node, so that it survives a restart of the operator. It halts the pool
until a new attempt: a changed spec, or a user's retry annotation.
"""

from dataclasses import replace
from datetime import datetime

from gpushare.api.k8s.daemonset import DRIVER_DAEMONSET
from gpushare.core.nodechange.phases.failed import UNTIL_FIXED, describe_halt, tell_to_retry
from gpushare.core.nodechange.phases.labelled import is_completion
from gpushare.core.nodechange.phases.teardown import waits_for_user
from gpushare.core.nodechange.step import Step
from gpushare.core.records.change_record import MAX_MESSAGE, ChangePhase, Failure
from gpushare.core.snapshot.actions import (
    CreateJob,
    DeletePlugins,
    NodeState,
    RecordPlugins,
    StepResult,
)
from gpushare.core.snapshot.admissions import record_boot
from gpushare.names import Reason

_WAITS_FOR_PODS = (Reason.WORKLOADS_PRESENT, Reason.EVICTION_DISABLED)
_SILENT = (Reason.RESOURCE_NOT_READY, Reason.NO_CARDS)


def judge_progress(step: Step, plan: StepResult) -> StepResult:
    """Return `plan` with its deadline, or the failure or second restart if it takes too long.

    `step` has a change whose labels are written. Waiting for pods or for a user has no deadline.
    """
    change, policy, now = step.change, step.policy, step.ctx.now
    if is_completion(plan):
        return plan
    assert change.labelled_at is not None
    if plan.state is NodeState.FAILED:
        return _plan_failure(step, plan.reason, plan.message)
    if plan.reason in _WAITS_FOR_PODS or waits_for_user(step):
        return plan
    deadline = _find_begin(step, change.labelled_at) + policy.ready_timeout
    # Written by a clock that is ahead, or by hand: the deadline would be too far off.
    is_ahead = change.labelled_at - now > step.ctx.timing.backoff
    if is_ahead or (now >= deadline and _is_ours_to_do(plan) and not step.seen.is_refused):
        # Pods were waited for, or no operator ran: what is left to do has its time from now on.
        return replace(plan, action=step.write_change("the deadline starts again", labelled_at=now))
    if now >= deadline:
        since = "the labels were written" if change.teardown is None else "the last step"
        seconds = policy.ready_timeout.total_seconds()
        message = f"Timed out {seconds:g} s after {since}. {plan.message}"
        failed = _plan_failure(step, Reason.DEADLINE_EXCEEDED, message)
        return replace(failed, requeue_after_seconds=plan.requeue_after_seconds)
    zero_until = _find_end_of_patience(step, plan)
    if zero_until is not None and now >= zero_until:
        has_room = step.find_restart_limit() is None
        if change.restarted_again is None and policy.may_restart and has_room:
            plan = _restart_once_more(step)
        elif change.restarted_again is not None:
            message = f"A second restart of the plugin did not help. {plan.message}"
            has_cards = plan.reason is not Reason.NO_CARDS
            reason = Reason.RESOURCE_STAYS_ZERO if has_cards else plan.reason
            failed = _plan_failure(step, reason, message)
            # If that cannot be written until then, the deadline is the reason.
            return replace(failed, requeue_after_seconds=(deadline - now).total_seconds())
        zero_until = None
    waits = [(moment - now).total_seconds() for moment in (deadline, zero_until) if moment]
    if plan.requeue_after_seconds is not None:
        waits.append(plan.requeue_after_seconds)
    return replace(plan, deadline=deadline, requeue_after_seconds=min(waits))


def _find_begin(step: Step, labelled_at: datetime) -> datetime:
    """Return when the deadline begins to run: when the labels were written, or, for a node that
    joins, when it and its driver became Ready, if that was later.

    A node that joins takes no capacity away, and often is not set up completely yet.
    """
    if not step.change.initializing:
        return labelled_at
    seen = step.seen
    drivers = (pod.ready_since for pod in seen.pods if pod.daemonset == DRIVER_DAEMONSET)
    return max([labelled_at, *filter(None, (seen.node.ready_since, *drivers))])


def _is_ours_to_do(plan: StepResult) -> bool:
    """Return whether the next step is the operator's own, which nothing else delays."""
    return isinstance(plan.action, RecordPlugins | DeletePlugins | CreateJob)


def _find_end_of_patience(step: Step, plan: StepResult) -> datetime | None:
    """Return until when a plugin may be Ready without its resource; None where that is not so.

    A plugin may run while the node shows "0" until it is restarted once more (seen in the field;
    NVIDIA/k8s-device-plugin, issue 1228). The time runs from when all replaced pods are Ready,
    since with MPS the plugin waits for the daemon and looks for it every 30 s, but not from before
    the deadline began.
    """
    to, offered = step.to, step.seen.node.allocatable
    is_zero = bool(to.plugin) and any(not offered.get(r) for r in to.resources)
    if plan.reason not in _SILENT or not is_zero:
        return None
    replaced = {plugin.uid for plugin in step.change.plugins}
    since = [
        pod.ready_since
        for pod in step.seen.pods
        if pod.daemonset in to.replaced and pod.ready_since and pod.uid not in replaced
    ]
    begun_at = step.change.labelled_at
    since += [begun_at] if since and begun_at is not None else []
    return max(since) + step.ctx.timing.zero_patience if since else None


def _restart_once_more(step: Step) -> StepResult:
    is_teardown = step.change.teardown is not None
    message = "The device plugin is Ready without its resource. It is restarted once more"
    action = step.write_change(
        message,
        phase=ChangePhase.REBOOTED if is_teardown else ChangePhase.LABELLED,
        restart=True,
        plugins=(),
        restarted_again=True,
    )
    return step.updating(Reason.PLUGIN_RESTARTING, message, action)


def _plan_failure(step: Step, reason: Reason, message: str) -> StepResult:
    """Plan the write that records on the node that its change failed."""
    failure = Failure(
        attempt=step.policy.attempt,
        phase=step.change.phase,
        reason=reason,
        message=message[:MAX_MESSAGE],
        at=step.ctx.now,
    )
    # In another boot the module may be gone.
    boot = record_boot(step.seen) if reason is Reason.MODULE_STILL_LOADED else {}
    action = step.write_change(f"failed: {failure.message}", failure=failure, **boot)
    until = tell_to_retry(step, reason) or ("" if step.policy.rolls_back else UNTIL_FIXED)
    full_message = f"{message}. {until}" if until else message
    plan = step.seen.plan(NodeState.FAILED, reason, full_message, action)
    return replace(plan, halts=describe_halt(step, failure))
