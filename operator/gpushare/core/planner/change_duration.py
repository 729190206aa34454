"""Estimates how long one node's change takes, from what the last changes of its pool took."""

from datetime import timedelta

from gpushare.api.pool import Pool
from gpushare.core.snapshot.change_policy import find_ready_timeout
from gpushare.core.snapshot.node import Timing


def find_longest(pool: Pool, timing: Timing) -> timedelta:
    """Find when a change that begins now is over or counts as failed, without pods to wait for."""
    return timing.recheck + find_ready_timeout(pool, timing)


def find_needed(pool: Pool, longest_seconds: float | None, timing: Timing) -> timedelta:
    """Estimate the time that a change needs in a window: as the longest of the pool's last changes,
    in seconds from its labels on. Without any, by the deadline.
    """
    longest = find_longest(pool, timing)
    if longest_seconds is None:
        return longest
    return min(longest, timing.recheck + timedelta(seconds=longest_seconds))
