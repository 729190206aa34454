"""Figures of a benchmark with their bounds, and their report."""

import math
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.core.waiting import BenchError

_FEWEST, _MOST = 5, 25
_CONFIDENCE, _WIDEST = 0.9, 0.15


@dataclass(frozen=True)
class Figure:
    """A result of a run."""

    name: str
    value: float
    most: float | None = None
    """Upper bound; None where the figure is only reported."""
    form: str = ".2f"

    def __str__(self) -> str:
        return f"{self.name}={self.value:{self.form}}"


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


def find_misses(figures: Iterable[Figure]) -> list[str]:
    """List the figures beyond their bounds."""
    return [
        f"{figure}, and may be {figure.most:g} at most"
        for figure in figures
        if figure.most is not None and figure.value > figure.most
    ]


def report_figures(name: str, figures: Sequence[Figure], misses: Sequence[str] = ()) -> None:
    """Print one line of figures; exit with 1 where one misses its bound, or something else does."""
    print(" ".join((name, *map(str, figures))))
    if failures := [*misses, *find_misses(figures)]:
        sys.exit("\n".join(f"{name}: {miss}" for miss in failures))
