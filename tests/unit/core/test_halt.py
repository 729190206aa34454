"""A change that failed halts its pool for as long as the attempt is the same, whatever is done."""

from dataclasses import replace

import pytest

from gpushare import names
from gpushare.api.pool import Edition, Pool, Schedule
from gpushare.core.records import NodeRecords, Step
from gpushare.names import Reason
from tests.kit.values.node_plans import INSTALLER, a_failure, applied, expect_apply, on_basic
from tests.kit.values.objects import MEMORY, a_node, a_plugin_pod, a_pool, a_world
from tests.unit.core.planner_output import Planned, plan_world

SHARE = {"cgpu": "true", "cgpu.disable.isolation": "true", names.LABEL_POOL: "training"}
CGPU = SHARE | {"cgpu.disable.isolation": "false"}
POOL = a_pool(edition="Basic", rollout={"max_unavailable": 2, "on_failure": "Rollback"})
PODS = (INSTALLER, a_plugin_pod("new"), a_plugin_pod("plugin-2", node="gpu-2"))
FAILED = on_basic(Schedule.SHARE, Schedule.CGPU, Step.RESTARTING, failure=a_failure())
FINISHED = applied(edition=Edition.BASIC, plugins={"new": 0}, of="share", failure=a_failure())


def plan_beside(pool: Pool, records: NodeRecords, labels: dict[str, str]) -> Planned:
    """What is planned for gpu-1, with these records, and for gpu-2, which has yet to be changed.

    The budget has room for both.
    """
    failed = a_node(
        labels=labels,
        records=records,
        unschedulable=records.change is not None,
        allocatable={MEMORY: 15},
    )
    waiting = applied(Schedule.SHARE, edition=Edition.BASIC, plugins={"plugin-2": 0})
    healthy = a_node("gpu-2", SHARE, records=waiting, allocatable={MEMORY: 15})
    world = a_world(pools=(pool,), nodes=(failed, healthy), pods=PODS)
    return plan_world(replace(world, zeroed=frozenset({"gpu-1"})))


def _back(step: Step) -> NodeRecords:
    return on_basic(Schedule.CGPU, Schedule.SHARE, step, undoes=a_failure())


@pytest.mark.parametrize(
    ("records", "labels"),
    [
        (_back(Step.CORDONED), CGPU),
        (_back(Step.LABELLED), SHARE),
        (_back(Step.RESTARTING), SHARE),
        (FAILED, CGPU),
        (FINISHED, CGPU),
    ],
    ids=["back: cordoned", "back: labelled", "back: restarting", "finishes", "has finished"],
)
def test_the_pool_stays_halted_whatever_becomes_of_the_failed_node(
    records: NodeRecords, labels: dict[str, str]
) -> None:
    assert plan_beside(POOL, records, labels).decided["gpu-2"].reason is Reason.ROLLOUT_HALTED


def test_another_attempt_lets_the_others_begin() -> None:
    resumed = POOL.model_copy(update={"retry": "now"})
    assert plan_beside(resumed, FINISHED, CGPU).decided["gpu-2"].reason is Reason.CORDONED


def test_a_node_that_joins_too_late_holds_nobody_up_then_or_afterwards() -> None:
    more = {"failure": a_failure(), "joining": True, "restart": False}
    joining = on_basic(Schedule.DEFAULT, Schedule.CGPU, Step.LABELLED, **more)

    plans = plan_beside(POOL, joining, CGPU).decided

    assert plans["gpu-2"].reason is Reason.CORDONED
    done = expect_apply(plans["gpu-1"])
    assert not done.cordon
    assert "failure" not in done.annotations[names.ANNOTATION_APPLIED]
