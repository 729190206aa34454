"""A plugin that comes back Ready while its resource stays at zero: restarted once more."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from gpushare.api.node import Node
from gpushare.api.pod import Pod
from gpushare.api.pool import Pool, Schedule
from gpushare.core.actions import ApplyNode, NodePlan, NodeState
from gpushare.core.records import PluginPod, Step
from gpushare.names import Reason
from tests.kit.values.node_plans import (
    INSTALLER,
    NEVER,
    cordoned,
    expect_change,
    expect_idle,
    follow,
    plan_of,
    under_way,
)
from tests.kit.values.objects import NOW, a_plugin_pod, a_pool

DEADLINE = NOW + timedelta(minutes=10)
PATIENCE = NOW + timedelta(minutes=1)
NEW = a_plugin_pod("new")


def _labelled(offered: int = 0, **more: Any) -> Node:
    """A node whose plugin was deleted for share -> cgpu after its labels were written at NOW."""
    old = (PluginPod(name="old", uid="old"),)
    change = {"restart": True, "plugins": old, **more}
    return cordoned(under_way(Step.RESTARTING, **change), offered=offered)


def _silent(*, now: datetime, pool: Pool | None = None, **more: Any) -> NodePlan:
    """What is planned for a node whose plugin is Ready, and whose resource stays at zero."""
    return plan_of(_labelled(**more), pool or a_pool(), NEW, INSTALLER, now=now)


@pytest.mark.parametrize("renewed", [None, True], ids=["the first time", "the second"])
def test_a_silent_plugin_has_some_time_before_anything_is_done(renewed: bool | None) -> None:
    plan = _silent(now=NOW + timedelta(seconds=20), renewed=renewed)
    expect_idle(plan, NodeState.UPDATING, Reason.RESOURCE_NOT_READY)
    assert plan.wake_after_seconds == 40


@pytest.mark.parametrize(
    "change",
    [{}, {"restart": False, "of": Schedule.DEFAULT, "plugins": ()}],
    ids=["of the same plugin", "of one that follows the label"],
)
def test_a_silent_plugin_is_restarted_once_more_under_the_same_deadline(
    change: dict[str, Any],
) -> None:
    plan = _silent(now=PATIENCE, **change)
    begun = expect_change(plan)
    assert (plan.state, plan.reason) == (NodeState.UPDATING, Reason.PLUGIN_RESTARTING)
    assert (begun.step, begun.restart, begun.plugins) == (Step.LABELLED, True, ())
    assert (begun.renewed, begun.failure, begun.labelled_at) == (True, None, NOW)
    assert (plan.deadline, plan.wake_after_seconds) == (DEADLINE, 540)


def test_silence_after_the_second_restart_is_a_failure_before_the_deadline() -> None:
    plan = _silent(now=PATIENCE, renewed=True)
    failure = expect_change(plan).failure
    assert failure is not None
    assert {plan.reason, failure.reason} == {Reason.RESOURCE_STAYS_ZERO}
    assert "a second restart" in failure.message
    assert plan.halts


def test_where_restarts_are_forbidden_silence_lasts_until_the_deadline() -> None:
    never: dict[str, Any] = {"pool": NEVER, "restart": False, "plugins": ()}
    quiet = _silent(now=PATIENCE, **never)
    assert (quiet.state, quiet.action, quiet.wake_after_seconds) == (NodeState.UPDATING, None, 540)
    assert _silent(now=DEADLINE, **never).reason is Reason.DEADLINE_EXCEEDED


def test_a_deadline_that_has_passed_goes_before_a_second_restart() -> None:
    assert _silent(now=DEADLINE).reason is Reason.DEADLINE_EXCEEDED


@pytest.mark.parametrize(
    "pods",
    [
        (a_plugin_pod("new", ready=False, ready_since=None), INSTALLER),
        (NEW,),
        (a_plugin_pod("old"), INSTALLER),
        (NEW, a_plugin_pod("newer", ready_since=NOW + timedelta(minutes=2)), INSTALLER),
    ],
    ids=["not Ready", "without the installer", "the old one", "the last just came"],
)
def test_only_a_plugin_that_should_serve_by_now_is_silent(pods: tuple[Pod, ...]) -> None:
    plan = plan_of(_labelled(), a_pool(), *pods, now=NOW + timedelta(minutes=2))
    assert not isinstance(plan.action, ApplyNode)


def test_a_resumed_node_has_its_one_restart_again() -> None:
    """Nothing else would be tried on it, and somebody asked for another try."""
    node = follow(_labelled(renewed=True), _silent(now=PATIENCE, renewed=True))
    again = a_pool(generation=2)
    node = follow(node, plan_of(node, again, NEW, INSTALLER, now=DEADLINE))
    change = expect_change(plan_of(node, again, NEW, INSTALLER, now=DEADLINE))
    assert (change.step, change.restart, change.renewed) == (Step.LABELLED, True, True)
