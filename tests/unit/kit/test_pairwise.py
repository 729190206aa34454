"""Rows in which each two choices meet."""

from itertools import combinations, product

from tests.integration.chart.pairwise import build_pairwise


def test_any_two_values_are_in_some_row_together() -> None:
    switches = {f"switch-{number}": (True, False) for number in range(20)}
    choices = {"mode": ("a", "b", "c"), "level": (1, 2, 3, 4), "one": (1,), **switches}
    rows = build_pairwise(choices)
    assert all(row.keys() == choices.keys() for row in rows)
    for one, other in combinations(choices, 2):
        met = {(row[one], row[other]) for row in rows}
        assert met == set(product(choices[one], choices[other]))
