"""Draws a dashboard with what was answered to its panels, about as Grafana does."""

import math
from collections.abc import Sequence
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from tests.dashboard.answers import Answer, Cell, Window
from tests.dashboard.chart import draw_chart
from tests.dashboard.layout import HEAD, MARGIN, WIDTH, Box, find_box, find_height
from tests.dashboard.look import Look
from tests.dashboard.sheet import Sheet
from tests.dashboard.units import format_value

_FONTS = ["DejaVu Sans", "Verdana", "Arial"]
_PAD = 10
_TITLE = 22
_CELL = 26


def draw_dashboard(title: str, answers: Sequence[Answer], window: Window, look: Look) -> Figure:
    """The whole picture: each panel at its place."""
    sheet = Sheet(find_height([answer.panel.place for answer in answers]), look)
    sheet.write(MARGIN, HEAD / 2, title, size=18, bold=True)
    shown = f"{round((window.end - window.start) / 60)} minutes"
    sheet.write(WIDTH - MARGIN, HEAD / 2, shown, color=look.muted, align="right")
    for answer in answers:
        _draw_panel(sheet, answer, window)
    return sheet.figure


def write_picture(figure: Figure, path: Path) -> None:
    """Write it as SVG: of the same answers the same file, with text that stays text."""
    with rc_context({"svg.hashsalt": path.stem, "svg.fonttype": "none", "font.sans-serif": _FONTS}):
        figure.savefig(path, metadata={"Date": None}, facecolor=figure.get_facecolor())


def _draw_panel(sheet: Sheet, answer: Answer, window: Window) -> None:
    panel, box = answer.panel, find_box(answer.panel.place)
    if panel.kind == "row":
        sheet.write(box.left, box.top + box.height / 2, panel.title, size=14, bold=True)
        return
    sheet.frame(box)
    sheet.write(box.left + _PAD, box.top + _TITLE / 2 + 2, panel.title, bold=True)
    content = box.shrink(top=_TITLE)
    if panel.kind == "stat":
        _draw_stat(sheet, answer, window, content)
    elif panel.kind == "table":
        _draw_table(sheet, answer, content)
    else:
        draw_chart(sheet, answer, window, content)


def _draw_stat(sheet: Sheet, answer: Answer, window: Window, box: Box) -> None:
    """The last value, above the way that it took."""
    line, panel = answer.lines[0], answer.panel
    color = sheet.look.named[panel.find_color(line.last)]
    highest = max(value for value in line.values if not math.isnan(value))
    axes = sheet.add_axes(box.shrink(left=1, right=1, top=box.height * 0.55, bottom=1))
    axes.axis("off")
    axes.set(xlim=(window.start, window.end), ylim=(0, highest * 1.05 or 1))
    axes.fill_between(window.times, line.values, color=color, alpha=0.15, linewidth=0)
    axes.plot(window.times, line.values, color=color, linewidth=1)
    middle = (box.left + box.width / 2, box.top + box.height * 0.36)
    value = format_value(line.last, panel.unit)
    sheet.write(*middle, value, size=25, color=color, bold=True, align="center")


def _draw_table(sheet: Sheet, answer: Answer, box: Box) -> None:
    """Its columns are of one width."""
    table, panel = answer.table, answer.panel
    width = (box.width - 2 * _PAD) / len(table.titles)
    for column, title in enumerate(table.titles):
        unit = panel.columns.units.get(title, panel.unit)
        x = box.left + _PAD + column * width
        sheet.write(x, box.top + _CELL / 2, title, color=sheet.look.named["blue"])
        for index, row in enumerate(table.rows, start=1):
            sheet.write(x, box.top + (index + 0.5) * _CELL, _tell(row[column], unit))
    for index in range(1, len(table.rows) + 1):
        sheet.rule((box.left, box.right), box.top + index * _CELL, sheet.look.grid)


def _tell(cell: Cell, unit: str) -> str:
    if isinstance(cell, float):
        return format_value(cell, unit)
    return cell or ""
