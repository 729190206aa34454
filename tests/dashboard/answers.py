"""What Prometheus answers to a dashboard's panels."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tests.dashboard.panels import Columns, Panel, Query
from tests.kit.prometheus import Sample, Series

Cell = str | float | None

_LABEL = re.compile(r"\{\{\s*(\w+)\s*\}\}")


class Source(Protocol):
    """Prometheus, or who stands in for it."""

    def query(self, expression: str) -> list[Sample]:
        """What it answers now."""

    def query_range(
        self, expression: str, *, start: int, end: int, step_seconds: int
    ) -> list[Series]:
        """What it would have answered at each step."""


@dataclass(frozen=True)
class Window:
    """The time that a dashboard shows, in seconds since 1970."""

    start: int
    end: int
    step_seconds: int

    @property
    def times(self) -> range:
        return range(self.start, self.end + 1, self.step_seconds)

    def tell(self, moment: int) -> str:
        """Minutes and seconds since its start: the same in each picture, whenever it is drawn."""
        minutes, seconds = divmod(moment - self.start, 60)
        return f"{minutes}:{seconds:02}"


@dataclass(frozen=True)
class Line:
    """A series, with a value for each of the window's times; NaN where there is none."""

    name: str
    values: tuple[float, ...]

    @property
    def last(self) -> float:
        """The last value that is one."""
        return next(value for value in reversed(self.values) if not math.isnan(value))


@dataclass(frozen=True)
class Table:
    """Rows of names and values, under their columns' titles."""

    titles: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class Answer:
    """A panel with what it shows: lines, or for a table its rows."""

    panel: Panel
    lines: tuple[Line, ...] = ()
    table: Table = Table((), ())

    @property
    def is_empty(self) -> bool:
        return not (self.lines or self.table.rows)


class EmptyPanelError(AssertionError):
    """Panels to whose queries Prometheus has nothing to say: their picture would prove nothing."""

    def __init__(self, panels: Sequence[Panel]) -> None:
        told = "\n".join(
            f"  {panel.title}: {query.expression}" for panel in panels for query in panel.queries
        )
        super().__init__(
            f"panels without data ({len(panels)}); let the story make it, or mend their queries:"
            f"\n{told}"
        )


def ask(source: Source, panels: Iterable[Panel], window: Window) -> list[Answer]:
    """The answer to each panel's own queries; raises `EmptyPanelError` for those without any."""
    answers = [_ask_one(source, panel, window) for panel in panels]
    empty = [answer.panel for answer in answers if answer.is_empty and answer.panel.kind != "row"]
    if empty:
        raise EmptyPanelError(empty)
    return answers


def _ask_one(source: Source, panel: Panel, window: Window) -> Answer:
    if panel.kind == "table":
        found = {query.name: source.query(query.expression) for query in panel.queries}
        return Answer(panel, table=build_table(found, panel.columns))
    lines = (line for query in panel.queries for line in _ask_lines(source, query, window))
    return Answer(panel, tuple(lines))


def _ask_lines(source: Source, query: Query, window: Window) -> list[Line]:
    found = source.query_range(
        query.expression, start=window.start, end=window.end, step_seconds=window.step_seconds
    )
    lines = [
        Line(
            _name(query, series.labels),
            tuple(series.points.get(moment, math.nan) for moment in window.times),
        )
        for series in found
    ]
    return [line for line in lines if not all(map(math.isnan, line.values))]


def _name(query: Query, labels: Mapping[str, str]) -> str:
    return _LABEL.sub(lambda found: labels.get(found[1], ""), query.legend).strip()


def build_table(found: Mapping[str, Sequence[Sample]], columns: Columns) -> Table:
    """Grafana's transformations `merge` and `organize`.

    Samples of several queries make one row where the labels that they have in common are equal;
    columns come in the order of labels and queries, unless it is given.
    """
    rows: list[dict[str, Cell]] = []
    for name, samples in found.items():
        for sample in samples:
            row = _find_row(rows, sample.labels)
            if row is None:
                rows.append(row := {})
            row |= {**sample.labels, f"Value #{name}": sample.value}
    labels = sorted({label for samples in found.values() for s in samples for label in s.labels})
    every = [*labels, *(f"Value #{name}" for name in found)]
    shown = sorted(
        (column for column in every if column not in columns.hidden),
        key=lambda column: columns.order.get(column, len(every)),
    )
    return Table(
        tuple(columns.titles.get(column, column) for column in shown),
        tuple(tuple(row.get(column) for column in shown) for row in rows),
    )


def _find_row(rows: Iterable[dict[str, Cell]], labels: Mapping[str, str]) -> dict[str, Cell] | None:
    """The first with equal labels, where it has them; one without any of them is another's."""
    return next(
        (
            row
            for row in rows
            if row.keys() & labels.keys()
            and all(row[label] == value for label, value in labels.items() if label in row)
        ),
        None,
    )
