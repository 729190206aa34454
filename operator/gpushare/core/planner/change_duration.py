"""Estimates how long one node's change takes, by the durations of its pool's last changes."""

from datetime import timedelta

from gpushare.api.pool import Pool
from gpushare.core.snapshot.change_policy import find_ready_timeout
from gpushare.core.snapshot.node import Timing


def find_longest(pool: Pool, timing: Timing) -> timedelta:
    """Return the time after which a change is complete or has failed, if no pods hold it up."""
    return timing.recheck + find_ready_timeout(pool, timing)


def find_needed(pool: Pool, longest_seconds: float | None, timing: Timing) -> timedelta:
    """Estimate the time that a change needs in a window.

    `longest_seconds` is how long the longest of the pool's last changes took from its labels on;
    where it is None, the deadline counts.
    """
    longest = find_longest(pool, timing)
    if longest_seconds is None:
        return longest
    return min(longest, timing.recheck + timedelta(seconds=longest_seconds))
