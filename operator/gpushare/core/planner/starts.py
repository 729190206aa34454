"""Judges which of a pool's queued nodes may start, by the state of all of its nodes."""

from dataclasses import replace

from gpushare.api.pool import Pool
from gpushare.core.cause import Cause
from gpushare.core.planner.pool_plans import UNKNOWN, PoolPlans
from gpushare.core.rollout.budget import RolloutProgress, find_start_refusal
from gpushare.core.snapshot.actions import NodePlan


def count_progress(
    pool: Pool | None, pool_state: PoolPlans, releasing: int, node: str = ""
) -> RolloutProgress:
    """Count the progress of the rollout, without the budget that `node` uses.

    `releasing` is how many nodes the pool must still give back.
    """
    gives_back = pool is None or pool.deleting
    sums, halt = pool_state.sums, pool_state.halt
    own = pool_state.members.get(node, UNKNOWN).service
    return RolloutProgress(
        total=releasing if gives_back else sums.total,
        unavailable=sums.unavailable - own.is_unavailable,
        changing=sums.changing - own.is_changing,
        verified=sums.verified,
        halted_by=halt.message if halt is not None else "",
        resumes=halt is not None and halt.resumes,
        joins_halted_by=sums.joins.halted_by,
    )


def find_shared_refusals(
    pool: Pool | None, pool_state: PoolPlans, releasing: int
) -> tuple[Cause | None, ...]:
    """Return why one more node in service, and one that joins, may not start, and the windows'
    refusal, all without regard to approval.

    While all three stay the same, nodes that wait need not be judged again.
    """
    progress = count_progress(pool, pool_state, releasing)
    in_service, joins = (find_start_refusal(pool, progress, initializes=i) for i in (False, True))
    return in_service, joins, pool_state.refusal


def find_refusal_of(
    plan: NodePlan, pool: Pool | None, pool_state: PoolPlans, releasing: int, *, is_leaving: bool
) -> Cause | None:
    """Find why the queued node of `plan` may not start; None where it may.

    The budget that the node uses itself does not count. A node that is out of service already, for
    a change that failed, needs no more: nodes that failed together must not wait for each other.
    """
    progress = count_progress(pool, pool_state, releasing, plan.node)
    if plan.facts.under_way:
        progress = replace(progress, unavailable=0, changing=0, joins_halted_by="")
    return find_start_refusal(
        pool,
        progress,
        plan.kind,
        initializes=plan.initializes,
        is_given_back=is_leaving,
        windows=pool_state.windows,
    )
