"""Estimates how long one node's change takes, from what this cluster's plugins took."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from statistics import median

from gpushare.api.k8s.pod import Pod
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


def measure_starts(
    daemonsets: Collection[str], pods: Mapping[str, Sequence[Pod]]
) -> dict[str, float]:
    """Measure, by DaemonSet, the median of the seconds from creation to Ready of its pods.

    One that restarted is left out: it was Ready for the first time before.
    """
    found: defaultdict[str, list[float]] = defaultdict(list)
    for pod in (pod for each in pods.values() for pod in each):
        if pod.daemonset not in daemonsets or pod.restarts:
            continue
        if pod.created is not None and pod.ready_since is not None:
            found[pod.daemonset].append((pod.ready_since - pod.created).total_seconds())
    return {name: median(seconds) for name, seconds in found.items()}
