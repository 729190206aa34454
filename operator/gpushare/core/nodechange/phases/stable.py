"""The rules of a node on which no change is under way: its labels, and the cordon of a new one."""

from dataclasses import replace
from datetime import timedelta

from gpushare import names
from gpushare.api.rollout import WorkloadPolicy
from gpushare.core.cause import Cause
from gpushare.core.deviceplugin.verification import verify_mode
from gpushare.core.nodechange.blockers import (
    find_left_over_plugin,
    find_missing_daemonset,
    find_unready,
)
from gpushare.core.nodechange.configuration import find_doubtful_mode
from gpushare.core.nodechange.kernel_module import note_module
from gpushare.core.nodechange.label_restoration import (
    LABELS_RESTORED,
    owned_labels,
    pause_restoring,
    report_conflict,
)
from gpushare.core.nodechange.labels_in_force import note_readings, plan_labels, update_readings
from gpushare.core.nodechange.member_step import MemberStep
from gpushare.core.nodechange.phases.teardown import find_teardown_refusal
from gpushare.core.nodechange.step import RESTART_FORBIDDEN, transition_of, write_records
from gpushare.core.ownership.drift import PATIENCE, is_removed_again
from gpushare.core.records.change_record import Change, ChangePhase, Teardown
from gpushare.core.snapshot.actions import NodeState, PendingChange, Start, Verdict, build_apply
from gpushare.core.snapshot.plugin_reading import describe_unknown
from gpushare.editions.edition import REPAIR, Outcome
from gpushare.editions.registry import EDITIONS, desired_labels, get_mode
from gpushare.names import Reason


def leave_alone(step: MemberStep) -> Verdict | None:
    """Write nothing if the node has MIG devices, or another stack, edition or pool has the node."""
    blocker = step.reason_to_stay_away
    return step.blocked(blocker) if blocker is not None else None


def wait_after_abort(step: MemberStep) -> Verdict | None:
    """Wait 30 s after a change was aborted before its labels were written, then try it again."""
    change, pool = step.seen.records.change, step.pool
    if change is None or change.not_before is None:
        return None
    left = change.not_before - step.ctx.now
    # A time further off was written by a clock that is ahead, or by hand.
    if not timedelta() < left <= step.ctx.timing.backoff:
        return None
    wanted = (pool.name, pool.spec.edition, step.wanted.schedule)
    is_same = (change.pool, change.edition, change.to) == wanted
    kind = step.policy.kind_of(change.from_mode, change.to, transition_of(change).outcome)
    then = change.not_before.isoformat(timespec="seconds")
    cause = f". Cause: {change.why}" if change.why else ""
    return Verdict(
        NodeState.WAITING,
        Reason.WAITING_AFTER_LATE_BINDING,
        f"The change was aborted before the node was labelled. It is tried again at {then}{cause}",
        requeue_after=left,
        pending=PendingChange(kind) if is_same else None,
    )


def yield_to_manager(step: MemberStep) -> Verdict | None:
    """Begin no change and restart no plugin while another manager keeps writing the mode's labels.

    It is unknown which label a plugin reads meanwhile: it must read ours after the conflict.
    """
    seen, drift, applied = step.seen, step.drift, step.seen.records.applied
    if not drift.is_over_mode:
        return None
    if drift.wait is not None:
        return report_conflict(drift)
    stays = applied is not None and not applied.mode.labels.items() <= drift.kept.items()
    records = update_readings(seen, step.ctx, stays=stays, drift=drift.record)
    message = drift.message
    if records.applied is not None and records.applied.mode_unknown:
        message = f"{message}. {describe_unknown(step.ctx.name_of(records.applied.mode.plugin))}"
    cordon = seen.node.owns_cordon
    action = build_apply(seen.node, drift.kept, records, cordon=cordon, message=message)
    ours = action.labels
    settled = ours.items() <= seen.node.labels.items() and ours.keys() <= seen.node.owned
    is_done = settled and records == seen.records
    return report_conflict(drift, None if is_done else action, message)


def pause_reverts(step: MemberStep) -> Verdict | None:
    """Pause if labels were restored 6 times within a minute; restore them after that."""
    return pause_restoring(step.drift, step.ctx.now)


def revert(step: MemberStep) -> Verdict | None:
    """Restore the labels in force if they were changed while the node waits for a change."""
    applied = step.seen.records.applied
    if applied is None or not step.waits_for_change:
        return None
    node, kept = step.seen.node, step.drift.kept
    once_ours = {*(step.seen.records.initial_values or ()), names.LABEL_ISOLATION_VERIFIED}
    lost = {key: kept[key] for key in kept.keys() & once_ours - node.owned}
    # A value of others that the pool wants next stays theirs: ours would pass for the recorded one.
    in_force = {**kept, **applied.mode.labels}
    lost = {k: v for k, v in lost.items() if v == in_force[k] or v != node.labels.get(k)}
    drift, known = step.drift.record, step.seen.records.drift
    given_up = drift.conflicts if drift is not None else ()
    is_noted = given_up == (known.conflicts if known is not None else ())
    if lost.items() <= node.labels.items() and is_noted:
        return None
    labels, message = {**owned_labels(node), **lost}, LABELS_RESTORED
    records = update_readings(step.seen, step.ctx, drift=drift)
    action = build_apply(node, labels, records, cordon=node.owns_cordon, message=message)
    if step.drift.conflicts:
        return report_conflict(step.drift, action)
    return step.updating(Reason.DRIFT_REVERTED, message, action)


def note_restart(step: MemberStep) -> Verdict | None:
    """Record a plugin that restarted while its node waits for a change, and the label it read.

    It has read the labels of the mode in force, which the node has and the operator owns. Without
    the record, it might have read a label that is written later.
    """
    seen, enforced, applied = step.seen, step.enforced_labels, step.seen.records.applied
    if not step.waits_for_change or applied is None or applied.restart_pending:
        return None
    mode = applied.mode
    intact = enforced.items() <= seen.node.labels.items() and enforced.keys() <= seen.node.owned
    if not intact or not mode.labels.items() <= enforced.items():
        return None
    if applied.mode_unknown and verify_mode(seen, mode, step.ctx):
        return None
    changes = note_readings(seen, step.ctx)
    if not changes:
        return None
    records = seen.records.model_copy(update={"applied": applied.model_copy(update=changes)})
    message = "Records are written"
    action = write_records(seen, records, message)
    return step.updating(Reason.UPDATING, message, action)


def write_labels(step: MemberStep) -> Verdict | None:
    """If the pool's mode is in force, write labels and records that are missing or were changed."""
    if step.needed is not None and step.needed is not REPAIR:
        return None
    plan = plan_labels(step)
    # Also a node that needs its teardown keeps the labels and records of its mode.
    applied = step.seen.records.applied
    is_kept = plan.action is not None and (applied is None or applied.is_of(step.wanted))
    return plan if is_kept or (step.needed is None and not step.isolation_stays) else None


def leave_restart_to_user(step: MemberStep) -> Verdict | None:
    """Leave a plugin's restart to a user if devicePlugin.restart is Never."""
    if step.transition.outcome is not Outcome.APPLY_AND_RESTART or step.policy.may_restart:
        return None
    if step.failed_change is None:
        return plan_labels(step, restart_pending=True)
    message = f"{step.way}: The device plugin still serves another mode. {RESTART_FORBIDDEN}"
    return Verdict(NodeState.BLOCKED, Reason.PLUGIN_RESTART_NEEDED, message)


def refuse(step: MemberStep) -> Verdict | None:
    """Refuse a change that is not automatic, or is a teardown that no user has started."""
    refusal = _find_refusal(step)
    if refusal is None:
        return None
    message = f"{step.kind.change}: {refusal.message}"
    return step.pending(NodeState.BLOCKED, refusal.reason, message)


def _find_refusal(step: MemberStep) -> Cause | None:
    transition = step.transition
    if transition.refusal is None:
        return None
    if transition.outcome is not Outcome.REQUIRES_TEARDOWN:
        return Cause(transition.refusal, transition.instructions)
    refusal = find_teardown_refusal(step.seen.node, step.policy, step.ctx)
    return refusal and replace(refusal, message=f"{transition.message}. {refusal.message}")


def stay_rolled_back(step: MemberStep) -> Verdict | None:
    """Stay rolled back if this same change failed, until a new spec or a retry annotation."""
    applied, policy = step.seen.records.applied, step.policy
    failure = applied.failure if applied is not None and applied.left(step.wanted) else None
    if failure is None or failure.attempt != policy.attempt or step.failed_change is not None:
        return None
    message = (
        f"Rolled back to {step.leaves} and put back in service. To try again, run `kubectl "
        f"gpushare retry node/{step.seen.node.name}`. Cause: {failure.message}"
    )
    return step.pending(NodeState.FAILED, Reason.ROLLED_BACK, message)


def wait_for_components(step: MemberStep) -> Verdict | None:
    """Wait if a DaemonSet that the mode needs is missing, or one would compete with it."""
    seen, ctx = step.seen, step.ctx
    labels = desired_labels(step.pool.name, step.pool.spec)
    blocker = (
        step.reason_to_stay_away
        or find_missing_daemonset(step.wanted, seen.pods, ctx)
        or seen.maintenance
        or find_left_over_plugin(seen.node, step.wanted, labels, seen.pods, ctx)
    )
    if blocker is None:
        return None
    return step.pending(NodeState.BLOCKED, blocker.reason, blocker.message)


def wait_for_workloads(step: MemberStep) -> Verdict | None:
    """Wait for pods that hold the change up, if the pool wants that before the cordon."""
    if step.workloads is None or step.policy.stays_cordoned:
        return None
    message, reading = step.workloads.message, step.seen.reading
    if reading is not None and find_doubtful_mode(reading, step.ctx) is not None:
        (key,) = reading.applied.mode.labels
        message += (
            f". Label {key} was removed or had another value while pods came, or its entry was "
            "edited, so they may hold devices of another configuration"
        )
    if not step.seen.is_out_of_service:
        message += (
            ". The node still takes new pods: to stop that, set rollout.workloads to "
            f"{WorkloadPolicy.CORDON_AND_WAIT}"
        )
    reason = step.workloads.reason
    return step.pending(NodeState.BLOCKED, reason, message, pods=step.affected_pods)


def report_eviction_disabled(step: MemberStep) -> Verdict | None:
    """Report that the pool wants pods evicted, but the installation does not allow it."""
    evicts = step.policy.workloads is WorkloadPolicy.EVICT
    if step.workloads is None or not evicts or step.ctx.may_evict:
        return None
    report = step.eviction_disabled(step.workloads)
    return step.pending(report.state, report.reason, report.message, pods=step.affected_pods)


def wait_for_node(step: MemberStep) -> Verdict | None:
    """Wait if the node or its driver is not Ready, since its plugin would not return."""
    blocker = find_unready(step.seen)
    if blocker is None:
        return None
    message = f"The change {step.way} waits. {blocker.message}"
    return step.pending(NodeState.WAITING, blocker.reason, message)


def wait_for_restart_limit(step: MemberStep) -> Verdict | None:
    """Wait if the plugin was replaced 5 times within an hour; a sixth is left to begun changes.

    A change that has begun may need it for its rollback, or a second restart if a resource stays 0.
    """
    free_at = step.find_restart_limit(reserve=1)
    if free_at is None:
        return None
    node = step.seen.node.name
    return step.pending(
        NodeState.WAITING,
        Reason.RESTART_LIMIT,
        f"The device plugin was replaced {step.ctx.timing.restarts_per_hour - 1} times within an "
        f"hour, so {step.way} waits until {free_at.isoformat(timespec='seconds')}. Find who keeps "
        f"changing the pool or the node's labels, or run `kubectl gpushare retry node/{node}`",
        pods=step.affected_pods,
        requeue_after=free_at - step.ctx.now,
    )


def stop_without_record(step: MemberStep) -> Verdict | None:
    """Stop if the record of the change was removed for the third time within ten minutes.

    The node is uncordoned, unless a change may have written its labels or replaced its plugin.
    """
    seen, node, reading = step.seen, step.seen.node, step.seen.reading
    is_again = is_removed_again(step.removals, step.policy.claim, node.retry)
    if step.failed_change is not None or not is_again:
        return None
    message = (
        f"{step.way}: annotation {names.ANNOTATION_CHANGE} was removed {PATIENCE + 1} times while "
        "the node was cordoned, and no change begins without it. Find the policy or client that "
        "removes it (the API server's audit log names it), then run `kubectl gpushare retry "
        f"node/{node.name}`"
    )
    action, is_unlabelled = None, names.MODE_LABELS.isdisjoint(node.owned)
    is_unchanged = reading.is_as_applied if reading is not None else is_unlabelled
    if node.owns_cordon and (is_unchanged or step.removals != seen.records.drift):
        records = seen.records.model_copy(update={"drift": step.removals})
        why = "the record of the change is removed again and again"
        action = write_records(seen, records, why, cordon=not is_unchanged)
    return step.pending(
        NodeState.BLOCKED, Reason.RECORD_REMOVED, message, action, pods=step.affected_pods
    )


def start(step: MemberStep) -> Verdict:
    """Start the change with the cordon, once window, budget, halt and approval admit it."""
    failed, policy = step.failed_change, step.policy
    node = step.seen.node
    is_free = not node.unschedulable or (node.owns_cordon and not node.cordoned_by)
    change = Change(
        node_uid=node.uid,
        pool=step.pool.name,
        claim=policy.claim.spec,
        edition=step.pool.spec.edition,
        from_mode=step.leaves,
        to=step.wanted.schedule,
        phase=ChangePhase.CORDONED,
        since=step.ctx.now,
        restart=step.transition.outcome is Outcome.APPLY_AND_RESTART,
        initializing=step.initializes,
        was_schedulable=failed.was_schedulable if failed else is_free or None,
        has_shown_card=step.has_shown_card or None,
        labelled_at=failed.labelled_at if failed else None,
        before=failed.before if failed else (),
        admitted=failed.admitted if failed else None,
        boot_id=failed.boot_id if failed else None,
        lacking_cards=EDITIONS[step.pool.spec.edition].count_lacking_cards(step.seen.node) or None,
        teardown=Teardown() if step.transition.outcome is Outcome.REQUIRES_TEARDOWN else None,
    )
    records = step.seen.records.model_copy(update={"change": change, "drift": step.removals})
    noted = note_module(step.seen, records, get_mode(change.edition, change.from_mode))
    # The cordon and the record of the change, in one write.
    cordon = write_records(step.seen, noted, f"cordoned for {step.way}", cordon=True)
    message = f"Cordoning the node to change {step.way}"
    joins, restores = step.initializes, failed is None and step.drift.reverts
    reason = Reason.DRIFT_REVERTED if restores else Reason.CORDONED
    start = Start(reason, message, cordon, initializes=joins)
    return step.pending(
        NodeState.WAITING, Reason.WAITING_FOR_BUDGET, message, pods=step.affected_pods, start=start
    )
