"""One figure of a bench: what it is, how much it came to, and the worst that it may be."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn


class Unit(StrEnum):
    """What a figure is counted in."""

    RATIO = "ratio"
    SHARE = "share"
    """Of something larger."""
    COUNT = "count"
    POINTS = "points"
    """Of percent."""
    SECONDS = "s"
    CORES = "cores"
    MIB = "MiB"

    @property
    def portable(self) -> bool:
        """Whether another machine should come to the same.

        A ratio's two sides ran on the same machine, one after the other, and a count has no speed.
        """
        return self in (Unit.RATIO, Unit.SHARE, Unit.COUNT)

    def show(self, value: float) -> str:
        """The value with as many digits as mean something."""
        match self:
            case Unit.COUNT | Unit.MIB:
                return f"{value:.0f}"
            case Unit.SECONDS:
                return f"{value:.3f}"
            case Unit.CORES:
                return f"{value:.4f}"
            case Unit.SHARE:
                return f"{value:.1%}"
            case _:
                return f"{value:.2f}"


class Better(StrEnum):
    """Which way a figure is to go."""

    LOWER = "lower"
    HIGHER = "higher"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """What a run came to."""

    name: str
    what: str
    value: float
    unit: Unit = Unit.RATIO
    bound: float | None = None
    """The worst that it may be, on any machine; None where only a comparison tells."""
    floor: str | None = None
    """What a ratio's other side was, in the same run."""
    better: Better = Better.LOWER
    rounds: tuple[Mapping[str, float], ...] = ()
    """What it was reckoned from, as it was measured."""

    @property
    def shown(self) -> str:
        return self.unit.show(self.value)

    @property
    def misses_bound(self) -> bool:
        return self.bound is not None and is_worse(self.value, self.bound, self.better)


def is_worse(value: float, limit: float, better: Better) -> bool:
    """Whether the value is beyond the limit, on the bad side of it."""
    return value > limit if better is Better.LOWER else value < limit


def summarize(bench: str, figures: Iterable[Figure]) -> str:
    """One line, for machines too."""
    return " ".join((bench, *(f"{figure.name}={figure.shown}" for figure in figures)))


def find_misses(figures: Iterable[Figure]) -> Iterator[str]:
    """A sentence for each figure that misses its bound."""
    for figure in figures:
        if figure.misses_bound:
            end = "most" if figure.better is Better.LOWER else "least"
            yield f"{figure.name} is {figure.shown}, and may be {figure.bound:g} at {end}"


def tell(bench: str, figures: Sequence[Figure], *, facts: str = "") -> NoReturn:
    """Print the line of figures, and exit: with status 1 where one misses its bound."""
    print(summarize(f"{bench} {facts}".rstrip(), figures))
    misses = list(find_misses(figures))
    for miss in misses:
        print(f"{bench}: {miss}", file=sys.stderr)
    sys.exit(1 if misses else 0)
