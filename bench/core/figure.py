"""Figures of a benchmark, the bounds that they must keep, and how both are told."""

import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


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
