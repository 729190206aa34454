"""Checks whether a user approved a rollout's changes, where `rollout.approval` asks for it."""

from collections.abc import Collection

from gpushare.api.pool import Pool
from gpushare.api.rollout import ApprovalPolicy
from gpushare.api.status import Approval
from gpushare.core.rollout.change_kinds import ChangeKind, hash_kinds


def find_approval(pool: Pool, kinds: Collection[ChangeKind]) -> Approval | None:
    """Return the user's approval: the kinds of change in the plan whose hash is `approvedPlan`.

    None where the pool needs no approval, or has none. An approval stays valid while `approvedPlan`
    stays the same, so that neither progress nor new nodes need another one.
    """
    rollout = pool.spec.rollout
    if rollout.approval is ApprovalPolicy.AUTOMATIC or not rollout.approved_plan:
        return None
    if rollout.approved_plan == hash_kinds(kinds):
        approved = sorted(str(kind) for kind in kinds if kind.is_done)
        return Approval(hash=rollout.approved_plan, kinds=tuple(approved))
    plan = pool.status.plan
    if plan is None or plan.approved is None or plan.approved.hash != rollout.approved_plan:
        return None
    return plan.approved


def is_approved(pool: Pool, kind: ChangeKind) -> bool:
    """Return whether approval lets a change of this `kind` begin.

    An approval counts once it is in the pool's status. A change that is not done automatically, or
    that gives a node back for a deletion, needs none.
    """
    rollout, plan = pool.spec.rollout, pool.status.plan
    if rollout.approval is ApprovalPolicy.AUTOMATIC or pool.deleting or not kind.is_done:
        return True
    if plan is None or plan.approved is None or plan.approved.hash != rollout.approved_plan:
        return False
    return str(kind) in plan.approved.kinds
