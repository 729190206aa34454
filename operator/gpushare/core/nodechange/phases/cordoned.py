"""The rules of a node in phase Cordoned, and the writes that label or uncordon it.

The cordon itself is written by `stable.start`.
"""

from datetime import datetime

from gpushare.core.nodechange.blockers import find_reason_to_stay_away, find_unready
from gpushare.core.nodechange.kernel_module import note_module
from gpushare.core.nodechange.label_restoration import change_labels
from gpushare.core.nodechange.member_step import MemberStep
from gpushare.core.nodechange.phases.teardown import find_teardown_refusal, spend_word
from gpushare.core.nodechange.step import RESTART_FORBIDDEN, Step, find_late_pods, write_records
from gpushare.core.ownership.drift import Enforcement, judge_drift
from gpushare.core.records.change_record import MAX_MESSAGE, Change, ChangePhase
from gpushare.core.records.node_records import extend_initial_values
from gpushare.core.snapshot.actions import (
    ApplyNode,
    Halt,
    NodeState,
    RecheckPods,
    Verdict,
    build_apply,
)
from gpushare.core.snapshot.admissions import record_boot
from gpushare.core.snapshot.node import NodeSnapshot, Timing
from gpushare.core.snapshot.plugin_reading import running_plugins
from gpushare.editions.edition import Outcome
from gpushare.editions.registry import find_schedule, find_transition, get_mode
from gpushare.names import Reason


def abort_for_halt(step: Step) -> Verdict | None:
    """Uncordon the node if another's failure halts the pool, unless it joins or failed before."""
    if not (step.change.is_only_cordoned and step.ctx.is_halted) or step.change.initializing:
        return None
    message = "The rollout is halted before the node was labelled"
    return _abort(step, Reason.ROLLOUT_HALTED, message)


def abort_for_window(step: MemberStep) -> Verdict | None:
    """Uncordon the node in a freeze or if its window is over, unless it joins or failed before."""
    closed = step.window_refusal
    # A node that joins takes no capacity away, and its change is finished.
    if closed is None or not step.change.is_only_cordoned or step.change.initializing:
        return None
    return _abort(step, closed.reason, closed.message, why="its window is over, or it is frozen")


def abort_for_pool(step: MemberStep) -> Verdict | None:
    """Abort if the pool now wants another mode, or no longer allows the restart or teardown."""
    change, policy, pool = step.change, step.policy, step.pool
    forbidden = change.restart and not policy.may_restart
    wanted = (step.wanted.schedule, pool.name) == (change.to, change.pool) and not forbidden
    if change.rolls_back is not None:
        wanted = change.rolls_back.attempt == policy.attempt and not forbidden
    if change.teardown is not None:
        wanted = wanted and find_teardown_refusal(step.seen.node, policy, step.ctx) is None
    if wanted:
        return None
    return _abort(step, Reason.UPDATING, "The pool changed before the node was labelled")


def abort_to_leave_alone(step: MemberStep) -> Verdict | None:
    """Abort if MIG devices came, or another stack, edition or pool has the node now."""
    blocker = step.reason_to_stay_away
    if blocker is None:
        return None
    return _abort(step, blocker.reason, blocker.message, is_deferred=True)


def abort_for_user(step: Step) -> Verdict | None:
    """Abort if a user uncordoned the node, and try again 30 s later."""
    if step.seen.is_out_of_service:
        return None
    return _abort(step, Reason.CORDONED, "A user uncordoned the node", is_deferred=True)


def abort_for_node(step: Step) -> Verdict | None:
    """Abort if the node or its driver is not Ready, since its plugin would not return."""
    blocker = find_unready(step.seen)
    return None if blocker is None else _abort(step, blocker.reason, blocker.message)


def _abort(
    step: Step, reason: Reason, message: str, *, why: str = "", is_deferred: bool = False
) -> Verdict:
    """End the change; with `is_deferred` it is tried again after a while."""
    now = step.ctx.now
    not_before = now + step.ctx.timing.backoff if is_deferred else None
    action = plan_abort(step.seen, why=why or message, now=now, not_before=not_before)
    return step.updating(reason, message, action)


def wait_for_pods(step: Step) -> Verdict | None:
    """Wait for pods that hold the change up (CordonAndWait), or evict them (Evict)."""
    blocker = step.late_pods
    if blocker is None or not _is_held_by_pods(step):
        return None
    return step.wait_for_pods(blocker)


def recheck_pods(step: Step) -> Verdict:
    """Read the pods twice from the API server, 2 s apart; label the node, or abort if one came."""
    message = f"Cordoned for {step.change.to}. Its pods are read again within seconds"
    left = None
    if step.seen.is_refused:
        left = step.change.since + step.policy.ready_timeout - step.ctx.now
    return Verdict(
        NodeState.UPDATING, Reason.CORDONED, message, _build_recheck(step), requeue_after=left
    )


def report_unreadable_pods(step: Step) -> Verdict | None:
    """Halt the pool if the API server has refused the read of pods for too long; read again.

    No failure is recorded on the node: its change continues as soon as the pods can be read.
    """
    overdue = step.change.since + step.policy.ready_timeout <= step.ctx.now
    if not (step.seen.is_refused and overdue) or _is_held_by_pods(step):
        return None
    seconds, node = step.policy.ready_timeout.total_seconds(), step.seen.node.name
    message = (
        f"Node {node} continues automatically when the API server allows its change, which it "
        f"still refuses {seconds:g} s after the cordon. To see the refusal, run: kubectl describe "
        f"gsp {step.change.pool}"
    )
    return Verdict(
        NodeState.FAILED,
        Reason.DEADLINE_EXCEEDED,
        message,
        _build_recheck(step),
        halt=None if step.change.initializing else Halt(message, resumes=True),
    )


def _build_recheck(step: Step) -> RecheckPods:
    policy = step.policy
    return RecheckPods(
        step.seen.node.name, stays=policy.stays_cordoned, may_restart=policy.may_restart
    )


def _is_held_by_pods(step: Step) -> bool:
    return step.policy.stays_cordoned and step.late_pods is not None


def plan_after_recheck(
    seen: NodeSnapshot,
    now: datetime,
    timing: Timing,
    *,
    stays: bool = False,
    may_restart: bool = True,
) -> ApplyNode | None:
    """Build the write of the change's labels, or of its abort.

    `seen.pods` were read from the API server after the cordon. A pod among them that the change
    would harm was bound while the cordon went out: then the change is aborted for a while, since
    the pod must start on a node in the mode that the scheduler placed it for. None where the node
    `stays` cordoned until such pods are gone, or another controller is at work on it.
    """
    change = seen.records.change
    assert change is not None
    if not seen.is_ours_to_change:
        return None
    away = find_reason_to_stay_away(seen, change.mode, change.pool)
    blocker = away or find_late_pods(seen, change)
    if away is None and blocker is not None and stays:
        return None
    if blocker is not None:
        return plan_abort(seen, why=blocker.message, not_before=now + timing.backoff, now=now)
    is_early = _has_come_early(seen, change)
    if is_early and not may_restart:
        why = f"The device plugin started with another mode's label. {RESTART_FORBIDDEN}"
        return plan_abort(seen, why=why, not_before=now + timing.backoff, now=now)
    labels, former = change_labels(seen, change), seen.records
    # A foreign value counts when it is replaced, not at the cordon, which may still be lifted.
    drift = judge_drift(seen.node, former, labels, Enforcement(change.claim, force=True), now)
    initial = extend_initial_values(former.initial_values, seen.node, frozenset(labels))
    # Without a restart the plugin is replaced by its label.
    restarts = change.restart or is_early
    labelled: dict[str, object] = {
        "phase": ChangePhase.LABELLED,
        "labelled_at": now,
        "restart": restarts,
        "teardown": change.teardown and spend_word(seen.node, change.teardown),
        **record_boot(seen),
    }
    update = {
        "restarts": former.restarts if restarts else former.restarts.add(seen.node.retry, now),
        "drift": drift.record if drift.reverts else former.drift,
        "initial_values": initial,
        "change": change.model_copy(update=labelled),
    }
    # Recorded with the labels, before an installer can come.
    records = note_module(seen, former.model_copy(update=update), change.mode)
    return build_apply(seen.node, labels, records, cordon=True, message=f"labelled for {change.to}")


def _has_come_early(seen: NodeSnapshot, change: Change) -> bool:
    """Return whether the plugin of the new mode already runs, and may have read a foreign label.

    A plugin that is recorded for the new mode has read its label: in a rollback it may never have
    left the node. In a teardown the reboot restarts the plugin anyway.
    """
    from_mode, to = get_mode(change.edition, change.from_mode), change.mode
    if change.teardown is not None or from_mode.plugin == to.plugin or not to.reads_label:
        return False
    labelled_mode, reading = find_schedule(change.edition, seen.node.labels), seen.reading
    is_known = (
        reading is not None
        and reading.applied.is_of(to)
        and not (reading.applied.needs_restart or reading.is_replaced)
    )
    return not is_known and labelled_mode != change.to and bool(running_plugins(seen.pods, to))


def plan_uncordon(seen: NodeSnapshot, *, why: str, change: Change | None = None) -> ApplyNode:
    """Build the write that uncordons the node, and leaves the record `change` on it, if any."""
    records = seen.records.model_copy(update={"change": change})
    return write_records(seen, records, f"uncordoned: {why}", cordon=False)


def plan_abort(
    seen: NodeSnapshot, *, why: str, now: datetime, not_before: datetime | None = None
) -> ApplyNode:
    """Build the write that ends a change whose labels are not written.

    With `not_before` the change is tried again then. If it follows a change that failed, the node
    goes back to that one, and stays cordoned until the mode of its labels is verified.
    """
    change = seen.records.change
    assert change is not None
    if change.labelled_at is not None:
        back: dict[str, object] = {
            "to": change.from_mode,
            "phase": ChangePhase.LABELLED,
            "restart": _may_serve_another(seen, change),
            "plugins": (),
            "labelled_at": now,
            "teardown": None,
        }
        if change.rolls_back is not None:
            # The change that was to be taken back failed, and has still failed.
            back |= {"from_mode": change.to, "failure": change.rolls_back, "rolls_back": None}
        records = seen.records.model_copy(update={"change": change.model_copy(update=back)})
        return write_records(seen, records, f"still cordoned: {why}", cordon=True)
    if not_before is None:
        return plan_uncordon(seen, why=why)
    deferred = {"phase": ChangePhase.DEFERRED, "since": now, "not_before": not_before}
    deferred["why"] = why[:MAX_MESSAGE]
    return plan_uncordon(seen, why=why, change=change.model_copy(update=deferred))


def _may_serve_another(seen: NodeSnapshot, change: Change) -> bool:
    """Return whether the plugin may not have read the labels that are on the node.

    The change that wrote them failed, and it is not recorded whether before or after the restart.
    """
    reading, from_mode = seen.reading, get_mode(change.edition, change.from_mode)
    if reading is None or reading.applied.edition is not change.edition:
        # No record says what the plugin that runs has read.
        return bool(running_plugins(seen.pods, from_mode))
    if reading.applied.is_of(from_mode):
        # The failed change was the restart of a plugin that had read foreign labels.
        restarts = reading.applied.needs_restart or reading.running != reading.applied.plugins
        return bool(reading.running) and restarts
    transition = find_transition(change.edition, reading.applied.schedule, change.from_mode)
    return transition.outcome is Outcome.APPLY_AND_RESTART
