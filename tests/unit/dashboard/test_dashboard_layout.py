"""Where things stand in a dashboard's picture."""

import math

import pytest

from tests.dashboard.answers import Line, Window
from tests.dashboard.layout import (
    WIDTH,
    Box,
    choose_times,
    find_box,
    find_height,
    hide_zeros,
    stack,
    wrap,
)
from tests.dashboard.panels import Place

NAN = math.nan


def test_panels_side_by_side_do_not_touch_and_fill_the_width() -> None:
    left, right = find_box(Place(0, 0, 12, 4)), find_box(Place(12, 0, 12, 4))
    assert left.right < right.left
    assert left.left == pytest.approx(WIDTH - right.right)


def test_the_picture_ends_below_the_lowest_panel() -> None:
    places = [Place(0, 0, 8, 9), Place(8, 4, 8, 8)]
    assert find_height(places) > max(find_box(place).bottom for place in places)


def test_a_box_is_shrunk_by_its_margins() -> None:
    box = Box(10, 20, 100, 50).shrink(left=1, top=2, right=3, bottom=4)
    assert box == Box(11, 22, 96, 44)


def test_a_line_is_stacked_upon_those_before_it() -> None:
    first, second = stack([Line("a", (1.0, 2.0)), Line("b", (4.0, NAN))])
    assert first.values == (1.0, 2.0)
    assert second.values == (5.0, 2.0)


def test_a_line_that_adds_nothing_to_a_stack_is_drawn_only_where_it_comes_and_goes() -> None:
    shown = hide_zeros(Line("a", (0, 0, 3, 0, 0)), Line("a", (9, 9, 12, 9, 9)))
    assert [None if math.isnan(value) else value for value in shown.values] == [
        None, 9, 12, 9, None,
    ]  # fmt: skip


def test_times_are_round_few_and_not_in_the_corner() -> None:
    window = Window(1003, 1133, 2)
    told = [window.tell(moment) for moment in choose_times(window)]
    assert told == ["0:30", "1:00", "1:30", "2:00"]


def test_a_row_of_the_legend_ends_where_the_next_entry_would_not_fit() -> None:
    assert wrap([30, 40, 50, 200], 100) == [[0, 30], [0], [0]]
