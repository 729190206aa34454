"""The scheduler extender, as far as a node and its pods tell of it."""

import re
from datetime import timedelta
from typing import Any

import pytest

from gpushare import names
from gpushare.api.pool import Edition, Schedule
from gpushare.core.actions import NodeState
from gpushare.core.diagnosis import diagnose
from gpushare.core.modes import MODES
from gpushare.core.observed import Pass
from gpushare.names import Reason
from tests.kit.values.node_plans import OURS, applied, plan_once_noted
from tests.kit.values.objects import MEMORY, NOW, a_gpu_pod, a_node, a_plugin_pod, a_pool

AT, PLUGIN = Pass(NOW + timedelta(minutes=5)), a_plugin_pod()


def test_a_pod_on_a_card_that_the_node_has_not_says_that_the_extender_is_stale() -> None:
    node = a_node(allocatable={MEMORY: 30}, gpu_count=2)
    pod = a_gpu_pod("late", cards={2: 5})
    trouble = diagnose(node, [PLUGIN, pod], MODES[Edition.OPEN_SOURCE, Schedule.SHARE], AT)
    assert trouble is not None
    assert trouble.reason is Reason.EXTENDER_STALE
    for word in ("late", "card 2", "deployment/gpushare-schd-extender"):
        assert word in trouble.message


def test_of_many_pods_on_such_cards_the_first_three_are_named_and_the_rest_counted() -> None:
    node = a_node(allocatable={MEMORY: 30}, gpu_count=2)
    pods = [a_gpu_pod(f"p{index}", cards={index: 5}) for index in (6, 5, 4, 3, 2, 1)]
    trouble = diagnose(node, [PLUGIN, *pods], MODES[Edition.OPEN_SOURCE, Schedule.SHARE], AT)
    assert trouble is not None
    assert re.findall(r"p\d \(card \d\)", trouble.message) == [
        f"p{card} (card {card})" for card in (2, 3, 4)
    ]
    assert "2 more" in trouble.message


@pytest.mark.parametrize(
    ("edition", "more"),
    [
        ("Professional", {"cards": {2: 5}}),
        ("OpenSource", {"cards": {1: 5}}),
        ("OpenSource", {"cards": {2: 5}, "deleting": True}),
        ("OpenSource", {"cards": {2: 5}, "phase": "Failed"}),
    ],
)
def test_an_extender_is_not_called_stale_without_a_live_pod_on_such_a_card(
    edition: str, more: dict[str, Any]
) -> None:
    node = a_node(allocatable={MEMORY: 30}, gpu_count=2)
    pods = [PLUGIN, a_gpu_pod("p", **more)]
    assert diagnose(node, pods, MODES[Edition(edition), Schedule.SHARE], AT) is None


def test_a_node_whose_pod_names_a_card_that_it_has_not_is_ready_and_warns() -> None:
    node = a_node(
        labels={names.LABEL_GPUSHARE: "true", **OURS},
        records=applied("share", edition="OpenSource"),
        allocatable={MEMORY: 30},
        gpu_count=2,
    )
    pool, edited = a_pool(schedule="share", edition="OpenSource"), a_gpu_pod("late", cards={2: 5})
    plan = plan_once_noted(node, pool, PLUGIN, edited, now=AT.now)
    assert (plan.state, plan.reason, plan.action) == (NodeState.READY, Reason.EXTENDER_STALE, None)
    assert plan.warns
    assert not plan_once_noted(node, pool, PLUGIN, now=AT.now).warns
