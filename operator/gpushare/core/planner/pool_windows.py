"""Keeps what windows and freezes let begin in each pool, for as long as only time passes."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from gpushare.api.pool import Pool
from gpushare.core.planner.change_duration import find_needed
from gpushare.core.planner.pool_state import PoolState
from gpushare.core.rollout.start_now import find_active
from gpushare.core.rollout.window_state import judge_windows
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.core.snapshot.node import Timing


def refresh_windows(
    pool_state: PoolState,
    pool: Pool | None,
    snapshot: ClusterSnapshot,
    timing: Timing,
    now: datetime,
) -> None:
    """Judge the windows of a pool again, where that may have another result by now."""
    if pool is None:
        return
    before, durations, needed = pool_state.windows, pool_state.durations.values(), timedelta()
    current = before if before is not None and before.is_current(now) else None
    if pool.spec.rollout.windows and (durations or current is None):
        needed = find_needed(pool, durations, snapshot.pods, timing)
    elif current is not None:
        needed = current.needed
    if current is not None and needed == current.needed:
        return
    windows = judge_windows(pool, snapshot.freeze, needed, now)
    pool_state.windows = windows
    pool_state.is_stale |= windows != before
    is_started = windows is not None and not windows.is_frozen and bool(find_active(pool))
    pool_state.is_closed = windows is not None and windows.is_closed and not is_started


def list_due(pool_states: dict[str, PoolState], now: datetime) -> Iterator[str]:
    """List the pools whose windows must be judged again."""
    for name, each in pool_states.items():
        if each.windows is not None and not each.windows.is_current(now):
            yield name


def find_next_edge(pool_states: dict[str, PoolState]) -> datetime | None:
    """Find when the next window starts or ends, or a freeze."""
    states = (each.windows for each in pool_states.values() if each.windows is not None)
    return min((each.until for each in states if each.until is not None), default=None)
