"""In which windows the waves of a rollout are foretold, and which find none."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from gpushare.analysis.forecast.calendar import Calendar
from gpushare.api.k8s.node import Node
from tests.kit.values.node_plans import an_isolating, some_settled
from tests.kit.values.objects import NOW, a_node, a_pool
from tests.unit.forecast.test_forecast import forecast

AT_TEN = NOW.replace(hour=22, minute=0, second=0)


def expect_calendar(
    *nodes: Node, schedule: str = "cgpu", duration: str = "1h", **more: Any
) -> Calendar:
    """Of a pool that changes its nodes, by default three, at ten in the evening."""
    windows = [{"schedule": "0 22 * * *", "duration": duration}]
    pool = a_pool(schedule=schedule, rollout={"windows": windows, **more})
    found = forecast(pool, nodes or some_settled(3)).calendar
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("until", "start"),
    [
        (NOW, AT_TEN),
        (AT_TEN + timedelta(minutes=10), AT_TEN),
        (AT_TEN + timedelta(hours=1), AT_TEN + timedelta(days=1)),
    ],
)
def test_waves_begin_once_a_freeze_is_over(until: datetime, start: datetime) -> None:
    found = expect_calendar(freeze={"reason": "an incident", "until": until})
    (window,) = found.windows
    assert (window.opening.start, window.nodes, found.left) == (start, 3, 0)
    # Each is expected to take 34 s, as long as the plugins took to start here.
    assert found.done_at == max(until, start) + 3 * timedelta(seconds=34)


@pytest.mark.parametrize(
    "more",
    [
        {"freeze": {"reason": "an incident"}},
        {"freeze": {"reason": "an incident", "until": NOW.replace(year=9999)}},
        {"duration": "10m"},
    ],
    ids=["frozen", "frozen for ever", "too short"],
)
def test_waves_that_find_no_window_are_left(more: Mapping[str, Any]) -> None:
    assert expect_calendar(**more) == Calendar((), None, left=3)


def test_new_nodes_are_in_the_calendar_only_where_they_wait_for_a_window() -> None:
    nodes = (*some_settled(1), a_node("new"))
    for policy, count in (("Anytime", 1), ("InWindow", 2)):
        (window,) = expect_calendar(*nodes, new_nodes=policy).windows
        assert window.nodes == count
    windows = [{"schedule": "0 22 * * *", "duration": "1h"}]
    assert forecast(a_pool(rollout={"windows": windows}), [a_node("new")]).calendar is None


def test_when_a_kernel_module_is_gone_is_not_foretold() -> None:
    found = expect_calendar(an_isolating(teardown="start"), schedule="share")
    assert (found.done_at, [window.nodes for window in found.windows]) == (None, [1])
