"""A plugin that comes back Ready while its resource stays at zero: restarted once more."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from gpushare.api.node import Node
from gpushare.api.pod import Pod
from gpushare.api.pool import Pool, Schedule
from gpushare.core.actions import ApplyNode, NodePlan, NodeState, RecordPlugins
from gpushare.core.records import PluginPod, Step
from gpushare.names import Reason
from tests.kit.members import (
    CGPU,
    INSTALLER,
    NEVER,
    OURS,
    expect_change,
    expect_idle,
    follow,
    plan_of,
    under_way,  # fmt: skip
)
from tests.kit.values import MEMORY, NOW, a_node, a_plugin_pod, a_pool

DEADLINE = NOW + timedelta(minutes=10)
PATIENCE = NOW + timedelta(minutes=1)
NEW = a_plugin_pod("new")


def _labelled(*, offered: int = 0, **more: Any) -> Node:
    """A node whose plugin was deleted for share -> cgpu after its labels were written at NOW."""
    records = under_way(Step.RESTARTING)
    assert records.change is not None
    update = {"restart": True, "plugins": (PluginPod(name="old", uid="old"),), **more}
    records = records.model_copy(update={"change": records.change.model_copy(update=update)})
    return a_node(
        labels={**CGPU, **OURS},
        records=records,
        allocatable={MEMORY: offered},
        gpu_count=1,
        unschedulable=True,
        owns_cordon=True,
    )


def _silent(*, now: datetime, pool: Pool | None = None, **more: Any) -> NodePlan:
    """What is planned for a node whose plugin is Ready, and whose resource stays at zero."""
    return plan_of(_labelled(**more), pool or a_pool(), NEW, INSTALLER, now=now)


def test_a_silent_plugin_has_some_time_before_anything_is_done() -> None:
    plan = _silent(now=NOW + timedelta(seconds=20))
    expect_idle(plan, NodeState.UPDATING, Reason.RESOURCE_NOT_READY)
    assert plan.wake_after_seconds == 40


def test_a_silent_plugin_is_restarted_once_more() -> None:
    plan = _silent(now=PATIENCE)
    change = expect_change(plan)
    assert (plan.state, plan.reason) == (NodeState.UPDATING, Reason.PLUGIN_RESTARTING)
    assert (change.step, change.restart, change.plugins) == (Step.LABELLED, True, ())
    assert change.renewed
    assert change.failure is None


def test_the_second_restart_records_the_silent_plugin_next() -> None:
    node = _labelled()
    node = follow(node, plan_of(node, a_pool(), NEW, INSTALLER, now=PATIENCE))
    assert plan_of(node, a_pool(), NEW, INSTALLER, now=PATIENCE).action == RecordPlugins("gpu-1")


def test_the_second_restart_leaves_the_deadline_where_it_was() -> None:
    assert expect_change(_silent(now=PATIENCE)).labelled_at == NOW


def test_while_the_second_restart_is_being_written_its_deadline_is_watched() -> None:
    plan = _silent(now=PATIENCE)
    assert (plan.deadline, plan.wake_after_seconds) == (DEADLINE, 540)


def test_a_plugin_that_follows_the_label_by_itself_is_restarted_once_more_too() -> None:
    plan = _silent(now=PATIENCE, restart=False, of=Schedule.DEFAULT, plugins=())
    assert expect_change(plan).restart


def test_silence_after_the_second_restart_is_a_failure_before_the_deadline() -> None:
    plan = _silent(now=PATIENCE, renewed=True)
    failure = expect_change(plan).failure
    assert failure is not None
    assert (plan.reason, failure.reason) == (
        Reason.RESOURCE_STAYS_ZERO,
        Reason.RESOURCE_STAYS_ZERO,
    )
    assert failure.message.endswith("and a second restart did not help")
    assert plan.halts


def test_the_second_restart_has_its_own_time() -> None:
    plan = _silent(now=PATIENCE - timedelta(seconds=1), renewed=True)
    assert (plan.state, plan.action) == (NodeState.UPDATING, None)


def test_where_restarts_are_forbidden_silence_lasts_until_the_deadline() -> None:
    quiet = _silent(now=PATIENCE, pool=NEVER, restart=False, plugins=())
    assert (quiet.state, quiet.action) == (NodeState.UPDATING, None)
    assert quiet.wake_after_seconds == 540
    late = _silent(now=DEADLINE, pool=NEVER, restart=False, plugins=())
    assert late.reason is Reason.DEADLINE_EXCEEDED


def test_a_deadline_that_has_passed_goes_before_a_second_restart() -> None:
    assert _silent(now=DEADLINE).reason is Reason.DEADLINE_EXCEEDED


@pytest.mark.parametrize(
    "pods",
    [
        (a_plugin_pod("new", ready=False, ready_since=None), INSTALLER),
        (NEW,),
        (a_plugin_pod("old"), INSTALLER),
    ],
    ids=["not Ready", "without the installer", "the old one"],
)
def test_only_a_plugin_that_should_serve_by_now_is_silent(pods: tuple[Pod, ...]) -> None:
    plan = plan_of(_labelled(), a_pool(), *pods, now=NOW + timedelta(minutes=2))
    assert not isinstance(plan.action, ApplyNode)


def test_a_resource_that_is_not_believed_yet_is_not_silent() -> None:
    late = a_plugin_pod("new", ready_since=NOW - timedelta(seconds=5))
    node = _labelled(offered=15)
    plan = plan_of(node, a_pool(), late, INSTALLER, now=NOW)
    assert (plan.reason, plan.wake_after_seconds) == (Reason.RESOURCE_NOT_READY, 7)


def test_the_time_runs_from_the_plugin_that_came_last() -> None:
    later = a_plugin_pod("newer", ready_since=PATIENCE)
    plan = plan_of(_labelled(), a_pool(), NEW, later, INSTALLER, now=PATIENCE)
    assert plan.action is None
    assert plan.wake_after_seconds == 60


def test_a_resumed_node_has_its_one_restart_again() -> None:
    """Nothing else would be tried on it, and somebody asked for another try."""
    node = follow(_labelled(renewed=True), _silent(now=PATIENCE, renewed=True))
    again = a_pool(generation=2)
    node = follow(node, plan_of(node, again, NEW, INSTALLER, now=DEADLINE))
    change = expect_change(plan_of(node, again, NEW, INSTALLER, now=DEADLINE))
    assert (change.step, change.restart, change.renewed) == (Step.LABELLED, True, True)
