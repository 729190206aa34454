"""Plans the release of a node that no pool claims any more, until it carries nothing of ours."""

from dataclasses import replace
from datetime import datetime, timedelta

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.api.pool import DeletionPolicy, ModeName, Placement, Pool, ReconcilePolicy, Schedule
from gpushare.api.rollout import (
    ApprovalPolicy,
    FailurePolicy,
    IsolationTeardown,
    WorkloadPolicy,
)
from gpushare.core.deviceplugin.findings import TOLD
from gpushare.core.nodechange.blockers import find_pods_of_another_pool
from gpushare.core.nodechange.label_restoration import owned_labels
from gpushare.core.nodechange.labels_in_force import update_readings
from gpushare.core.nodechange.phases.cordoned import plan_abort, plan_uncordon
from gpushare.core.nodechange.phases.teardown import agree_on_policy, find_removing_job
from gpushare.core.nodechange.reconcile_node import plan_node
from gpushare.core.nodechange.state_machine import find_labelled_rule
from gpushare.core.nodechange.step import Step, write_records
from gpushare.core.ownership.claims import is_cardless
from gpushare.core.records.change_record import ChangePhase
from gpushare.core.records.node_records import extend_initial_values
from gpushare.core.snapshot.actions import ApplyNode, NodePlan, NodeState, ReleaseNode, Verdict
from gpushare.core.snapshot.change_policy import build_attempt, build_policy
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext
from gpushare.editions.registry import EDITIONS, desired_labels, find_mode, find_schedule
from gpushare.names import Reason

JOB_PATIENCE = timedelta(hours=1)
"""How long after a failure a Job is waited for; the Job's own deadline is half of this."""


def has_stalled(pool: Pool, now: datetime, patience: timedelta) -> bool:
    """Return whether no node of a pool that is being deleted finished within `patience`."""
    releasing = pool.status.releasing
    return pool.deleting and releasing is not None and now - releasing.since >= patience


def plan_release(seen: NodeSnapshot, pool: Pool | None, ctx: ReconcileContext) -> NodePlan | None:
    """Plan the release of a node that belonged to `pool`; None where it carries nothing of ours.

    Retain: every label stays, ownership and records go. WholeCard and Restore: the node first
    goes through the same change as a member would. A change whose labels are written is finished
    first, since half-way the node's labels and its plugin disagree. The record that the kernel
    module may be loaded stays on the node in all cases. From a node that never showed a card
    everything is removed at once: no plugin ever served it.
    """
    if not seen.node.carries_ours:
        return None
    if is_cardless(seen.node, seen.records, seen.resource_slices):
        return NodePlan(seen.node.name, _plan_uncordoned(seen, ctx, is_withdrawn=True))
    change = seen.records.change
    keeps = pool is None or _policy_of(pool) is DeletionPolicy.RETAIN
    if keeps and pool is not None and _waits_for_user(seen, pool):
        return _plan_kept(seen, pool, ctx)
    if change is not None and change.is_labelled:
        if keeps and change.failure is not None:
            left = change.failure.at + JOB_PATIENCE - ctx.now
            if (job := find_removing_job(seen)) is not None and left > timedelta():
                waits = _plan_wait_for_job(seen, f"Waiting for Job {job} to end", left)
                return NodePlan(seen.node.name, waits)
            # The node's cards could be allocated twice: its next owner must check it first.
            note = "The last change of the node failed"
            if seen.is_out_of_service:
                note = f"{note}, and it stays cordoned"
            return NodePlan(seen.node.name, _plan_release(seen, ctx, (), note))
        if change.failure is None:
            policy = build_policy(pool, seen.node, ctx.timing)
            if pool is not None:
                policy = agree_on_policy(seen, pool, policy)
            # No pod is evicted for a pool that no longer has the node.
            workloads = WorkloadPolicy.CORDON_AND_WAIT
            policy = replace(policy, rolls_back=False, workloads=workloads)
            found = find_labelled_rule(Step(seen, policy, ctx))
            return NodePlan(seen.node.name, found.verdict, found.facts, str(found))
    if pool is not None and not keeps:
        return _plan_given_back(seen, pool, ctx)
    return NodePlan(seen.node.name, _plan_uncordoned(seen, ctx))


def find_left(
    seen: NodeSnapshot, pool: Pool | None
) -> tuple[dict[str, str], frozenset[str]] | None:
    """Return the operator's labels before `pool` releases the node, and the keys removed then.

    None where every label stays as it is, or the node cannot be released.
    """
    if is_cardless(seen.node, seen.records, seen.resource_slices):
        return owned_labels(seen.node), frozenset(list_withdrawn(seen.node))
    if pool is None or _policy_of(pool) is DeletionPolicy.RETAIN:
        return None
    target, removed = _find_target(seen, pool)
    if target is None:
        return None
    labels = desired_labels(pool.name, target.spec)
    return labels, frozenset(removed) & labels.keys()


def _waits_for_user(seen: NodeSnapshot, pool: Pool) -> bool:
    """Return whether a change failed on the node, and no user has decided about it since."""
    failure = seen.records.failure
    is_current = failure is not None and failure.attempt == build_attempt(pool, seen.node.retry)
    return is_current and not pool.deleting


def _plan_kept(seen: NodeSnapshot, pool: Pool, ctx: ReconcileContext) -> NodePlan:
    """Plan a failed node that no longer matches its pool as a member.

    Its label may be gone for a moment only, for example while feature discovery restarts. A release
    would end the pool's halt, and leave a cordon that nobody removes.
    """
    plan = plan_node(seen, pool, ctx)
    # First: a status cuts the end of a long message.
    advice = "The node left the selector. To release it as it is, list it in spec.nodes.exclude"
    verdict = replace(plan.verdict, message=f"{advice}. {plan.verdict.message}")
    return replace(plan, verdict=verdict)


def _policy_of(pool: Pool) -> DeletionPolicy:
    """Return the pool's deletion policy; Retain for a pool that does not enforce its spec."""
    enforces = pool.spec.reconcile is ReconcilePolicy.ENFORCE
    return pool.spec.deletion_policy if enforces else DeletionPolicy.RETAIN


def _plan_given_back(seen: NodeSnapshot, pool: Pool, ctx: ReconcileContext) -> NodePlan:
    """Plan the node as a member of a pool that specifies the node's state after the release."""
    target, removed = _find_target(seen, pool)
    node = seen.node.name
    if target is None:
        initial = extend_initial_values(seen.records.initial_values, seen.node, names.MODE_LABELS)
        labels = sorted((key, value) for key, value in initial.items() if value is not None)
        shown = ", ".join(f"{key}={value}" for key, value in labels)
        message = (
            f"The labels that the node had at first ({shown}) are no known mode and cannot be "
            "restored. Set deletionPolicy to Retain or WholeCard"
        )
        return NodePlan(node, Verdict(NodeState.BLOCKED, Reason.REQUIRES_MANUAL_ACTION, message))
    if seen.records.change is None and (
        blocker := find_pods_of_another_pool(seen.node, "", seen.pods)
    ):
        return NodePlan(node, Verdict(NodeState.BLOCKED, blocker.reason, blocker.message))
    plan = plan_node(seen, target, ctx)
    verdict = plan.verdict
    if verdict.state is NodeState.READY or (verdict.reason in TOLD and verdict.action is None):
        return NodePlan(node, _plan_release(seen, ctx, removed))
    is_updating, start = verdict.state is NodeState.UPDATING, verdict.start
    release = replace(
        verdict,
        reason=Reason.RELEASING if is_updating else verdict.reason,
        start=start and replace(start, reason=Reason.RELEASING),
        # A release needs no approval: it is no part of the RolloutPlan, which covers members.
        pending=verdict.pending if pool.deleting else None,
    )
    return replace(plan, verdict=release)


def _find_target(seen: NodeSnapshot, pool: Pool) -> tuple[Pool | None, tuple[str, ...]]:
    """Return a pool that specifies the node's state after the release, and the labels removed then.

    None where the labels that the node had at first are no known mode.
    """
    if pool.spec.deletion_policy is DeletionPolicy.WHOLE_CARD:
        return _derive(pool, Schedule.DEFAULT, None), (names.LABEL_POOL,)
    # Keys that the operator never wrote count, too: the mode that is restored may write them.
    initial = extend_initial_values(seen.records.initial_values, seen.node, names.MODE_LABELS)
    labels = {key: value for key, value in initial.items() if value is not None}
    schedule = find_schedule(pool.spec.edition, labels)
    placement = initial.get(names.LABEL_PLACEMENT)
    mode = find_mode(pool.spec.edition, schedule)
    if mode is None or placement not in {None, *Placement}:
        return None, ()
    target = _derive(pool, mode.schedule, Placement(placement) if placement else None)
    absent = {key for key, value in initial.items() if value is None}
    if initial.get(names.LABEL_POOL) != pool.name:
        absent.add(names.LABEL_POOL)
    return target, tuple(sorted(absent))


def _derive(pool: Pool, schedule: ModeName, placement: Placement | None) -> Pool:
    allowed = placement if EDITIONS[pool.spec.edition].has_placement else None
    # A node that leaves its pool is not rolled back to the mode that it is to leave.
    rollout = pool.spec.rollout.model_copy(update={"on_failure": FailurePolicy.HALT})
    update: dict[str, object] = {
        "schedule": schedule,
        "placement": allowed,
        "rollout": rollout,
    }
    if rollout.approval is ApprovalPolicy.MANUAL:
        # A release is in no plan that a user approves: no privileged Job runs for it.
        update["isolation_teardown"] = IsolationTeardown()
    spec = pool.spec.model_copy(update=update)
    return pool.model_copy(update={"spec": spec})


def _plan_release(
    seen: NodeSnapshot, ctx: ReconcileContext, removed: tuple[str, ...], note: str = ""
) -> Verdict:
    labels = seen.node.labels
    if (action := _note_unknown(seen, ctx)) is not None:
        return Verdict(NodeState.UPDATING, Reason.RELEASING, action.message, action)
    remove = {key: labels[key] for key in removed if key in labels and key in seen.node.owned}
    if (verified := labels.get(names.LABEL_ISOLATION_VERIFIED)) is not None:
        # Removed whoever wrote it: after the release nobody keeps its value true.
        remove[names.LABEL_ISOLATION_VERIFIED] = verified
    release = ReleaseNode(seen.node.name, seen.node.uid, remove, note)
    gone = f" and removes {', '.join(remove)}" if remove else ""
    message = f"The operator releases the node{gone}"
    message = f"{message}. {note}" if note else message
    return Verdict(NodeState.UPDATING, Reason.RELEASING, message, release)


def _plan_uncordoned(
    seen: NodeSnapshot, ctx: ReconcileContext, *, is_withdrawn: bool = False
) -> Verdict:
    """Plan to lift the operator's cordon, then to release the node.

    With `is_withdrawn` the release also removes the operator's labels; else they stay.
    """
    if seen.node.owns_cordon or seen.has_lost_cordon:
        if (at_work := seen.maintenance) is not None:
            return Verdict(NodeState.BLOCKED, at_work.reason, at_work.message)
        change = seen.records.change
        # A node whose change failed before is not put in service unverified.
        is_kept = change is not None and change.phase is ChangePhase.CORDONED and not is_withdrawn
        why = "the node leaves its pool"
        action = plan_abort(seen, why=why, now=ctx.now) if is_kept else plan_uncordon(seen, why=why)
        return Verdict(NodeState.UPDATING, Reason.RELEASING, "The node is being released", action)
    return _plan_release(seen, ctx, list_withdrawn(seen.node) if is_withdrawn else ())


def list_withdrawn(node: Node) -> tuple[str, ...]:
    """List the operator's labels on a node, without those that another manager owns too."""
    return tuple(sorted((names.NODE_LABELS & node.owned) - node.managers.keys()))


def _plan_wait_for_job(seen: NodeSnapshot, message: str, left: timedelta) -> Verdict:
    """Wait for a Job that stops the container runtime; keep the node cordoned until it ends."""
    action = None
    if not seen.is_out_of_service:
        action = write_records(seen, seen.records, "cordoned again", cordon=True)
    return Verdict(NodeState.BLOCKED, Reason.RELEASING, message, action, requeue_after=left)


def _note_unknown(seen: NodeSnapshot, ctx: ReconcileContext) -> ApplyNode | None:
    """Build the write that marks a node whose labels its next owner must not trust.

    None where the labels can be trusted, or the node is marked already.
    """
    reading = seen.reading
    if reading is None or seen.records.mode_unknown:
        return None
    applied, records = reading.applied, update_readings(seen, ctx, mode_unknown=True)
    assert records.applied is not None
    is_foreign = applied.mode.follows_label and not reading.is_ours
    is_unknown = applied.needs_restart or reading.is_unknown or is_foreign
    if not (is_unknown or records.applied.mode_unknown):
        return None
    return write_records(seen, records, "The node is marked: its mode is unknown")
