"""Fights over labels: what a plugin may have read meanwhile is never taken for right."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpushare import names
from gpushare.api.node import Node
from gpushare.core.actions import NodeState
from gpushare.core.blockers import Blocker
from gpushare.core.records import Drift, NodeRecords, PluginPod, Repair, Rival, Step
from gpushare.names import Reason
from tests.kit.values.node_plans import (
    CGPU,
    INSTALLER,
    OURS,
    SHARE,
    a_settled,
    an_isolating,
    applied,
    expect_applied,
    expect_apply,
    expect_change,
    plan_of,
    plan_once_noted,
    under_way,
)
from tests.kit.values.objects import MEMORY, NOW, a_node, a_plugin_pod, a_pool, a_world
from tests.unit.core.planner_output import plan_world

NEW_PLUGIN = a_plugin_pod("plugin-2")
FORCE = a_pool(conflicts="Force")
PLACEMENT = names.LABEL_PLACEMENT


def _node(
    labels: dict[str, str],
    records: NodeRecords,
    *lost: str,
    drift: Drift | None = None,
    **more: Any,
) -> Node:
    """A node with our records; the keys `lost` are a rival's."""
    found = dict.fromkeys(labels)
    records = records.model_copy(update={"found": found, "drift": drift})
    annotations = records.annotations()
    owned = frozenset({*(labels.keys() - {*lost}), *annotations})
    managers = {key: "sync" for key in lost if key in labels}
    node: dict[str, Any] = {"allocatable": {MEMORY: 15}, **more}
    return a_node(labels=labels, records=records, owned=owned, managers=managers, **node)


def _rival(key: str, ours: str) -> Drift:
    rival = Rival(key=key, manager="sync", ours=ours, theirs="x", since=NOW)
    return Drift(claim="training/1", rivals=(rival,))


def _repairs(key: str, count: int = 3) -> Drift:
    at = [NOW - timedelta(seconds=30 * index) for index in range(count)]
    repairs = tuple(Repair(key=key, manager="sync", theirs="x", at=moment) for moment in at)
    return Drift(claim="training/1", repairs=repairs, writes=tuple(at))


RESTARTING = under_way(
    Step.RESTARTING, restart=True, plugins=(PluginPod(name="p", uid="plugin-1"),)
)


def test_a_label_that_was_taken_away_and_put_back_in_a_change_restarts_the_plugin_again() -> None:
    key = names.LABEL_SCHEDULE
    labels, drift = {**CGPU, **OURS}, _rival(key, "cgpu")
    node = _node(labels, RESTARTING, key, drift=drift, unschedulable=True)
    change = expect_change(plan_of(node, a_pool(), NEW_PLUGIN, INSTALLER))
    assert (change.step, change.restart, change.plugins) == (Step.LABELLED, True, ())


def test_a_plugin_that_started_under_a_rivals_value_is_restarted_after_the_fight() -> None:
    drift = _repairs(names.LABEL_SCHEDULE)
    node = _node({**SHARE, **OURS}, applied(), names.LABEL_SCHEDULE, drift=drift)
    during = plan_of(node, FORCE, NEW_PLUGIN, INSTALLER)
    assert during.reason is Reason.LABEL_CONFLICT
    written = expect_applied(during)
    assert written.mode_unknown
    calm = applied().model_copy(update={"applied": written})
    node, then = _node({**CGPU, **OURS}, calm, drift=drift), NOW + timedelta(hours=1)
    later = plan_once_noted(node, FORCE, NEW_PLUGIN, INSTALLER, now=then)
    assert later.reason is Reason.CORDONED


def test_a_fight_over_the_pool_label_does_not_stop_a_change() -> None:
    key = names.LABEL_POOL
    labels, drift = {**CGPU, key: "theirs"}, _rival(key, "training")
    node = _node(labels, RESTARTING, key, drift=drift, unschedulable=True)
    plan = plan_of(node, a_pool(), NEW_PLUGIN, INSTALLER, now=NOW + timedelta(seconds=20))
    assert key not in expect_apply(plan).labels
    assert not expect_apply(plan).cordon


@pytest.mark.parametrize("value", ["binpack", "spread"], ids=["theirs", "ours"])
def test_while_force_fights_for_placement_it_says_so_all_the_time(value: str) -> None:
    pool = a_pool(schedule="share", placement="spread", conflicts="Force")
    labels, lost = {**SHARE, **OURS, PLACEMENT: value}, (PLACEMENT,) if value == "binpack" else ()
    node = _node(labels, applied("share"), *lost, drift=_repairs(PLACEMENT))
    plan = plan_of(node, pool, a_plugin_pod(), now=NOW + timedelta(seconds=1))
    assert (plan.state, plan.reason) == (NodeState.BLOCKED, Reason.LABEL_CONFLICT)
    assert plan.rivals
    assert plan.wake_after_seconds


def test_a_rival_on_a_node_that_is_not_verified_yet_is_counted_too() -> None:
    key = names.LABEL_POOL
    drift = _repairs(key, 2)
    node = _node({**CGPU, key: "theirs"}, NodeRecords(), key, drift=drift, allocatable={})
    assert [rival.key for rival in plan_of(node, a_pool()).rivals] == [key]


def test_a_pool_that_turned_to_observing_keeps_its_nodes() -> None:
    pools = (a_pool(reconcile="Observe", priority=200), a_pool("fallback", "default", priority=1))
    node = an_isolating(allocatable={MEMORY: 15})
    plan = plan_world(a_world(pools=pools, nodes=(node,)))
    assert plan.decided["gpu-1"].action is None
    assert plan.members["fallback"][0].reason is Reason.OWNED_BY_OTHER_POOL


def test_a_node_that_is_refused_takes_nobodys_turn() -> None:
    world = a_world(pools=(a_pool(),), nodes=(a_settled("a"), a_settled("b")))
    world = replace(world, refusals={"a": Blocker(Reason.WRITE_REFUSED, "denied")})
    decided = plan_world(world).decided
    assert [node for node, plan in decided.items() if plan.takes_slot] == ["b"]
