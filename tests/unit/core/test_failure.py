"""Changes that fail: at their deadline, or because the resource stays away; and tried again."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from gpushare import names
from gpushare.api.node import Node
from gpushare.api.pod import Pod
from gpushare.api.pool import Pool, Schedule
from gpushare.core.actions import DeletePlugins, LookAgain, NodePlan, NodeState, RecordPlugins
from gpushare.core.failure import judge_progress, read_reason
from gpushare.core.observed import Observed, Pass
from gpushare.core.policy import Policy
from gpushare.core.records import Applied, NodeRecords, PluginPod, Step, parse_records
from gpushare.names import Reason
from tests.kit.members import (
    CGPU,
    INSTALLER,
    OURS,
    SHARE,
    UNVERIFIED,
    a_failure,
    applied,
    expect_apply,
    expect_change,
    expect_idle,
    failed,
    follow,
    plan_of,
    under_way,
)
from tests.kit.values import LATER, MEMORY, NOW, a_gpu_pod, a_node, a_plugin_pod, a_pool

DEADLINE = NOW + timedelta(minutes=10)
PATIENCE = NOW + timedelta(minutes=1)
NEW = a_plugin_pod("new")
SOON = a_pool(rollout={"ready_timeout_seconds": 30})
AGAIN = a_pool(generation=2)


def _records(step: Step = Step.RESTARTING, **more: Any) -> NodeRecords:
    """A change from share to cgpu, as it is after its labels were written at NOW."""
    records = under_way(step)
    assert records.change is not None
    update = {"restart": True, "plugins": (PluginPod(name="old", uid="old"),), **more}
    return records.model_copy(update={"change": records.change.model_copy(update=update)})


def _labelled(records: NodeRecords | None = None, *, offered: int = 0, **more: Any) -> Node:
    values: dict[str, Any] = {"unschedulable": True, "owns_cordon": True, **more}
    return a_node(
        labels={**CGPU, **OURS},
        records=records or _records(),
        allocatable={MEMORY: offered},
        **values,
    )


def _returned(records: NodeRecords, pool: Pool, *, now: datetime = LATER) -> NodePlan:
    """What is planned once the plugin is back, and with it the resource."""
    return plan_of(_labelled(records, offered=15), pool, NEW, INSTALLER, now=now)


def _read_applied(plan: NodePlan) -> Applied:
    text = expect_apply(plan).annotations[names.ANNOTATION_APPLIED]
    return Applied.model_validate_json(text)


# The deadline.


def test_a_change_says_its_deadline_and_is_looked_at_when_it_passes() -> None:
    plan = plan_of(_labelled(), a_pool(), now=NOW + timedelta(minutes=4))
    assert (plan.state, plan.deadline) == (NodeState.UPDATING, DEADLINE)
    assert plan.wake_after_seconds == 360


def test_the_deadline_is_the_pools_own_where_it_has_one() -> None:
    assert plan_of(_labelled(), SOON).deadline == NOW + timedelta(seconds=30)


def test_a_look_that_is_due_before_the_deadline_comes_first() -> None:
    plan = plan_of(_labelled(offered=15), a_pool(), NEW, INSTALLER)
    assert (plan.reason, plan.wake_after_seconds) == (Reason.RESOURCE_NOT_READY, 12)


def test_until_its_deadline_a_change_has_not_failed() -> None:
    plan = plan_of(_labelled(), a_pool(), now=DEADLINE - timedelta(seconds=1))
    assert (plan.state, plan.action, plan.halts) == (NodeState.UPDATING, None, "")


def test_a_deadline_that_passes_is_written_on_the_node_with_step_reason_and_message() -> None:
    plan = plan_of(_labelled(), a_pool(), INSTALLER, now=DEADLINE)
    failure = expect_change(plan).failure
    assert failure is not None
    assert (failure.step, failure.reason, failure.at) == (
        Step.RESTARTING,
        Reason.DEADLINE_EXCEEDED,
        DEADLINE,
    )
    assert failure.message == (
        "gpushare-device-plugin-ds is not Ready on the node, 600 s after the labels"
    )
    assert failure.attempt == "training/1"


def test_the_node_that_failed_stays_cordoned_with_its_labels() -> None:
    apply = expect_apply(plan_of(_labelled(), a_pool(), now=DEADLINE))
    assert apply.cordon
    assert apply.labels == {**CGPU, **OURS, **UNVERIFIED}


def test_a_failure_halts_in_the_pass_that_writes_it() -> None:
    plan = plan_of(_labelled(), a_pool(), INSTALLER, now=DEADLINE)
    assert plan.state is NodeState.FAILED
    assert plan.halts.startswith("gpu-1 failed at the step Restarting: gpushare-device-plugin-ds")


def test_a_failure_is_written_once() -> None:
    node = _labelled()
    node = follow(node, plan_of(node, a_pool(), now=DEADLINE))
    for hours in range(1, 4):
        plan = plan_of(node, a_pool(), now=DEADLINE + timedelta(hours=hours))
        expect_idle(plan, NodeState.FAILED, Reason.DEADLINE_EXCEEDED)
        assert plan.halts


def test_a_failure_says_that_the_node_stays_cordoned_until_it_is_mended() -> None:
    plan = plan_of(_labelled(failed()), a_pool(), now=LATER)
    assert plan.message == (
        "cgpu-installer is not Ready on the node, 600 s after the labels; "
        "the node stays cordoned until this is mended"
    )


def test_a_step_of_ours_that_is_refused_until_the_deadline_fails() -> None:
    node = _labelled(_records(Step.LABELLED, plugins=()))
    assert plan_of(node, a_pool()).action == RecordPlugins("gpu-1")
    plan = plan_of(node, a_pool(), now=DEADLINE, is_refused=True)
    failure = expect_change(plan).failure
    assert failure is not None
    assert failure.step is Step.LABELLED


def test_a_failed_change_is_still_carried_on() -> None:
    records = failed(step=Step.LABELLED, plugins=(), restart=True)
    plan = plan_of(_labelled(records), a_pool(), now=LATER)
    assert (plan.state, plan.action) == (NodeState.FAILED, RecordPlugins("gpu-1"))


def test_pods_on_the_labelled_node_are_waited_for_without_a_deadline() -> None:
    node = _labelled(_records(Step.LABELLED, plugins=()))
    plan = plan_of(node, a_pool(), a_gpu_pod(), now=NOW + timedelta(days=9))
    assert (plan.state, plan.reason) == (NodeState.BLOCKED, Reason.WORKLOADS_PRESENT)
    assert (plan.halts, plan.deadline) == ("", None)


def test_a_change_that_waited_for_pods_has_its_time_once_they_are_gone() -> None:
    node = _labelled(_records(Step.LABELLED, plugins=()))
    assert plan_of(node, a_pool(), a_gpu_pod(), now=LATER).action is None
    node = follow(node, plan_of(node, a_pool(), now=LATER))
    plan = plan_of(node, a_pool(), now=LATER)
    assert (plan.state, plan.action) == (NodeState.UPDATING, RecordPlugins("gpu-1"))


def test_an_outage_of_the_operator_fails_no_change() -> None:
    """The plugin's pod is recorded, and whoever was to delete it was away past the deadline."""
    old = a_plugin_pod("old")
    node = _labelled()
    node = follow(node, plan_of(node, a_pool(), old, now=LATER))
    plan = plan_of(node, a_pool(), old, now=LATER)
    assert isinstance(plan.action, DeletePlugins)
    assert plan.halts == ""


def test_a_long_message_is_cut_to_what_the_record_may_hold() -> None:
    node = _labelled()
    seen = Observed(node, (), parse_records(node))
    change = seen.records.change
    assert change is not None
    long = seen.plan(NodeState.UPDATING, Reason.LABELLED, "m" * 4000)
    plan = judge_progress(seen, change, long, Policy(), Pass(DEADLINE))
    failure = expect_change(plan).failure
    assert failure is not None
    assert failure.message == "m" * 400


def test_a_node_that_joins_fails_alone() -> None:
    node = _labelled(_records(joining=True))
    plan = plan_of(node, a_pool(), now=DEADLINE)
    assert (plan.state, plan.halts) == (NodeState.FAILED, "")
    again = plan_of(follow(node, plan), a_pool(), now=LATER)
    assert (again.state, again.halts) == (NodeState.FAILED, "")


def test_a_node_that_joined_too_late_halts_nobody() -> None:
    """Its plugin came back after the deadline: it is ready, and was never in service."""
    records = failed(joining=True)
    node = follow(_labelled(records, offered=15), _returned(records, a_pool()))
    node = replace(node, allocatable={MEMORY: 15})
    plan = plan_of(node, a_pool(), NEW, INSTALLER, now=LATER)
    assert (plan.state, plan.halts) == (NodeState.READY, "")


def test_a_reason_that_only_another_version_knows_is_a_passed_deadline() -> None:
    odd = a_failure().model_copy(update={"reason": "PluginSulks"})
    assert read_reason(odd) is Reason.DEADLINE_EXCEEDED
    plan = plan_of(_labelled(failed(failure=odd)), a_pool(), now=LATER)
    assert (plan.state, plan.reason) == (NodeState.FAILED, Reason.DEADLINE_EXCEEDED)


# Pods that can't be read after the cordon.


def _cordoned(pool: Pool, now: datetime, *, is_refused: bool = False, **more: Any) -> NodePlan:
    records = _records(Step.CORDONED, plugins=(), labelled_at=None, **more)
    node = a_node(labels={**SHARE, **OURS}, records=records, unschedulable=True)
    return plan_of(node, pool, now=now, is_refused=is_refused)


def test_a_look_that_is_refused_for_too_long_halts_the_pool_and_is_tried_again_all_the_same() -> (
    None
):
    plan = _cordoned(a_pool(), DEADLINE, is_refused=True)
    assert (plan.state, plan.reason) == (NodeState.FAILED, Reason.DEADLINE_EXCEEDED)
    assert plan.halts == (
        "gpu-1 failed at the step Cordoned: its pods can't be read, 600 s after the cordon"
    )
    assert plan.action == LookAgain("gpu-1")


def test_a_look_has_until_the_deadline() -> None:
    plan = _cordoned(a_pool(), DEADLINE - timedelta(seconds=1), is_refused=True)
    assert (plan.state, plan.halts) == (NodeState.UPDATING, "")


def test_a_look_at_a_node_that_joins_halts_nobody() -> None:
    plan = _cordoned(a_pool(), DEADLINE, is_refused=True, joining=True)
    assert (plan.state, plan.halts) == (NodeState.FAILED, "")


# Coming back after all.


def test_a_failed_change_whose_plugin_returns_is_finished_and_remembers_that_it_failed() -> None:
    record = _read_applied(_returned(failed(), a_pool()))
    assert record.schedule is Schedule.CGPU
    assert record.failure == a_failure()


def test_a_node_that_came_back_too_late_is_ready_and_still_halts_its_pool() -> None:
    node = follow(_labelled(offered=15), _returned(failed(), a_pool()))
    plan = plan_of(node, a_pool(), NEW, INSTALLER, now=LATER)
    assert (plan.state, plan.proven) == (NodeState.READY, False)
    assert plan.halts.startswith("gpu-1 failed at the step Restarting: cgpu-installer")


def test_in_another_attempt_a_node_that_came_back_too_late_is_proven() -> None:
    node = follow(_labelled(offered=15), _returned(failed(), a_pool()))
    node = follow(node, plan_of(node, AGAIN, NEW, INSTALLER, now=LATER))
    plan = plan_of(node, AGAIN, NEW, INSTALLER, now=LATER)
    assert (plan.state, plan.proven, plan.halts) == (NodeState.READY, True, "")


def test_a_failure_of_another_attempt_does_not_come_back_with_it() -> None:
    """A person takes the retry annotation away that resumed the pool."""
    node = follow(_labelled(offered=15), _returned(failed(), a_pool()))
    node = follow(node, plan_of(node, a_pool(retry="once"), NEW, INSTALLER, now=LATER))
    plan = plan_of(node, a_pool(), NEW, INSTALLER, now=LATER)
    assert (plan.state, plan.halts) == (NodeState.READY, "")


@pytest.mark.parametrize("pods", [(INSTALLER,), (NEW,)], ids=["plugin away", "installer away"])
def test_a_node_that_came_back_too_late_and_is_down_again_still_halts(
    pods: tuple[Pod, ...],
) -> None:
    node = follow(_labelled(offered=15), _returned(failed(), a_pool()))
    plan = plan_of(node, a_pool(), *pods, now=LATER)
    assert plan.state is NodeState.BLOCKED
    assert plan.halts


def test_a_change_that_was_in_time_halts_nothing_and_is_proven() -> None:
    node = follow(_labelled(offered=15), _returned(_records(), a_pool()))
    plan = plan_of(node, a_pool(), NEW, INSTALLER, now=LATER)
    assert (plan.state, plan.proven, plan.halts) == (NodeState.READY, True, "")


def test_a_node_that_joined_or_was_right_already_is_no_canary() -> None:
    right = a_node(labels={**CGPU, **OURS}, records=applied(), allocatable={MEMORY: 15})
    assert not plan_of(right, a_pool(), a_plugin_pod(), INSTALLER).proven
    records = _records(joining=True)
    joined = follow(_labelled(offered=15), _returned(records, a_pool()))
    plan = plan_of(joined, a_pool(), NEW, INSTALLER, now=LATER)
    assert (plan.state, plan.proven) == (NodeState.READY, False)


# Another attempt.


@pytest.mark.parametrize(
    ("pool", "retry"),
    [(a_pool(generation=2), ""), (a_pool(retry="now"), ""), (a_pool(), "now")],
    ids=["the spec changed", "the pool's annotation", "the node's annotation"],
)
def test_a_failed_change_is_tried_again_with_a_new_deadline(pool: Pool, retry: str) -> None:
    node = _labelled(failed(renewed=True), retry=retry)
    plan = plan_of(node, pool, now=LATER)
    change = expect_change(plan)
    assert (plan.state, plan.halts) == (NodeState.UPDATING, "")
    assert (change.failure, change.renewed, change.labelled_at) == (None, None, LATER)
    assert change.plugins == (PluginPod(name="old", uid="old"),)
    resumed = plan_of(follow(node, plan), pool, now=LATER)
    assert (resumed.state, resumed.deadline) == (
        NodeState.UPDATING,
        LATER + timedelta(minutes=10),
    )


def test_a_retry_that_stays_as_it_was_tries_nothing_again() -> None:
    pool = a_pool(retry="now")
    node = _labelled(_records())
    node = follow(node, plan_of(node, pool, now=DEADLINE))
    plan = plan_of(node, pool, now=LATER)
    assert (plan.state, plan.action) == (NodeState.FAILED, None)


def test_a_change_that_fails_again_says_so_for_its_new_attempt() -> None:
    node = _labelled(failed())
    node = follow(node, plan_of(node, AGAIN, now=LATER))
    failure = expect_change(plan_of(node, AGAIN, now=LATER + timedelta(minutes=10))).failure
    assert failure is not None
    assert failure.attempt == "training/2"


def test_a_failed_change_to_what_the_pool_wants_no_more_begins_anew_from_there() -> None:
    pool = a_pool(schedule="default", generation=2)
    plan = plan_of(_labelled(failed()), pool, now=LATER)
    change = expect_change(plan)
    assert (change.of, change.to, change.step) == (
        Schedule.CGPU,
        Schedule.DEFAULT,
        Step.CORDONED,
    )
    assert change.labelled_at is not None


def test_where_the_pool_wants_what_cant_be_done_the_failed_node_says_both() -> None:
    pool = a_pool(schedule="share", generation=2)
    plan = plan_of(_labelled(failed()), pool, now=LATER)
    expect_idle(plan, NodeState.FAILED, Reason.DEADLINE_EXCEEDED)
    assert "cgpu-installer is not Ready" in plan.message
    assert "RequiresTeardown" in plan.message
    assert plan.halts == ""
