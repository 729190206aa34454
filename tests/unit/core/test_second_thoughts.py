"""People change their minds in the middle of a rollout, and cordons; nothing is believed for it."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpushare import names
from gpushare.api.node import Node
from gpushare.api.pod import Pod
from gpushare.api.pool import Edition, Pool, Schedule
from gpushare.core.actions import ApplyNode, NodePlan, NodeState
from gpushare.core.modes import GPUSHARE_PLUGIN
from gpushare.core.observed import Observed, Pass
from gpushare.core.outlook import judge_rollout
from gpushare.core.plan import Planner
from gpushare.core.records import (
    Applied,
    Change,
    Failure,
    NodeRecords,
    PluginPod,
    Step,
    parse_records,
)
from gpushare.core.rollout import plan_give_way
from gpushare.names import Reason
from tests.kit.members import expect_apply
from tests.kit.values import MEMORY, NOW, a_node, a_plugin_pod, a_pool, a_world, installed

SHARE = {"cgpu": "true", "cgpu.disable.isolation": "true", names.LABEL_POOL: "training"}
CGPU = SHARE | {"cgpu.disable.isolation": "false"}
LONG_AGO = NOW - timedelta(hours=1)
FAILURE = Failure(
    attempt="training/1",
    step=Step.RESTARTING,
    reason=Reason.DEADLINE_EXCEEDED,
    message="the plugin is not Ready",
    at=LONG_AGO,
)


def applied(schedule: Schedule, **more: Any) -> Applied:
    return Applied(
        pool="training",
        edition=Edition.BASIC,
        schedule=schedule,
        boot_id="boot-1",
        plugins={"plugin-1": 0},
        **more,
    )


def in_change(of: Schedule, to: Schedule, step: Step, **more: Any) -> NodeRecords:
    values: dict[str, Any] = {"restart": True, "labelled_at": LONG_AGO, "since": NOW, **more}
    change = Change(pool="training", edition=Edition.BASIC, of=of, to=to, step=step, **values)
    return NodeRecords(found={}, change=change, applied=applied(Schedule.SHARE))


def a_member(
    records: NodeRecords, labels: dict[str, str], name: str = "gpu-1", **more: Any
) -> Node:
    cordoned = records.change is not None
    values: dict[str, Any] = {"unschedulable": cordoned, "owns_cordon": cordoned, **more}
    return a_node(name, labels=labels, records=records, allocatable={MEMORY: 15}, **values)


def plan(
    pool: Pool, *nodes: Node, pods: tuple[Pod, ...] = ()
) -> tuple[Planner, dict[str, NodePlan]]:
    components = [
        pod
        for node in nodes
        for pod in (
            a_plugin_pod("plugin-1", node=node.name),
            a_plugin_pod(f"installer-{node.name}", daemonset="cgpu-installer", node=node.name),
        )
    ]
    world = a_world(pools=(pool,), nodes=nodes, pods=(*components, *pods))
    world = replace(world, plugin_daemonsets=installed({GPUSHARE_PLUGIN, "cgpu-installer"}))
    planner = Planner(timing=Pass(NOW).timing)
    decided = planner.update(world, None, NOW).decisions
    return planner, {decision.plan.node: decision.plan for decision in decided}


def read_change(node: Node, action: ApplyNode) -> Change:
    change = parse_records(replace(node, annotations=action.annotations)).change
    assert change is not None
    return change


@pytest.mark.parametrize("undoes", [FAILURE, None])
def test_a_plugin_that_was_never_restarted_is_not_believed_when_the_way_back_is_given_up(
    undoes: Failure | None,
) -> None:
    back = in_change(Schedule.CGPU, Schedule.SHARE, Step.CORDONED, undoes=undoes)
    node = a_member(back, CGPU)
    seen = Observed(node, (a_plugin_pod("plugin-1"),), back)

    action = plan_give_way(seen, why="a person uncordoned the node", now=NOW)

    change = read_change(node, action)
    assert (change.to, change.step, change.restart) == (Schedule.CGPU, Step.LABELLED, True)


def test_a_change_that_is_given_up_for_the_one_that_failed_has_its_whole_time_again() -> None:
    back = in_change(Schedule.CGPU, Schedule.SHARE, Step.CORDONED)
    pool = a_pool(schedule="share", edition="Basic", generation=2)

    node = a_member(back, CGPU, unschedulable=False)

    _, plans = plan(pool, node)

    assert read_change(node, expect_apply(plans["gpu-1"])).labelled_at == NOW


def test_a_change_is_not_rolled_back_where_no_plugin_may_be_restarted() -> None:
    failed = in_change(
        Schedule.SHARE,
        Schedule.CGPU,
        Step.RESTARTING,
        failure=FAILURE,
        plugins=(PluginPod(name="plugin-1", uid="plugin-1"),),
    )
    pool = a_pool(
        edition="Basic", rollout={"on_failure": "Rollback"}, device_plugin={"restart": "Never"}
    )
    node = a_member(failed, CGPU)

    _, plans = plan(pool, replace(node, ready=False))

    assert "devicePlugin.restart is Never" in plans["gpu-1"].message
    assert plans["gpu-1"].reason is Reason.DEADLINE_EXCEEDED


def test_nodes_that_failed_together_do_not_wait_for_each_others_place() -> None:
    failed = in_change(Schedule.SHARE, Schedule.CGPU, Step.RESTARTING, failure=FAILURE)
    nodes = [a_member(failed, CGPU, name, ready=True) for name in ("gpu-1", "gpu-2")]
    pool = a_pool(schedule="share", edition="Basic", generation=2)
    pods = tuple(a_plugin_pod("plugin-1", node=node.name, ready=False) for node in nodes)
    world = a_world(pools=(pool,), nodes=tuple(nodes), pods=pods)
    world = replace(world, plugin_daemonsets=installed({GPUSHARE_PLUGIN, "cgpu-installer"}))

    decided = Planner(Pass(NOW).timing).update(world, None, NOW).decisions

    assert {d.plan.node: d.plan.reason for d in decided} == {
        "gpu-1": Reason.CORDONED,
        "gpu-2": Reason.CORDONED,
    }


def test_a_failed_node_that_waits_for_its_turn_is_failed_all_the_same() -> None:
    failed = in_change(Schedule.SHARE, Schedule.CGPU, Step.RESTARTING, failure=FAILURE)
    pool = a_pool(schedule="share", edition="Basic", generation=2, rollout={"approval": "Manual"})
    world = a_world(pools=(pool,), nodes=(a_member(failed, CGPU),))
    world = replace(world, plugin_daemonsets=installed({GPUSHARE_PLUGIN, "cgpu-installer"}))

    (decision,) = Planner(Pass(NOW).timing).update(world, None, NOW).decisions

    assert decision.plan.state is NodeState.FAILED
    assert "approvedPlan" in decision.plan.message


def test_a_paused_pool_begins_no_other_change_on_a_node_that_failed() -> None:
    failed = in_change(Schedule.SHARE, Schedule.CGPU, Step.RESTARTING, failure=FAILURE)
    pool = a_pool(schedule="share", edition="Basic", generation=2, reconcile="Paused")
    world = a_world(pools=(pool,), nodes=(a_member(failed, CGPU),))
    world = replace(world, plugin_daemonsets=installed({GPUSHARE_PLUGIN, "cgpu-installer"}))

    (decision,) = Planner(Pass(NOW).timing).update(world, None, NOW).decisions

    assert (decision.plan.reason, decision.plan.action) == (Reason.PAUSED, None)


def test_the_plugin_of_a_node_that_had_no_record_is_not_believed_either() -> None:
    back = in_change(Schedule.CGPU, Schedule.SHARE, Step.CORDONED, undoes=FAILURE)
    first = back.model_copy(update={"applied": None})
    node = a_member(first, CGPU)
    seen = Observed(node, (a_plugin_pod("plugin-1"),), first)

    action = plan_give_way(seen, why="a person uncordoned the node", now=NOW)

    assert read_change(node, action).restart


def test_a_repair_that_failed_is_not_believed_when_what_followed_it_is_given_up() -> None:
    after = in_change(Schedule.CGPU, Schedule.SHARE, Step.CORDONED)
    repaired = after.model_copy(update={"applied": applied(Schedule.CGPU)})
    node = a_member(repaired, CGPU)
    seen = Observed(node, (a_plugin_pod("misled"),), repaired)

    action = plan_give_way(seen, why="a person uncordoned the node", now=NOW)

    assert read_change(node, action).restart


def test_a_node_that_gives_way_is_in_the_middle_of_its_change_all_the_same() -> None:
    back = in_change(Schedule.CGPU, Schedule.SHARE, Step.CORDONED)

    planner, _ = plan(a_pool(edition="Basic"), a_member(back, CGPU))

    holds, reason, _ = judge_rollout(a_pool(edition="Basic"), planner.books["training"])
    assert (holds, reason) == (False, Reason.UPDATING)
