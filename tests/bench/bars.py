"""What the picture of the benchmarks shows, without drawing it."""

from collections.abc import Sequence
from dataclasses import dataclass

from tests.bench.figure import Better, Unit
from tests.bench.rangespec import Rangespec


@dataclass(frozen=True)
class Bar:
    """One ratio: from the least to the most of the runs, with its median."""

    what: str
    floor: str
    least: float
    median: float
    most: float
    bound: float | None


def list_bars(spec: Rangespec) -> Sequence[Bar]:
    """The ratios that are better the lower they are, in the order of the ranges."""
    return [
        Bar(each.what, each.floor, *each.spread, bound=each.bound)
        for each in spec.figures.values()
        if each.unit is Unit.RATIO and each.better is Better.LOWER and each.floor is not None
    ]
