"""A sheet to draw on, measured in pixels from its upper left corner."""

from collections.abc import Sequence
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from tests.dashboard.layout import WIDTH, Box
from tests.dashboard.look import Look

_DOTS = 100
"""Pixels of an inch."""
_POINTS = 72 / _DOTS
"""Of a pixel: what letters and lines are measured in."""
_CHARACTER = 0.55
"""Width of a letter by its height, about."""


class Sheet:
    """A figure as wide as the layout, of this height."""

    def __init__(self, height: float, look: Look) -> None:
        self.look = look
        self.figure = Figure(figsize=(WIDTH / _DOTS, height / _DOTS), facecolor=look.page)
        self._height = height
        self._canvas = self.add_axes(Box(0, 0, WIDTH, height))
        self._canvas.set(xlim=(0, WIDTH), ylim=(height, 0))
        self._canvas.axis("off")

    def add_axes(self, box: Box) -> Axes:
        """Axes that fill the box."""
        place = (box.left, self._height - box.bottom, box.width, box.height)
        scales = (WIDTH, self._height, WIDTH, self._height)
        left, bottom, width, height = (
            value / scale for value, scale in zip(place, scales, strict=True)
        )
        return self.figure.add_axes((left, bottom, width, height))

    def frame(self, box: Box) -> None:
        """A panel's ground."""
        self._canvas.add_patch(
            FancyBboxPatch(
                (box.left, box.top),
                box.width,
                box.height,
                boxstyle="round,pad=0,rounding_size=3",
                facecolor=self.look.panel,
                edgecolor=self.look.border,
                linewidth=_POINTS,
            )
        )

    def rule(self, xs: Sequence[float], y: float, color: str, *, thick: float = 1) -> None:
        """A horizontal line from the first to the second x."""
        self._canvas.plot(xs, (y, y), color=color, linewidth=thick * _POINTS)

    def write(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 12,
        color: str | None = None,
        bold: bool = False,
        align: Literal["left", "center", "right"] = "left",
    ) -> None:
        """Text around the line `y`."""
        self._canvas.text(
            x,
            y,
            text,
            fontsize=to_points(size),
            color=color or self.look.text,
            fontweight="bold" if bold else "normal",
            horizontalalignment=align,
            verticalalignment="center_baseline",
            parse_math=False,
        )


def to_points(pixels: float) -> float:
    """As matplotlib measures letters and lines."""
    return pixels * _POINTS


def guess_width(text: str, size: float = 12) -> float:
    """Of text of this size: which letters a reader's machine has, nobody knows."""
    return len(text) * size * _CHARACTER
