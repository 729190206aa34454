"""Where things stand in a dashboard's picture, in pixels from its upper left corner."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tests.dashboard.answers import Line, Window
from tests.dashboard.panels import Place

WIDTH = 1240
MARGIN = 10
HEAD = 46
"""Height of what stands above the first panel."""

_COLUMNS = 24
_ROW = 25
_GAP = 4
_TICK_STEPS = (10, 15, 30, 60, 120, 300, 600)
_TIMES_AT_MOST = 6


@dataclass(frozen=True)
class Box:
    """A rectangle."""

    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height

    def shrink(
        self, *, left: float = 0, top: float = 0, right: float = 0, bottom: float = 0
    ) -> "Box":
        """What is left of it without these margins."""
        return Box(
            self.left + left,
            self.top + top,
            self.width - left - right,
            self.height - top - bottom,
        )


def find_box(place: Place) -> Box:
    """Of a panel, without the gap to the next one."""
    column = (WIDTH - 2 * MARGIN + _GAP) / _COLUMNS
    return Box(
        MARGIN + place.left * column,
        HEAD + place.top * _ROW,
        place.width * column - _GAP,
        place.height * _ROW - _GAP,
    )


def find_height(places: Sequence[Place]) -> float:
    """Of a picture that ends below the lowest panel."""
    return HEAD + max(place.top + place.height for place in places) * _ROW + MARGIN


def stack(lines: Sequence[Line]) -> list[Line]:
    """Each line upon those before it; where it has no value it adds nothing."""
    below = [0.0] * len(lines[0].values)
    stacked = []
    for line in lines:
        added = (0.0 if math.isnan(value) else value for value in line.values)
        below = [base + value for base, value in zip(below, added, strict=True)]
        stacked.append(Line(line.name, tuple(below)))
    return stacked


def hide_zeros(line: Line, drawn: Line) -> Line:
    """`drawn` where `line` is not zero, and one step further: a line that adds nothing to a stack
    would lie upon the one below it."""
    around = zip((0.0, *line.values[:-1]), line.values, (*line.values[1:], 0.0), strict=True)
    values = (
        value if any(near > 0 for near in nears) else math.nan
        for nears, value in zip(around, drawn.values, strict=True)
    )
    return Line(drawn.name, tuple(values))


def choose_times(window: Window) -> list[int]:
    """Few moments, round since its start; none there, where the other axis' label stands."""
    length = window.end - window.start
    step = next((step for step in _TICK_STEPS if length / step <= _TIMES_AT_MOST), _TICK_STEPS[-1])
    return list(range(window.start + step, window.end + 1, step))


def wrap(widths: Sequence[float], width: float) -> list[list[float]]:
    """Where each of these begins, from left to right, in rows none of which is wider."""
    rows: list[list[float]] = [[]]
    used = 0.0
    for needed in widths:
        if rows[-1] and used + needed > width:
            rows.append([])
            used = 0.0
        rows[-1].append(used)
        used += needed
    return rows
