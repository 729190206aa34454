"""Draws a panel of time series: axes, lines or stacked areas, and their legend."""

import math
from collections.abc import Sequence
from itertools import cycle

from tests.dashboard.answers import Answer, Line, Window
from tests.dashboard.layout import Box, choose_times, hide_zeros, stack, wrap
from tests.dashboard.sheet import Sheet, guess_width, to_points
from tests.dashboard.units import choose_labels, choose_ticks

_PAD = 10
_HEADROOM = 8
_TIMES = 20
"""Height of the labels below the axis."""
_ENTRY = 17
"""Height of a row of the legend, and width of a line's sample in it."""
_LETTERS = 11


def draw_chart(sheet: Sheet, answer: Answer, window: Window, box: Box) -> None:
    """All lines of the answer over the window."""
    panel, look = answer.panel, sheet.look
    colors = [
        look.named[panel.colors[line.name]] if line.name in panel.colors else color
        for line, color in zip(answer.lines, cycle(look.lines), strict=False)
    ]
    legend = _draw_legend(sheet, list(zip(answer.lines, colors, strict=True)), box)
    tops = stack(answer.lines) if panel.stacked else list(answer.lines)
    highest = max(value for top in tops for value in top.values if not math.isnan(value))
    ticks = choose_ticks(panel.maximum or highest, panel.unit)
    labels = choose_labels(ticks, panel.unit)
    margin = max(guess_width(label, _LETTERS) for label in labels) + 2 * _PAD
    axes = sheet.add_axes(
        box.shrink(left=margin, top=_HEADROOM, right=_PAD, bottom=_TIMES + legend)
    )
    axes.set_facecolor("none")
    axes.set(xlim=(window.start, window.end), ylim=(0, ticks[-1] * 1.03))
    axes.set_yticks(ticks, labels)
    moments = choose_times(window)
    axes.set_xticks(moments, [window.tell(moment) for moment in moments])
    axes.tick_params(colors=look.muted, labelsize=to_points(_LETTERS), length=0, pad=4)
    axes.grid(color=look.grid, linewidth=0.7)
    axes.set_axisbelow(True)
    for spine in axes.spines.values():
        spine.set_visible(False)
    floor: Sequence[float] = [0.0] * len(window.times)
    for line, top, color in zip(answer.lines, tops, colors, strict=True):
        shown = hide_zeros(line, top) if panel.stacked else top
        axes.plot(window.times, shown.values, color=color, linewidth=1.2, clip_on=False)
        if panel.fill:
            axes.fill_between(
                window.times, floor, top.values, color=color, alpha=panel.fill, linewidth=0
            )
        floor = top.values if panel.stacked else floor


def _draw_legend(sheet: Sheet, entries: Sequence[tuple[Line, str]], box: Box) -> float:
    """At the bottom of the box, in as many rows as it takes; the height of them."""
    widths = [_ENTRY + guess_width(line.name, _LETTERS) + 2 * _PAD for line, _ in entries]
    rows = wrap(widths, box.width - 2 * _PAD)
    height = _ENTRY * len(rows) + _PAD / 2
    left = iter(entries)
    for index, row in enumerate(rows):
        y = box.bottom - height + _ENTRY * (index + 0.5)
        for offset in row:
            line, color = next(left)
            start = box.left + _PAD + offset
            sheet.rule((start, start + _ENTRY - 5), y, color, thick=3)
            sheet.write(start + _ENTRY, y, line.name, size=_LETTERS)
    return height
