"""Values with Grafana's units."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dashboard.panels import parse_panel
from tests.dashboard.units import choose_labels, choose_ticks, format_value
from tests.kit.dashboards import FILES, read

GIB = 2**30
UNITS = ("none", "bytes", "percent", "percentunit", "s", "ops", "reqps")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (388 * GIB, "bytes", "388 GiB"),
        (15.5 * GIB, "bytes", "15.5 GiB"),
        (2048 * GIB, "bytes", "2 TiB"),
        (0, "bytes", "0 B"),
        (0.61587, "percentunit", "61.6%"),
        (1, "percentunit", "100%"),
        (0.0004, "s", "400 µs"),
        (0.00225, "s", "2.25 ms"),
        (4.95, "s", "4.95 s"),
        (90, "s", "1.5 min"),
        (7775893, "s", "12.9 weeks"),
        (0, "s", "0 s"),
        (-2, "s", "-2 s"),
        (1234.5, "none", "1234"),
        (9, "none", "9"),
        (0.0169, "reqps", "0.0169 req/s"),
        (1.78, "ops", "1.78 ops/s"),
    ],
)
def test_a_value_is_written_with_three_digits_in_the_unit_that_suits_it(
    value: float, unit: str, text: str
) -> None:
    assert format_value(value, unit) == text


def test_an_unknown_unit_is_refused() -> None:
    with pytest.raises(ValueError, match="unit 'furlongs' is not known; known are none, bytes"):
        format_value(1, "furlongs")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_unit_of_the_dashboards_is_known(file: Path) -> None:
    for panel in (parse_panel(panel) for panel in read(file)["panels"]):
        for unit in (panel.unit, *panel.columns.units.values()):
            assert format_value(1, unit)


def test_ticks_are_round_in_the_unit_that_they_are_written_in() -> None:
    ticks = choose_ticks(388 * GIB, "bytes")
    assert choose_labels(ticks, "bytes") == ("0 GiB", "100 GiB", "200 GiB", "300 GiB", "400 GiB")


def test_an_axis_of_percents_ends_at_all_of_it() -> None:
    assert choose_labels(choose_ticks(1, "percentunit"), "percentunit") == ("0%", "50%", "100%")


def test_what_is_counted_has_no_ticks_between_whole_numbers() -> None:
    assert choose_ticks(2, "none") == (0, 1, 2)


def test_an_axis_of_nothing_but_zeros_goes_up_to_one() -> None:
    assert choose_ticks(0, "none") == (0, 1)


@given(st.floats(1e-7, 1e15), st.sampled_from(UNITS))
def test_no_value_is_above_its_axis_and_ticks_are_few(highest: float, unit: str) -> None:
    ticks = choose_ticks(highest, unit)
    assert ticks[-1] >= highest * (1 - 1e-6) or math.isclose(ticks[-1], highest)
    assert 2 <= len(ticks) <= 6
    assert len(set(choose_labels(ticks, unit))) == len(ticks)
