"""Figures of a benchmark, the bounds that they must keep, and how both are told."""

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
    """What a run came to."""

    name: str
    value: float
    most: float | None = None
    """The worst that it may be; None where it is only told."""
    form: str = ".2f"

    def __str__(self) -> str:
        return f"{self.name}={self.value:{self.form}}"


def find_ratio(pairs: Iterable[tuple[float, float]]) -> float:
    """The second of each pair by the first, which is the floor; the median of the rounds."""
    return statistics.median(value / floor for floor, value in pairs)


def find_median_range(values: Sequence[float]) -> tuple[float, float]:
    """Between which of the `values` the median of all possible ones lies, with 90 % confidence.

    Whether a value is below that median is a coin's toss, so the range follows from their order
    alone; of fewer than five values it is all of them.
    """
    ordered, left_out = sorted(values), 0
    unlikely = (1 - _CONFIDENCE) * 2 ** len(values) / 2
    while sum(math.comb(len(values), index) for index in range(left_out + 2)) <= unlikely:
        left_out += 1
    return ordered[left_out], ordered[-1 - left_out]


def is_steady(values: Sequence[float]) -> bool:
    """Whether enough was measured: the median is known to 15 % to either side.

    Raises `BenchError` where so many values did not do.
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
    """Each figure beyond its bound, with the bound."""
    return [
        f"{figure}, and may be {figure.most:g} at most"
        for figure in figures
        if figure.most is not None and figure.value > figure.most
    ]


def tell(name: str, figures: Sequence[Figure], misses: Sequence[str] = ()) -> None:
    """Print one line of figures; exit with 1 where one misses its bound, or something else does."""
    print(" ".join((name, *map(str, figures))))
    if found := [*misses, *find_misses(figures)]:
        sys.exit("\n".join(f"{name}: {miss}" for miss in found))
