"""Tells whether a pool's changes may begin now, and what is left when its window ends."""

from gpushare.api.pool import Pool
from gpushare.api.status import PoolStatus, WindowStatus
from gpushare.core.planner.pool_plans import PoolPlans
from gpushare.core.rollout.budget import count_max_unavailable
from gpushare.core.rollout.window_state import (
    HOLDS_ALL,
    WindowState,
    describe_moment,
    describe_start,
)
from gpushare.core.snapshot.actions import NodeState


def build_window(windows: WindowState | None) -> WindowStatus | None:
    """Build `status.window`; None for a pool that has no windows and is not frozen."""
    if windows is None:
        return None
    opening = windows.opening
    if windows.refusal is not None and windows.refusal.reason in HOLDS_ALL:
        return WindowStatus(summary="frozen", state="Frozen")
    if windows.refusal is None and opening is not None:
        summary = f"open until {describe_moment(opening.zone, opening.end)}"
        return WindowStatus(summary=summary, state="Open", end=opening.end)
    if opening is None:
        return WindowStatus(summary="no window is long enough", state="Closed")
    summary = f"next {describe_start(opening)}"
    return WindowStatus(summary=summary, state="Closed", next_start=opening.start)


def describe_closing(pool: Pool, pool_plans: PoolPlans, status: PoolStatus) -> str:
    """Tell what is left now that no change begins any more; empty where that is nothing new."""
    before, after, windows = pool.status.window, status.window, pool_plans.windows
    left = sum(count for kind, count in pool_plans.kinds.items() if kind.is_done)
    left += len(pool_plans.cordoned)
    is_news = (before and before.state, after and after.state) == ("Open", "Closed")
    if windows is None or not (is_news and left):
        return ""
    total = len(pool_plans.plans)
    told = f"{pool_plans.counts[NodeState.READY]} of {total} nodes are done"
    if (opening := windows.opening) is None:
        return f"{told}. {windows.refusal.message if windows.refusal else ''}"
    waves = max(1, (opening.end - opening.start) // windows.needed) if windows.needed else 1
    per_window = waves * count_max_unavailable(pool.spec.rollout, total)
    needed = -(-left // per_window)
    return (
        f"{told}. The next window starts {describe_start(opening)}; about {needed} "
        f"window{'s are' if needed > 1 else ' is'} needed"
    )
