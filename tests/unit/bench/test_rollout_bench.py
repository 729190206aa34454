"""What the rollout bench reckons, and what it fails for."""

from typing import Any

import pytest

from bench.core.figure import find_misses
from bench.rollout import Changes, Result


def a_result(nodes: int = 200, at_once: int = 20, **more: Any) -> Result:
    changes = [(5.0 * (n // at_once), 5.0 * (n // at_once + 1)) for n in range(nodes)]
    values: dict[str, Any] = {
        "budget": 20,
        "single_seconds": (4.0, 9.0, 5.0),
        "rollout_seconds": 55.0,
        "changes": changes,
        "node_writes": 800,
        "other_writes": 30,
        "cpu_seconds": 5.0,
    }
    return Result(**{**values, **more})


def figures(result: Result) -> dict[str, float]:
    return {figure.name: figure.value for figure in result.figures()}


def test_a_rollout_is_measured_by_the_single_flips_that_it_is_made_of() -> None:
    found = figures(a_result())

    assert found["ratio"] == pytest.approx(1.1)
    assert found["budget_used"] == pytest.approx(10 / 11)
    assert found["writes_per_node"] == 4


def test_a_rollout_that_takes_too_long_is_a_miss() -> None:
    (miss,) = find_misses(a_result(rollout_seconds=61.0).figures())

    assert miss.startswith("ratio=1.22,")


def test_a_rollout_that_is_fast_beyond_its_budget_is_a_miss() -> None:
    (miss,) = find_misses(a_result(at_once=21).figures())

    assert miss.startswith("beyond_budget=1,")


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
    assert Changes("cgpu")({"name": "n1", "annotations": notes}) is done
