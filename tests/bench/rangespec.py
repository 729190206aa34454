"""What each figure of a whole run should come to, and how far off it may be.

The file is written from several runs (``python -m tests.bench.spread``) and never by hand.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
import yaml

from tests.bench.figure import Better, Figure, Unit, is_worse
from tests.bench.result import Result, Sizes

Tolerance = Mapping[Literal["relative", "absolute"], float]
"""How far from `expected`: a share of it, or so much in the figure's own unit. One of the two."""


@dataclass(frozen=True, kw_only=True)
class Range:
    """What a figure should come to."""

    what: str
    floor: str | None = None
    unit: Unit
    better: Better
    portable: bool
    """Whether it holds on any machine; where not, another machine is held to the bound alone."""
    bound: float | None = None
    expected: float
    tolerance: Tolerance
    spread: tuple[float, float, float]
    """The least, the median and the most of the runs."""
    runs: int

    @property
    def limit(self) -> float:
        """The worst that is still in the range."""
        margin = self._margin
        return self.expected + (margin if self.better is Better.LOWER else -margin)

    @property
    def best(self) -> float:
        """The best that is still in the range: what is beyond it makes the range an old one."""
        margin = self._margin
        return self.expected - (margin if self.better is Better.LOWER else -margin)

    @property
    def _margin(self) -> float:
        if (share := self.tolerance.get("relative")) is not None:
            return abs(self.expected) * share
        return self.tolerance["absolute"]


@dataclass(frozen=True)
class Rangespec:
    """The ranges, and the sizes of the runs that they come from."""

    sizes: Sizes
    figures: Mapping[str, Range]


@dataclass(frozen=True)
class Verdict:
    """One line of a comparison."""

    line: str
    fails: bool = False


def compare(result: Result, spec: Rangespec, *, same_machine: bool) -> Iterator[Verdict]:
    """A verdict for each figure of either.

    On the machine of the ranges every figure is held to its own; on another, those that do not
    carry over are held to their bound alone.
    """
    if result.sizes != spec.sizes:
        yield Verdict(f"measured with {result.sizes}, but the ranges are of {spec.sizes}", True)
        return
    measured = {figure.name: figure for figure in result.figures}
    for name, expected in spec.figures.items():
        if name not in measured:
            yield Verdict(f"{name}: it has a range, but was not measured", True)
        elif expected.portable or same_machine:
            yield judge(measured[name], expected)
        else:
            yield judge_bound(measured[name])
    for name in measured.keys() - spec.figures.keys():
        yield Verdict(f"{name}: it was measured, but has no range; make bench-spread", True)


def judge(figure: Figure, expected: Range) -> Verdict:
    """The figure beside its range."""
    show = figure.unit.show
    least, median, most = map(show, expected.spread)
    end = "most" if expected.better is Better.LOWER else "least"
    range_ = (
        f"{show(expected.limit)} at {end} "
        f"({expected.runs} runs: {least} to {most}, median {median})"
    )
    if is_worse(figure.value, expected.limit, expected.better):
        return Verdict(f"{figure.name} is {figure.shown}, and should be {range_}", True)
    if is_worse(expected.best, figure.value, expected.better):
        return Verdict(f"{figure.name} is {figure.shown}, better than its range: {range_}")
    return Verdict(f"{figure.name} is {figure.shown}: {range_}")


def judge_bound(figure: Figure) -> Verdict:
    """A figure of another machine's speed or memory."""
    if figure.bound is None:
        return Verdict(f"{figure.name} is {figure.shown}; it depends on the machine")
    end = "most" if figure.better is Better.LOWER else "least"
    bound = f"{figure.unit.show(figure.bound)} at {end} on any machine"
    if figure.misses_bound:
        return Verdict(f"{figure.name} is {figure.shown}, and should be {bound}", True)
    return Verdict(f"{figure.name} is {figure.shown}: {bound}")


def write_rangespec(spec: Rangespec, header: Sequence[str], path: Path) -> None:
    """As YAML, below a comment of the header's lines."""
    comment = "".join(f"# {line}".rstrip() + "\n" for line in header)
    body = yaml.safe_dump(msgspec.to_builtins(spec), sort_keys=False, default_flow_style=None)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(comment + body)


def read_rangespec(path: Path) -> Rangespec:
    """Raises ValueError with the file's name where it holds no ranges."""
    try:
        return msgspec.convert(yaml.safe_load(path.read_text()), Rangespec)
    except (msgspec.ValidationError, yaml.YAMLError) as error:
        raise ValueError(
            f"{path} holds no ranges ({error}); make bench-spread writes it"
        ) from error
