"""``python -m tests.bench.plot FOLDER``: the ratios of the rangespec as a picture, light and dark.

Drawn from the ranges alone, and byte by byte the same each time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from tests.bench.bars import Bar, list_bars
from tests.bench.rangespec import read_rangespec
from tests.bench.spread import RANGESPEC

_WIDTH, _ROW, _MARGIN = 9.0, 0.42, 0.9
"""Inches; of each ratio, and of the axis below."""
_TICKS = (0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 6, 8)
_LABEL_END = -0.02
_CAPTION_CENTRE = 0.3
_FONTS = ["DejaVu Sans", "Verdana", "Arial"]


@dataclass(frozen=True)
class Look:
    """Colours of one theme."""

    panel: str
    text: str
    muted: str
    grid: str
    bar: str
    bound: str


LOOKS = {
    "light": Look("#ffffff", "#24292e", "#65686c", "#e6e7e7", bar="#1f60c4", bound="#c25200"),
    "dark": Look("#181b1f", "#d8d9dd", "#9fa1a8", "#292c31", bar="#5794f2", bound="#ff9830"),
}

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def draw(bars: Sequence[Bar], look: Look, caption: str) -> Canvas:
    """A line for each ratio: its spread over the runs, a dot at the median, a tick at the bound."""
    size = (_WIDTH, _MARGIN + _ROW * len(bars))
    canvas = Canvas(figsize=size, layout="constrained", facecolor=look.panel)
    axes = canvas.add_subplot()
    axes.set_facecolor("none")
    axes.set_xscale("log", base=2)
    axes.axvline(1, color=look.text, linewidth=1)
    for row, bar in enumerate(bars):
        _draw_bar(axes, row, bar, look)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.set_yticks([])
    axes.set_xlabel(caption, color=look.text, size=8, x=_CAPTION_CENTRE)
    least, most = _find_ends(bars)
    ticks = [tick for tick in _TICKS if least < tick < most]
    axes.set_xticks(ticks, [f"{tick:g}x" for tick in ticks])
    axes.set_xticks((), minor=True)
    axes.set_xlim(least, most)
    axes.tick_params(colors=look.text, length=0)
    axes.grid(axis="x", color=look.grid)
    for side in axes.spines.values():
        side.set_visible(False)
    return canvas


def _find_ends(bars: Sequence[Bar]) -> tuple[float, float]:
    """Of the axis: a little beyond every bar, bound and the floor itself."""
    marks = [mark for bar in bars for mark in (bar.least, bar.most, bar.bound or 1)]
    return min(1, *marks) * 0.9, max(1, *marks) * 1.1


def _draw_bar(axes: Axes, row: int, bar: Bar, look: Look) -> None:
    beside = axes.get_yaxis_transform()
    labels: dict[str, Any] = {"transform": beside, "ha": "right"}
    axes.text(_LABEL_END, row - 0.02, bar.what, color=look.text, va="bottom", size=9, **labels)
    floor = f"beside {bar.floor}"
    axes.text(_LABEL_END, row + 0.04, floor, color=look.muted, va="top", size=8, **labels)
    axes.plot([bar.least, bar.most], [row, row], color=look.bar, linewidth=5, alpha=0.4)
    axes.plot(bar.median, row, "o", color=look.bar, markersize=6)
    axes.annotate(
        f"{bar.median:.2f}",
        (bar.median, row),
        xytext=(0, 6),
        textcoords="offset points",
        ha="center",
        color=look.text,
        size=8,
    )
    if bar.bound is not None:
        axes.plot(bar.bound, row, "|", color=look.bound, markersize=14, markeredgewidth=2)


def write_picture(figure: Canvas, path: Path) -> None:
    """Write it as SVG: of the same ranges the same file, with text that stays text."""
    with rc_context({"svg.hashsalt": path.stem, "svg.fonttype": "none", "font.sans-serif": _FONTS}):
        figure.savefig(path, metadata={"Date": None}, facecolor=figure.get_facecolor())


@app.command()
def plot(
    folder: Annotated[Path, typer.Argument(help="Where bench-light.svg and -dark.svg go.")],
    ranges: Annotated[Path, typer.Option(help="What is drawn.", exists=True)] = RANGESPEC,
) -> None:
    """Draw the ratios beside their floors."""
    try:
        spec = read_rangespec(ranges)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    bars, folder = list_bars(spec), folder.resolve()
    runs = max(each.runs for each in spec.figures.values())
    caption = (
        f"times the floor, which is 1x. Bar: the least to the most of {runs} runs; dot: their "
        "median; orange: the bound"
    )
    folder.mkdir(parents=True, exist_ok=True)
    for name, look in LOOKS.items():
        write_picture(draw(bars, look, caption), folder / f"bench-{name}.svg")
    print(f"{folder}: bench-light.svg and bench-dark.svg, {len(bars)} ratios")


if __name__ == "__main__":
    app()
