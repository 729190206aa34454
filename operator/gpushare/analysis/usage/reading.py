"""Sums up what an exporter reported of the memory that one pod uses."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil

from gpushare.analysis.usage.exporters import Exporter

PodKey = tuple[str, str]
"""Namespace and name of a pod."""
Point = tuple[float, float]
"""A moment, in seconds since 1970, and a value."""
Labelled = tuple[Mapping[str, str], float]
"""Labels of a series, and its value."""


_MOST_BYTES = 2**42
"""More than a pod has on all cards of a node; exporters write larger values for none."""
_LONE_SECONDS = 300
"""Time for which a point stands that has none beside it: for so long Prometheus takes a sample."""


@dataclass(frozen=True)
class Reading:
    """The memory of cards that a pod used, by one exporter."""

    exporter: Exporter
    node: str
    """Where the pod was last seen; empty where the exporter does not tell."""
    points: Mapping[float, float]
    """Bytes by moment, which are `step_seconds` apart; none where nothing is known."""
    step_seconds: int
    peaks_bytes: tuple[float, ...]
    """The most that was ever recorded of each card that it held, largest first."""
    is_plausible: bool = True
    """Whether all values were such that a card can have."""

    @cached_property
    def seconds_by_moment(self) -> Mapping[float, int]:
        """The time for which each point stands."""
        moments, step = self.points, self.step_seconds
        if step <= _LONE_SECONDS:
            return dict.fromkeys(moments, step)
        return {
            moment: step if moment - step in moments or moment + step in moments else _LONE_SECONDS
            for moment in moments
        }

    @property
    def observed_seconds(self) -> float:
        return float(sum(self.seconds_by_moment.values()))

    @property
    def used_byte_seconds(self) -> float:
        return sum(value * self.seconds_by_moment[moment] for moment, value in self.points.items())

    def find_peak_bytes(self, cards: int) -> float:
        """Find the most that the pod used, which holds so many cards at one time.

        The peaks of its cards are added, also where they were not at one time. A pod whose name
        came back on another card did not hold both.
        """
        return max(sum(self.peaks_bytes[:cards]), self._highest_point)

    def find_card_peak_bytes(self, cards: int) -> float:
        """Find the most that it used of one of so many cards."""
        return max([*self.peaks_bytes[:1], self._highest_point / cards])

    @cached_property
    def _highest_point(self) -> float:
        return max(self.points.values(), default=0.0)


def build_readings(
    exporter: Exporter,
    series: Iterable[tuple[Mapping[str, str], Sequence[Point]]],
    peaks: Iterable[Labelled],
    step_seconds: int,
) -> dict[PodKey, Reading]:
    """Build the reading of each pod from one exporter's answers, in its unit.

    `series` are labels and points by pod, and by node where the exporter tells it; `peaks` the
    highest values by container and card. A pod that was seen too briefly for a point has only
    those. Values that no card can have are left out, and noted.
    """
    unit = exporter.bytes_per_unit
    points: dict[PodKey, dict[float, float]] = {}
    cards: dict[PodKey, dict[tuple[str, ...], float]] = {}
    nodes: dict[PodKey, str] = {}
    implausible: set[PodKey] = set()
    for labels, of_series in series:
        key = exporter.find_pod(labels)
        # Of these there are millions.
        plausible = {
            moment: value * unit for moment, value in of_series if 0 <= value * unit <= _MOST_BYTES
        }
        if len(plausible) < len(of_series):
            implausible.add(key)
        seen = points.setdefault(key, plausible)
        if of_series and of_series[-1][0] >= max(seen, default=0.0):
            nodes[key] = labels.get(exporter.node, "")
        if seen is not plausible:
            # A pod of that name on two nodes at one moment: the older one is on its way out.
            for moment, value in plausible.items():
                seen[moment] = max(seen.get(moment, 0.0), value)
    for labels, value in peaks:
        key = exporter.find_pod(labels)
        of_pod = cards.setdefault(key, {})
        card = tuple(labels.get(each, "") for each in exporter.card)
        if 0 <= value * unit <= _MOST_BYTES:
            of_pod[card] = of_pod.get(card, 0.0) + value * unit
        else:
            implausible.add(key)
    return {
        key: Reading(
            exporter,
            nodes.get(key, ""),
            points.get(key, {}),
            step_seconds,
            tuple(sorted(cards.get(key, {}).values(), reverse=True)),
            key not in implausible,
        )
        for key in points.keys() | cards.keys()
        if points.get(key) or cards.get(key) or key in implausible
    }


def find_quantile(values: Sequence[float], fraction: float) -> float | None:
    """Find the smallest of sorted `values` that at least this fraction of them does not exceed
    (nearest rank); None of no values."""
    if not values:
        return None
    return values[max(ceil(fraction * len(values)), 1) - 1]
