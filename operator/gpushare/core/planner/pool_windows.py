"""Judges windows, freezes and contests of each pool again where their answer may have changed."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from gpushare.api.pool import Pool
from gpushare.core.planner.change_duration import find_needed
from gpushare.core.planner.pool_plans import PoolPlans
from gpushare.core.rollout.window_state import judge_windows
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.core.snapshot.node import Timing


def refresh_windows(
    pool_plans: PoolPlans,
    pool: Pool | None,
    snapshot: ClusterSnapshot,
    timing: Timing,
    now: datetime,
) -> None:
    """Judge the windows of a pool again, where the result may have changed by now."""
    before = pool_plans.windows
    # A pool without windows gets none as time passes; a pool that changed has a new state.
    if pool is None or (before is None and pool_plans.answers is not None):
        return
    needed = timedelta()
    if pool.spec.rollout.windows:
        needed = find_needed(pool, pool_plans.longest_seconds, timing)
    if before is not None and before.is_current(now) and needed == before.needed:
        return
    windows = judge_windows(
        pool, snapshot.freeze, needed, timing.recheck, timing.contest_window, now
    )
    pool_plans.windows = windows
    pool_plans.is_stale |= windows != before


def list_due(plans_by_pool: dict[str, PoolPlans], now: datetime) -> Iterator[str]:
    """Yield the names of pools whose windows must be judged again, or were never judged."""
    for name, each in plans_by_pool.items():
        is_due = each.windows is not None and not each.windows.is_current(now)
        if is_due or each.answers is None:
            yield name


def find_next_edge(plans_by_pool: dict[str, PoolPlans]) -> datetime | None:
    """Return when the first of the pools' window states ends; None where none does."""
    states = (each.windows for each in plans_by_pool.values() if each.windows is not None)
    return min((state.until for state in states if state.until is not None), default=None)
