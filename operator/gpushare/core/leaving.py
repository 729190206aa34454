"""What a node needs that no pool claims any more, until nothing on it is ours."""

from dataclasses import replace
from datetime import datetime, timedelta

from gpushare import names
from gpushare.api.pool import (
    EDITION_SCHEDULES,
    DeletionPolicy,
    Edition,
    Placement,
    Pool,
    ReconcilePolicy,
    Schedule,
)
from gpushare.api.rollout import FailurePolicy
from gpushare.core.actions import ApplyNode, NodePlan, NodeState, ReleaseNode, build_apply
from gpushare.core.applied import note_readings
from gpushare.core.blockers import find_pods_of_another_pool
from gpushare.core.change import owned_labels
from gpushare.core.diagnosis import TOLD
from gpushare.core.inforce import is_mode_unknown
from gpushare.core.member import plan_member
from gpushare.core.modes import MODES, desired_labels, find_schedule
from gpushare.core.module import note_module
from gpushare.core.observed import Observed, Pass
from gpushare.core.policy import build_policy
from gpushare.core.records import Step, extend_found
from gpushare.core.rollout import plan_give_way, plan_let_go, plan_step
from gpushare.core.turn import CLOSED, Turn
from gpushare.names import Reason


def has_stalled(pool: Pool, now: datetime, patience: timedelta) -> bool:
    """Whether no node of a pool that is being deleted finished for so long."""
    leaving = pool.status.leaving
    return pool.deleting and leaving is not None and now - leaving.since >= patience


def plan_leaving(
    seen: Observed, pool: Pool | None, at: Pass, turn: Turn = CLOSED
) -> NodePlan | None:
    """What the node needs that `pool` had; None where nothing of ours is on it.

    Retain: every label stays, ownership and records go. WholeCard and Restore: the node first
    goes through the same change as a member would. A change whose labels are written is finished
    in any case: half-way, the node would say one thing and do another. In all of them it stays
    on the node that the kernel module may be loaded.
    """
    if not seen.node.carries_ours:
        return None
    change = seen.records.change
    keeps = pool is None or _policy_of(pool) is DeletionPolicy.RETAIN
    if change is not None and change.is_labelled:
        if keeps and change.failure is not None:
            # Its cards could be given out twice: whoever takes the node over must look first.
            return _plan_release(seen, at, (), "it stays cordoned: its last change failed")
        if change.failure is None:
            policy = build_policy(pool, seen.node, at.timing)
            return plan_step(seen, replace(policy, rolls_back=False), at)
    if pool is not None and not keeps:
        return _plan_given_back(seen, pool, at, turn)
    if seen.node.owns_cordon:
        cordoned = change is not None and change.step is Step.CORDONED
        # A node whose change failed before is not put in service unverified.
        why = "the node leaves its pool"
        action = (
            plan_give_way(seen, why=why, now=at.now) if cordoned else plan_let_go(seen, why=why)
        )
        return seen.plan(NodeState.UPDATING, Reason.LEAVING, "letting go", action)
    return _plan_release(seen, at, ())


def find_left(seen: Observed, pool: Pool | None) -> tuple[dict[str, str], frozenset[str]] | None:
    """Labels that are ours before `pool` lets go of the node, and those of them that go then.

    None where every label stays as it is.
    """
    if pool is None or _policy_of(pool) is DeletionPolicy.RETAIN:
        return None
    target, removed = _find_target(seen, pool)
    if target is None:
        return None
    labels = desired_labels(pool.name, target.spec)
    return labels, frozenset(removed) & labels.keys()


def _policy_of(pool: Pool) -> DeletionPolicy:
    """A pool that does not act does not change nodes that leave it either."""
    enforces = pool.spec.reconcile is ReconcilePolicy.ENFORCE
    return pool.spec.deletion_policy if enforces else DeletionPolicy.RETAIN


def _plan_given_back(seen: Observed, pool: Pool, at: Pass, turn: Turn) -> NodePlan:
    """The node as a member of a pool that wants what the node is to be left with."""
    target, removed = _find_target(seen, pool)
    if target is None:
        found = dict(seen.records.found or {})
        message = f"what was found on the node is no mode that can be restored ({found})"
        return seen.plan(NodeState.BLOCKED, Reason.REQUIRES_PERSON, message)
    if seen.records.change is None and (
        blocker := find_pods_of_another_pool(seen.node, "", seen.pods)
    ):
        return seen.plan(NodeState.BLOCKED, blocker.reason, blocker.message)
    plan = plan_member(seen, target, at, turn)
    is_done = plan.state is NodeState.READY or (plan.reason in TOLD and plan.action is None)
    if is_done:
        return _plan_release(seen, at, removed)
    return plan if plan.state is not NodeState.UPDATING else replace(plan, reason=Reason.LEAVING)


def _find_target(seen: Observed, pool: Pool) -> tuple[Pool | None, tuple[str, ...]]:
    """The pool that says what the node shall become, and the labels to be removed after that."""
    if pool.spec.deletion_policy is DeletionPolicy.WHOLE_CARD:
        return _derive(pool, Schedule.DEFAULT, None), (names.LABEL_POOL,)
    # A key that was never ours says what was found, too: the mode that is restored may write it.
    found = extend_found(seen.records.found, seen.node, names.MODE_LABELS)
    labels = {key: value for key, value in found.items() if value is not None}
    schedule, placement = find_schedule(pool.spec.edition, labels), found.get(names.LABEL_PLACEMENT)
    known = schedule in set(EDITION_SCHEDULES[pool.spec.edition])
    if not known or placement not in {None, *Placement}:
        return None, ()
    target = _derive(pool, Schedule(schedule), Placement(placement) if placement else None)
    absent = {key for key, value in found.items() if value is None}
    if found.get(names.LABEL_POOL) != pool.name:
        absent.add(names.LABEL_POOL)
    return target, tuple(sorted(absent))


def _derive(pool: Pool, schedule: Schedule, placement: Placement | None) -> Pool:
    allowed = placement if pool.spec.edition is Edition.PROFESSIONAL else None
    # A node that leaves is not rolled back to what it is to leave.
    rollout = pool.spec.rollout.model_copy(update={"on_failure": FailurePolicy.HALT})
    update = {"schedule": schedule, "placement": allowed, "rollout": rollout}
    spec = pool.spec.model_copy(update=update)
    return pool.model_copy(update={"spec": spec})


def _plan_release(seen: Observed, at: Pass, removed: tuple[str, ...], note: str = "") -> NodePlan:
    labels = seen.node.labels
    if (action := _note_unknown(seen, at)) is not None:
        return seen.plan(NodeState.UPDATING, Reason.LEAVING, action.message, action)
    remove = {key: labels[key] for key in removed if key in labels and key in seen.node.owned}
    if (said := labels.get(names.LABEL_ISOLATION_VERIFIED)) is not None:
        # Whoever wrote it: from now on nobody vouches for what it says.
        remove[names.LABEL_ISOLATION_VERIFIED] = said
    release = ReleaseNode(seen.node.name, seen.node.uid, remove, note)
    parts = ["ownership is given up", f"removed: {', '.join(remove)}" if remove else "", note]
    message = "; ".join(part for part in parts if part)
    return seen.plan(NodeState.UPDATING, Reason.LEAVING, message, release)


def _note_unknown(seen: Observed, at: Pass) -> ApplyNode | None:
    """The write after which whoever has the node next does not believe its labels; None where they
    can be believed, or it is written."""
    applied = seen.records.applied
    if applied is None or seen.records.mode_unknown:
        return None
    readings = note_readings(seen, applied, at)
    is_unknown = applied.needs_restart or is_mode_unknown(seen.node, seen.pods, applied)
    if not (is_unknown or readings.get("mode_unknown")):
        return None
    noted = {"mode_unknown": True, "applied": applied.model_copy(update=readings)}
    records = seen.records.model_copy(update=noted)
    return build_apply(
        seen.node,
        owned_labels(seen.node),
        note_module(seen, records, MODES[applied.edition, applied.schedule], at),
        cordon=seen.node.owns_cordon,
        message="that its mode is unknown is left on the node",
    )
