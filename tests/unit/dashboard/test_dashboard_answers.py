"""What becomes of Prometheus' answers, and that no panel may be without one."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from tests.dashboard.answers import EmptyPanelError, Line, Window, ask, build_table
from tests.dashboard.panels import Columns, Panel, Place, Query
from tests.kit.prometheus import Sample, Series

PLACE = Place(0, 0, 8, 8)
WINDOW = Window(start=100, end=104, step_seconds=2)
ROW = Panel("Pods", "row", PLACE)


@dataclass
class Answering:
    """Prometheus, with these answers, and none to other questions."""

    samples: Mapping[str, list[Sample]] = field(default_factory=dict)
    series: Mapping[str, list[Series]] = field(default_factory=dict)

    def query(self, expression: str) -> list[Sample]:
        return self.samples.get(expression, [])

    def query_range(
        self, expression: str, *, start: int, end: int, step_seconds: int
    ) -> list[Series]:
        assert (start, end, step_seconds) == (100, 104, 2)
        return self.series.get(expression, [])


def chart(*expressions: str, legend: str = "{{pool}} free") -> Panel:
    queries = (Query("A", expression, legend) for expression in expressions)
    return Panel("Free", "timeseries", PLACE, queries=tuple(queries))


def test_a_line_has_a_value_for_each_time_and_nan_where_there_is_none() -> None:
    series = Series({"pool": "training"}, {100: 3.0, 104: 5.0})
    (answer,) = ask(Answering(series={"free": [series]}), [chart("free")], WINDOW)
    (line,) = answer.lines
    assert line.name == "training free"
    assert line.values[::2] == (3.0, 5.0)
    assert math.isnan(line.values[1])


def test_the_last_value_is_the_last_that_is_one() -> None:
    assert Line("", (1.0, 2.0, math.nan)).last == 2.0


def test_a_panel_to_which_nothing_is_answered_is_an_error_that_names_it_and_its_queries() -> None:
    source = Answering(series={"free": [Series({}, {100: 1.0})]})
    with pytest.raises(EmptyPanelError, match=r"panels without data \(1\).*\n  Free: lost") as told:
        ask(source, [chart("free"), chart("lost"), ROW], WINDOW)
    assert "Free: free" not in str(told.value)


def test_a_panel_is_empty_whose_values_are_no_numbers() -> None:
    nothing = Series({}, {100: math.nan, 102: math.nan})
    with pytest.raises(EmptyPanelError):
        ask(Answering(series={"quantile": [nothing]}), [chart("quantile")], WINDOW)


def test_a_panel_has_data_where_one_of_its_queries_has() -> None:
    source = Answering(series={"free": [Series({"pool": "a"}, {102: 1.0})]})
    (answer,) = ask(source, [chart("free", "lost")], WINDOW)
    assert [line.name for line in answer.lines] == ["a free"]


def test_a_table_without_a_row_is_an_error() -> None:
    table = Panel("Versions", "table", PLACE, queries=(Query("A", "build", ""),))
    with pytest.raises(EmptyPanelError, match="Versions: build"):
        ask(Answering(), [table], WINDOW)


def test_a_row_of_panels_needs_no_answer() -> None:
    (answer,) = ask(Answering(), [ROW], WINDOW)
    assert answer.is_empty


def sample(value: float, **labels: str) -> Sample:
    return Sample(labels, value)


def rows(found: Mapping[str, Sequence[Sample]], columns: Columns | None = None) -> list[object]:
    return list(build_table(found, columns or Columns()).rows)


def test_answers_to_several_queries_are_one_row_where_their_labels_agree() -> None:
    info = [sample(1, pool="a", schedule="cgpu"), sample(1, pool="b", schedule="share")]
    table = build_table({"A": info, "B": [sample(3, pool="b"), sample(2, pool="a")]}, Columns())
    assert table.titles == ("pool", "schedule", "Value #A", "Value #B")
    assert table.rows == (("a", "cgpu", 1, 2), ("b", "share", 1, 3))


def test_a_row_that_a_query_has_nothing_to_say_of_stays_empty_there() -> None:
    found = {"A": [sample(1, pool="a"), sample(2, pool="b")], "B": [sample(3, pool="b")]}
    assert rows(found) == [("a", 1, None), ("b", 2, 3)]


def test_columns_are_left_out_called_and_ordered_as_the_panel_says() -> None:
    columns = Columns(
        hidden=frozenset({"Value #A"}), order={"pool": 0}, titles={"pool": "Pool", "Value #B": "N"}
    )
    found = {"A": [sample(1, edition="Basic", pool="a")], "B": [sample(3, pool="a")]}
    table = build_table(found, columns)
    assert table.titles == ("Pool", "edition", "N")
    assert table.rows == (("a", "Basic", 3),)
