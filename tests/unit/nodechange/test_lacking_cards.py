"""Nodes of which some cards are unhealthy: what is left stays in service, with a warning."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gpushare.api.k8s.node import Node
from gpushare.api.pool import Edition
from gpushare.core.deviceplugin.findings import find_unhealthy_cards
from gpushare.core.nodechange.phases.labelled import complete
from gpushare.core.nodechange.reconcile_node import plan_node
from gpushare.core.nodechange.step import Step
from gpushare.core.records.applied_record import LastApplied
from gpushare.core.records.change_record import Change, ChangePhase, PluginPod
from gpushare.core.records.node_records import NodeRecords, parse_records
from gpushare.core.snapshot.actions import ApplyNode, NodeState, Verdict
from gpushare.core.snapshot.change_policy import Policy
from gpushare.core.snapshot.node import NodeSnapshot
from gpushare.editions.plugin_config_map import parse_config
from gpushare.editions.registry import MODES
from gpushare.names import Reason
from tests.kit.values.configurations import (
    GPU,
    KEY,
    LOADED,
    PODS,
    POOL,
    SLICES,
    build_pool,
    context,
    member,
    node,
    step,
)
from tests.kit.values.node_plans import (
    a_settled,
    expect_cause,
    expect_change,
    expect_idle,
    plan_of,
)
from tests.kit.values.objects import MEMORY, NOW, a_node, a_plugin_pod, a_pool

EIGHT = {f"{GPU}.count": "8"}
"""Cards, of four slices each."""
WHOLE = {f"{GPU}.replicas": "1", f"{GPU}.sharing-strategy": "none"}
PATIENT = [replace(pod, ready_since=NOW - timedelta(minutes=5)) for pod in PODS]


def _offer(found: Node, offered: int, listed: int) -> Node:
    """The plugin lists so many devices, and calls all but `offered` unhealthy."""
    return replace(found, allocatable={GPU: offered}, capacity={GPU: listed})


def _change(lacking_cards: int | None, offered: int, listed: int) -> Node:
    """A node in its change, whose plugin is back."""
    change = Change.model_validate(
        {
            "pool": "training",
            "edition": "NVIDIA",
            "from": parse_config("b", "version: v1\n"),
            "to": LOADED,
            "phase": ChangePhase.RESTARTING,
            "since": NOW,
            "restart": True,
            "labelled_at": NOW - timedelta(minutes=1),
            "plugins": (PluginPod(name="old", uid="old"),),
            "lacking_cards": lacking_cards,
        }
    )
    labels = {KEY: "a", POOL: "training", **EIGHT}
    found = node(labels, records=NodeRecords(initial_values={}, change=change), unschedulable=True)
    return _offer(replace(found, owns_cordon=True), offered, listed)


def _verify(found: Node) -> Verdict:
    seen = NodeSnapshot(found, PATIENT, parse_records(found))
    return complete(Step(seen, Policy(), context()))


@pytest.mark.parametrize(
    ("lacking_cards", "offered", "listed"),
    [(None, 28, 32), (None, 31, 32), (1, 28, 28), (1, 24, 28), (2, 28, 28)],
    ids=[
        "one card is unhealthy",
        "one slice of it is called that",
        "it is gone, and was before",
        "another one is unhealthy",
        "one of two is back",
    ],
)
def test_a_change_is_complete_with_what_the_healthy_cards_offer(
    lacking_cards: int | None, offered: int, listed: int
) -> None:
    plan = _verify(_change(lacking_cards, offered, listed))
    assert isinstance(plan.action, ApplyNode), plan
    assert not plan.action.cordon
    applied = LastApplied.model_validate_json(plan.action.annotations["gpushare.io/applied"])
    assert applied.lacking_cards == lacking_cards


@pytest.mark.parametrize(
    ("lacking_cards", "offered", "listed"),
    [
        (None, 28, 28),
        (1, 24, 24),
        (1, 30, 30),
        (1, 8, 8),
        (1, 56, 64),
        (1, 0, 32),
    ],
    ids=[
        "none was lacking before",
        "more are lacking",
        "no multiple of the replicas",
        "the former mode",
        "a mode with more replicas",
        "nothing yet",
    ],
)
def test_a_plugin_that_may_still_be_coming_up_is_waited_for(
    lacking_cards: int | None, offered: int, listed: int
) -> None:
    plan = _verify(_change(lacking_cards, offered, listed))
    assert (plan.state, plan.reason) == (NodeState.UPDATING, Reason.RESOURCE_NOT_READY)


@pytest.mark.parametrize(
    ("labels", "offered", "lacking_cards"),
    [({}, 28, 1), ({}, 31, 1), ({}, 32, None), ({}, 0, None), (WHOLE, 7, 1), (WHOLE, 50, None)],
)
def test_what_a_node_lacks_when_its_change_begins_is_recorded(
    labels: dict[str, str], offered: int, lacking_cards: int | None
) -> None:
    loaded = member(parse_config("b", SLICES), **EIGHT, **labels)
    found = replace(loaded, allocatable={GPU: offered})
    seen = NodeSnapshot(found, PODS, parse_records(found))
    plan = plan_node(seen, build_pool(), context()).begin()
    assert expect_change(plan).lacking_cards == lacking_cards


@pytest.mark.parametrize(
    ("lacking_cards", "offered", "listed"), [(None, 28, 32), (1, 28, 28), (None, 31, 32)]
)
def test_a_node_in_its_mode_stays_ready_with_a_warning(
    lacking_cards: int | None, offered: int, listed: int
) -> None:
    found = member(**EIGHT)
    records = parse_records(found)
    assert records.applied is not None
    applied = records.applied.model_copy(update={"lacking_cards": lacking_cards})
    records = records.model_copy(update={"applied": applied})
    labels = {KEY: "a", POOL: "training", **EIGHT}
    plan = step(_offer(node(labels, records=records), offered, listed))
    assert (plan.state, plan.reason, plan.action) == (
        NodeState.READY,
        Reason.UNHEALTHY_CARDS,
        None,
    )
    assert f"{offered} of 32 {GPU}" in plan.message


def test_a_card_that_was_lacking_before_may_be_lacking_once_a_person_restarts_the_plugin() -> None:
    never = build_pool(device_plugin={"restart": "Never"})
    labels = {KEY: "a", POOL: "training", **EIGHT}
    found = _offer(member(parse_config("b", SLICES), **EIGHT), 28, 28)
    pending = step(found, pool=never).action
    assert isinstance(pending, ApplyNode)
    applied = LastApplied.model_validate_json(pending.annotations["gpushare.io/applied"])
    assert (applied.restart_pending, applied.lacking_cards) == (True, 1)
    restarted = a_plugin_pod("new", daemonset=PODS[0].daemonset, ready_since=PATIENT[0].ready_since)
    written = replace(
        _offer(node(labels), 28, 28),
        annotations=pending.annotations,
        owned=frozenset({KEY, POOL, *pending.annotations}),
    )
    seen = NodeSnapshot(written, (restarted, PATIENT[1]), parse_records(written))
    plan = plan_node(seen, never, context())
    assert isinstance(plan.action, ApplyNode), plan
    applied = LastApplied.model_validate_json(plan.action.annotations["gpushare.io/applied"])
    assert (applied.restart_pending, applied.lacking_cards) == (False, 1)


def test_a_node_whose_plugin_lost_a_card_is_not_called_ready() -> None:
    plan = step(_offer(member(**EIGHT), 28, 28))
    assert (plan.state, plan.reason) == (NodeState.BLOCKED, Reason.RESOURCE_NOT_READY)


def test_a_node_that_has_the_configuration_joins_without_a_restart_despite_an_unhealthy_card() -> (
    None
):
    found = _offer(node({KEY: "a", **EIGHT}), 28, 32)
    plan = step(found)
    assert plan.verdict.start is None
    assert isinstance(plan.action, ApplyNode)


def test_a_node_of_gpushare_with_an_unhealthy_card_is_ready_with_a_warning() -> None:
    healthy, plugin = a_settled(allocatable={MEMORY: 15}), a_plugin_pod("plugin-1")
    assert plan_of(healthy, a_pool(schedule="share"), plugin).reason is Reason.APPLIED
    plan = plan_of(replace(healthy, capacity={MEMORY: 30}), a_pool(schedule="share"), plugin)
    plan = expect_idle(plan, NodeState.READY, Reason.UNHEALTHY_CARDS)
    assert f"15 of 30 {MEMORY}" in plan.message


@pytest.mark.parametrize(
    ("edition", "reported", "is_told"),
    [(Edition.BASIC, {1}, True), (Edition.BASIC, {2}, False), (Edition.PROFESSIONAL, {1}, False)],
    ids=["the extender reads it", "the node has no such card", "no extender reads it"],
)
def test_cards_that_the_extenders_config_map_calls_unhealthy_are_told(
    edition: Edition, reported: set[int], is_told: bool
) -> None:
    found = a_node(allocatable={MEMORY: 30}, gpu_count=2)
    told = find_unhealthy_cards(found, MODES[edition, "share"], reported)
    assert (told is not None) is is_told
    if told is not None:
        expect_cause(told, Reason.UNHEALTHY_CARDS, "kube-system/unhealthy-gpu-gpu-1")
