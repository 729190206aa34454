"""Judges the deadline of a change whose labels are written, and plans what follows when it passes.

A failure is recorded on the node, so that it survives a restart of the operator. It halts the pool
until a new attempt: a changed spec, or a user's retry annotation.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

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
    Verdict,
)
from gpushare.core.snapshot.admissions import record_boot
from gpushare.names import Reason

_WAITS_FOR_PODS = (Reason.WORKLOADS_PRESENT, Reason.EVICTION_DISABLED)
_SILENT = (Reason.RESOURCE_NOT_READY, Reason.NO_CARDS)


@dataclass(frozen=True)
class Progress:
    """A labelled change with the verdict of its phase's rule, and the time that it has left."""

    step: Step
    proposed: Verdict

    @cached_property
    def is_running(self) -> bool:
        """Whether the deadline runs: not at the end, nor while pods or a user are waited for."""
        waits = self.proposed.reason in _WAITS_FOR_PODS or waits_for_user(self.step)
        return not (waits or is_completion(self.proposed) or self.has_failed)

    @property
    def has_failed(self) -> bool:
        return self.proposed.state is NodeState.FAILED

    @cached_property
    def deadline(self) -> datetime:
        """Time at which the change counts as failed."""
        labelled_at = self.step.change.labelled_at
        assert labelled_at is not None
        return _find_begin(self.step, labelled_at) + self.step.policy.ready_timeout

    @property
    def is_ahead(self) -> bool:
        """Whether the labels' time was written by a clock that is ahead, or by hand."""
        labelled_at, step = self.step.change.labelled_at, self.step
        assert labelled_at is not None
        return labelled_at - step.ctx.now > step.ctx.timing.backoff

    @property
    def is_overdue(self) -> bool:
        return self.is_running and self.step.ctx.now >= self.deadline

    @cached_property
    def zero_until(self) -> datetime | None:
        """Time until which the resource may be missing; None where it is not, or no time runs."""
        return _find_end_of_patience(self.step, self.proposed) if self.is_running else None

    @property
    def is_zero_for_long(self) -> bool:
        return self.zero_until is not None and self.step.ctx.now >= self.zero_until

    def deadline_of(self, verdict: Verdict) -> datetime | None:
        """Return the deadline after `verdict`; None where none runs, or it has just failed."""
        runs = self.is_running and not (self.is_ahead or self.is_overdue)
        return self.deadline if runs and verdict.state is not NodeState.FAILED else None

    def requeue_after_of(self, verdict: Verdict) -> timedelta | None:
        """Return the time until the deadline, or until the resource was missing for too long, or
        until the limit of restarts admits the second one."""
        if (deadline := self.deadline_of(verdict)) is None:
            return None
        moments = [deadline]
        if self.zero_until is not None and not self.is_zero_for_long:
            moments.append(self.zero_until)
        if self.is_zero_for_long and (free_at := self.step.find_restart_limit()) is not None:
            moments.append(free_at)
        return min(moments) - self.step.ctx.now


def fail_step(progress: Progress) -> Verdict | None:
    """Record the failure if a step of the change can't succeed."""
    if not progress.has_failed:
        return None
    return _fail(progress, progress.proposed.reason, progress.proposed.message)


def restart_deadline(progress: Progress) -> Verdict | None:
    """Restart the deadline if it passed while pods were waited for, or no operator ran."""
    step, proposed = progress.step, progress.proposed
    is_missed = progress.is_overdue and _is_ours_to_do(proposed) and not step.seen.is_refused
    if not (progress.is_running and (progress.is_ahead or is_missed)):
        return None
    action = step.write_change("the deadline starts again", labelled_at=step.ctx.now)
    return Verdict(
        proposed.state,
        proposed.reason,
        proposed.message,
        action,
        requeue_after=proposed.requeue_after,
    )


def time_out(progress: Progress) -> Verdict | None:
    """Record the failure if the deadline has passed."""
    if not progress.is_overdue:
        return None
    step, proposed = progress.step, progress.proposed
    since = "the labels were written" if step.change.teardown is None else "the last step"
    seconds = step.policy.ready_timeout.total_seconds()
    message = f"Timed out {seconds:g} s after {since}. {proposed.message}"
    return _fail(progress, Reason.DEADLINE_EXCEEDED, message, proposed.requeue_after)


def restart_once_more(progress: Progress) -> Verdict | None:
    """Restart the plugin once more if it is Ready without its resource for a minute."""
    step, policy = progress.step, progress.step.policy
    may_restart = step.change.restarted_again is None and policy.may_restart
    if not (progress.is_zero_for_long and may_restart) or step.find_restart_limit() is not None:
        return None
    message = "The device plugin is Ready without its resource. It is restarted once more"
    action = step.write_change(
        message,
        phase=ChangePhase.LABELLED if step.change.teardown is None else ChangePhase.REBOOTED,
        restart=True,
        plugins=(),
        restarted_again=True,
    )
    return step.updating(Reason.PLUGIN_RESTARTING, message, action)


def fail_after_second_restart(progress: Progress) -> Verdict | None:
    """Record the failure if the resource is still missing after a second restart."""
    if not progress.is_zero_for_long or progress.step.change.restarted_again is None:
        return None
    proposed = progress.proposed
    message = f"A second restart of the plugin did not help. {proposed.message}"
    has_cards = proposed.reason is not Reason.NO_CARDS
    reason = Reason.RESOURCE_STAYS_ZERO if has_cards else proposed.reason
    # If that cannot be written until then, the deadline is the reason.
    return _fail(progress, reason, message, progress.deadline - progress.step.ctx.now)


def _fail(
    progress: Progress, reason: Reason, message: str, requeue_after: timedelta | None = None
) -> Verdict:
    """Plan the write that records on the node that its change failed."""
    step = progress.step
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
    return Verdict(
        NodeState.FAILED,
        reason,
        full_message,
        action,
        requeue_after=requeue_after,
        halt=describe_halt(step, failure),
    )


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


def _is_ours_to_do(plan: Verdict) -> bool:
    """Return whether the next step is the operator's own, which nothing else delays."""
    return isinstance(plan.action, RecordPlugins | DeletePlugins | CreateJob)


def _find_end_of_patience(step: Step, plan: Verdict) -> datetime | None:
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
    labelled_at = step.change.labelled_at
    since += [_find_begin(step, labelled_at)] if since and labelled_at is not None else []
    return max(since) + step.ctx.timing.zero_patience if since else None
