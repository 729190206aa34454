"""A change that failed halts its pool for as long as the attempt is the same, whatever is done."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gpushare import names
from gpushare.api.pool import Edition, Pool, Schedule
from gpushare.core.actions import NodePlan
from gpushare.core.modes import GPUSHARE_PLUGIN
from gpushare.core.records import Applied, Change, Failure, NodeRecords, PluginPod, Step
from gpushare.names import Reason
from tests.kit.members import expect_apply, plan_of
from tests.kit.planned import plan_world
from tests.kit.values import (
    MEMORY,
    NOW,
    PRO_DAEMONSETS,
    a_node,
    a_plugin_pod,
    a_pool,
    a_world,
    installed,
)

SHARE = {"cgpu": "true", "cgpu.disable.isolation": "true", names.LABEL_POOL: "training"}
CGPU = SHARE | {"cgpu.disable.isolation": "false"}
FAILURE = Failure(
    attempt="training/1",
    step=Step.RESTARTING,
    reason=Reason.DEADLINE_EXCEEDED,
    message="the plugin is not Ready",
    at=NOW,
)
POOL = a_pool(edition="Basic", rollout={"max_unavailable": 2})
ROLLING_BACK = a_pool(edition="Basic", rollout={"max_unavailable": 2, "on_failure": "Rollback"})
PODS = (
    a_plugin_pod("installer", daemonset="cgpu-installer"),
    a_plugin_pod("new"),
    a_plugin_pod("plugin-2", node="gpu-2"),
)


def applied(schedule: Schedule, **more: Any) -> Applied:
    return Applied(
        pool="training",
        edition=Edition.BASIC,
        schedule=schedule,
        boot_id="boot-1",
        **{"plugins": {"new": 0}, **more},
    )


def in_change(of: Schedule, to: Schedule, step: Step, **more: Any) -> NodeRecords:
    values: dict[str, Any] = {"restart": True, "labelled_at": NOW, **more}
    change = Change(
        pool="training", edition=Edition.BASIC, of=of, to=to, step=step, since=NOW, **values
    )
    return NodeRecords(found={}, change=change, applied=applied(Schedule.SHARE))


def plan_beside(pool: Pool, records: NodeRecords, labels: dict[str, str]) -> Mapping[str, NodePlan]:
    """What is planned for gpu-1, with these records, and for gpu-2, which has yet to be changed."""
    failed = a_node(
        "gpu-1",
        labels=labels,
        records=records,
        unschedulable=records.change is not None,
        allocatable={MEMORY: 15},
    )
    healthy = a_node(
        "gpu-2",
        labels=SHARE,
        records=NodeRecords(found={}, applied=applied(Schedule.SHARE, plugins={"plugin-2": 0})),
        allocatable={MEMORY: 15},
    )
    world = a_world(pools=(pool,), nodes=(failed, healthy), pods=PODS)
    daemonsets = PRO_DAEMONSETS | {GPUSHARE_PLUGIN, "cgpu-installer"}
    world = replace(world, plugin_daemonsets=installed(daemonsets), zeroed=frozenset({"gpu-1"}))
    return plan_world(world).decided


def reason_of_the_other(pool: Pool, records: NodeRecords, labels: dict[str, str]) -> Reason:
    """What the other node waits for, though the budget has room."""
    return plan_beside(pool, records, labels)["gpu-2"].reason


@pytest.mark.parametrize("step", [Step.CORDONED, Step.LABELLED, Step.RESTARTING])
def test_the_pool_stays_halted_while_the_change_is_taken_back(step: Step) -> None:
    labels = CGPU if step is Step.CORDONED else SHARE
    back = in_change(Schedule.CGPU, Schedule.SHARE, step, undoes=FAILURE)

    assert reason_of_the_other(ROLLING_BACK, back, labels) is Reason.ROLLOUT_HALTED


def test_the_pool_stays_halted_while_the_failed_node_finishes_all_the_same() -> None:
    old = (PluginPod(name="old", uid="old"),)
    late = in_change(Schedule.SHARE, Schedule.CGPU, Step.RESTARTING, failure=FAILURE, plugins=old)

    assert reason_of_the_other(POOL, late, CGPU) is Reason.ROLLOUT_HALTED


def test_the_pool_stays_halted_after_the_failed_node_has_finished() -> None:
    finished = applied(Schedule.CGPU, of=Schedule.SHARE, failure=FAILURE)
    records = NodeRecords(found={}, applied=finished)

    assert reason_of_the_other(POOL, records, CGPU) is Reason.ROLLOUT_HALTED


def test_another_attempt_lets_the_others_begin() -> None:
    finished = applied(Schedule.CGPU, of=Schedule.SHARE, failure=FAILURE)
    records = NodeRecords(found={}, applied=finished)
    resumed = POOL.model_copy(update={"retry": "now"})

    assert reason_of_the_other(resumed, records, CGPU) is Reason.CORDONED


def test_a_node_that_joins_too_late_holds_nobody_up_then_or_afterwards() -> None:
    more = {"failure": FAILURE, "joining": True, "restart": False}
    joining = in_change(Schedule.DEFAULT, Schedule.CGPU, Step.LABELLED, **more)

    plans = plan_beside(POOL, joining, CGPU)

    assert plans["gpu-2"].reason is Reason.CORDONED
    done = expect_apply(plans["gpu-1"])
    assert not done.cordon
    assert "failure" not in done.annotations[names.ANNOTATION_APPLIED]


def test_what_needs_a_restart_is_not_rolled_back_where_restarts_are_left_to_a_person() -> None:
    pool = a_pool(
        edition="Basic", device_plugin={"restart": "Never"}, rollout={"on_failure": "Rollback"}
    )
    failed = in_change(Schedule.SHARE, Schedule.CGPU, Step.RESTARTING, failure=FAILURE)
    plan = plan_of(a_node(labels=CGPU, records=failed, unschedulable=True), pool)
    assert plan.action is None
    assert "devicePlugin.restart is Never" in plan.message
