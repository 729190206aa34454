"""What the rollout bench reckons, and what it fails for."""

from typing import Any

import pytest

from tests.bench.figure import find_misses, summarize
from tests.bench.rollout import Figures, is_done


def figures(**more: Any) -> Figures:
    values: dict[str, Any] = {
        "nodes": 200,
        "budget": 20,
        "single_seconds": (4.0, 9.0, 5.0),
        "rollout_seconds": 55.0,
        "change_seconds": (5.0,) * 200,
        "most_at_once": 20,
    }
    return Figures(**{**values, **more})


def misses(**more: Any) -> list[str]:
    return [*find_misses(figures(**more).figures())]


def test_a_rollout_is_measured_by_the_single_flips_that_it_is_made_of() -> None:
    assert summarize(figures().facts, figures().figures()) == (
        "nodes=200 budget=20 single_median_s=5.00 rollout_s=55.0 "
        "ratio=1.10 budget_used=90.9% beyond_budget=0"
    )
    assert misses() == []


def test_nodes_that_fill_no_whole_budget_take_a_round_all_the_same() -> None:
    assert figures(nodes=201, rollout_seconds=55.0).ratio == pytest.approx(1.0)


def test_a_slot_that_stands_empty_shows() -> None:
    assert figures(rollout_seconds=100.0).slots_used == pytest.approx(0.5)


def test_a_rollout_that_takes_too_long_is_a_miss() -> None:
    assert misses(rollout_seconds=61.0) == ["ratio is 1.22, and may be 1.2 at most"]


def test_a_rollout_that_is_fast_beyond_its_budget_is_a_miss() -> None:
    assert misses(most_at_once=21) == ["beyond_budget is 1, and may be 0 at most"]


@pytest.mark.parametrize(
    ("notes", "done"),
    [
        ({"gpushare.io/applied": '{"schedule":"cgpu"}'}, True),
        ({"gpushare.io/applied": '{"schedule":"share"}'}, False),
        ({"gpushare.io/applied": '{"schedule":"cgpu"}', "gpushare.io/change": "{}"}, False),
        ({}, False),
    ],
)
def test_a_node_is_done_when_its_mode_is_verified_and_no_change_is_left(
    notes: dict[str, str], done: bool
) -> None:
    assert is_done("cgpu")({"annotations": notes}) is done
