"""Figures as a table for people."""

from collections.abc import Sequence

from tests.bench.figure import Better, Figure, Unit

_HEAD = ("figure", "value", "bound", "what it is", "floor")
_PLAIN = (Unit.RATIO, Unit.SHARE, Unit.COUNT)
_GAP = "   "


def show_table(figures: Sequence[Figure]) -> str:
    """A line for each figure, in columns; a value beyond its bound has an exclamation mark."""
    rows = [_HEAD, *map(_list_cells, figures)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        _GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
    return "\n".join(lines)


def _list_cells(figure: Figure) -> tuple[str, ...]:
    unit = "" if figure.unit in _PLAIN else f" {figure.unit}"
    mark = " !" if figure.misses_bound else ""
    end = "<=" if figure.better is Better.LOWER else ">="
    bound = "" if figure.bound is None else f"{end} {figure.bound:g}"
    return (
        figure.name,
        f"{figure.shown}{unit}{mark}",
        bound,
        figure.what,
        figure.floor or "",
    )
