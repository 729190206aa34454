"""Rows in which each two choices meet."""

from itertools import combinations, product

import pytest

from tests.integration.chart.pairwise import build_pairwise

SWITCHES = {f"switch-{number}": (True, False) for number in range(20)}


@pytest.mark.parametrize(
    "choices",
    [
        SWITCHES,
        {"mode": ("a", "b", "c"), "level": (1, 2, 3, 4), **SWITCHES},
        {"a": (1, 2), "b": (3,)},
    ],
    ids=["switches", "switches and enums", "two"],
)
def test_any_two_values_are_in_some_row_together(choices: dict[str, tuple[object, ...]]) -> None:
    rows = build_pairwise(choices)
    assert all(row.keys() == choices.keys() for row in rows)
    for one, other in combinations(choices, 2):
        met = {(row[one], row[other]) for row in rows}
        assert met == set(product(choices[one], choices[other]))
