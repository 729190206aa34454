"""Figures of a benchmark with their limits and goals, and their report."""

import math
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.core.waiting import BenchError

_FEWEST, _MOST = 5, 25
_CONFIDENCE, _WIDEST = 0.9, 0.15


@dataclass(frozen=True)
class Figure:
    """What a benchmark measures; the less, the better."""

    name: str
    unit: str
    limit: float | None = None
    """Guards against getting worse: a run with a larger value fails. None where the figure is only
    reported."""
    goal: float | None = None
    """Value to reach, printed beside the measured one; no run fails for it."""
    form: str = ".2f"

    def is_missed(self, value: float) -> bool:
        """Tell whether a value is beyond the limit."""
        return self.limit is not None and value > self.limit

    def describe(self, value: float) -> str:
        """Describe a value with limit and goal, on one line."""
        parts = [f"{self.name} {value:{self.form}} {self.unit}"]
        if self.limit is not None:
            parts.append(f"limit {self.limit:g}" + " missed" * self.is_missed(value))
        if self.goal is not None:
            parts.append(f"goal {self.goal:g}" + (" reached" if value <= self.goal else ""))
        return "; ".join(parts)


def find_ratio(pairs: Iterable[tuple[float, float]]) -> float:
    """Return the median of the ratios of the second of each pair to the first, the floor."""
    return statistics.median(value / floor for floor, value in pairs)


def find_median_range(values: Sequence[float]) -> tuple[float, float]:
    """Find the 90 % confidence interval of the median, as two of the `values`.

    A value is below the median with a probability of one half, so the interval follows from the
    order of the values; of fewer than five values it is their whole range.
    """
    ordered, left_out = sorted(values), 0
    unlikely = (1 - _CONFIDENCE) * 2 ** len(values) / 2
    while sum(math.comb(len(values), index) for index in range(left_out + 2)) <= unlikely:
        left_out += 1
    return ordered[left_out], ordered[-1 - left_out]


def is_steady(values: Sequence[float]) -> bool:
    """Tell whether the median is known to 15 % to either side.

    Raises `BenchError` where that is not so after the most values.
    """
    if len(values) < _FEWEST:
        return False
    middle, (low, high) = statistics.median(values), find_median_range(values)
    if max(high - middle, middle - low) <= _WIDEST * middle:
        return True
    if len(values) >= _MOST:
        raise BenchError(f"the median of {_MOST} values is still between {low:g} and {high:g}")
    return False


def report_figures(
    name: str,
    figures: Iterable[Figure],
    values: Mapping[str, float],
    problems: Sequence[str] = (),
) -> None:
    """Print a line for each figure of benchmark `name` that has a value; exit with 1 where one is
    beyond its limit, or there are other problems.

    `values` are by the figures' names. Raises KeyError for one that no figure has.
    """
    by_name = {figure.name: figure for figure in figures}
    measured = [(by_name[key], value) for key, value in values.items()]
    for figure, value in measured:
        print(f"{name}: {figure.describe(value)}")
    misses = [figure.describe(value) for figure, value in measured if figure.is_missed(value)]
    if failures := [*problems, *misses]:
        sys.exit("\n".join(f"{name}: {failure}" for failure in failures))
