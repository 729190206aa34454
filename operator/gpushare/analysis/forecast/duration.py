"""Estimates how long a rollout takes, from what this cluster's plugins took, never a guess."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from statistics import median

from gpushare.analysis.forecast.steps import NodeForecast
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Pool
from gpushare.core.decision_settings import build_timing
from gpushare.core.planner.change_duration import find_longest
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.editions.edition import Outcome
from gpushare.editions.registry import get_mode
from gpushare.settings import Settings


@dataclass(frozen=True, slots=True)
class DurationForecast:
    """The estimated duration of a pool's changes that have a wave."""

    waves: int
    expected: timedelta | None
    """Expected duration; None where a part of it has not been measured."""
    longest: timedelta | None
    """Each wave at its deadline; None where it waits for pods or a user, without a deadline."""
    basis: str
    """Sentences that say how both durations are estimated."""


def forecast_duration(
    pool: Pool,
    steps: Collection[NodeForecast],
    taken: Collection[float],
    snapshot: ClusterSnapshot,
    setup: Settings,
) -> DurationForecast | None:
    """Estimate the duration, by the seconds that the pool's last changes have `taken` if it had
    any; None where no change of the pool has a wave."""
    name_of = snapshot.plugin_daemonsets.name_of
    changing = [step for step in steps if step.wave is not None and step.kind is not None]
    waves = len({step.wave for step in changing})
    if not waves:
        return None
    left_out = sum(step.kind is not None for step in steps) - len(changing)
    basis = "1 wave" if waves == 1 else f"{waves} waves in sequence"
    if any(step.is_about for step in changing):
        basis = f"about {basis}"
    if left_out:
        basis += f", without {_count(left_out)} that must wait for something else"
    if held_up := sum(bool(step.pods) for step in changing):
        basis += f". Pods on {_count(held_up)} must finish first"
        return DurationForecast(waves, None, None, basis)
    if any(step.tears_down for step in changing):
        basis += ". The removal of a kernel module takes an unknown time"
        return DurationForecast(waves, None, None, basis)
    timing = build_timing(setup)
    longest = waves * find_longest(pool, timing)
    restarts = any(s.kind.outcome is Outcome.APPLY_AND_RESTART for s in changing if s.kind)
    if restarts and taken:
        each = timing.recheck + timedelta(seconds=median(taken))
        basis += f". Each takes {each.total_seconds():g} s (median of the pool's last changes)"
        return DurationForecast(waves, waves * each, longest, basis)
    mode = get_mode(pool.spec.edition, pool.spec.schedule)
    starts = _measure_starts(mode.daemonsets, snapshot.pods)
    if missing := [name_of(name) for name in mode.daemonsets if name not in starts]:
        basis += f". No pod of {' and '.join(missing)} runs here to measure its start"
        return DurationForecast(waves, None, longest, basis)
    each = timing.recheck + (timing.settle if restarts else timedelta())
    basis += f". Each takes {each.total_seconds():g} s by default settings"
    if starts:
        slowest = max(starts, key=lambda name: (starts[name], name))
        each += timedelta(seconds=starts[slowest])
        basis += (
            f" and {starts[slowest]:g} s until {name_of(slowest)} is Ready (median of its pods "
            "in this cluster)"
        )
    return DurationForecast(waves, waves * each, longest, basis)


def _measure_starts(
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


def _count(nodes: int) -> str:
    return f"{nodes} node{'s' if nodes > 1 else ''}"
