"""How often a node's plugin is replaced within an hour, whatever is written to pools and labels."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.core.nodechange.phases.labelled import plan_restart
from gpushare.core.records.change_record import ChangePhase
from gpushare.core.records.node_records import parse_records
from gpushare.core.records.restart_record import Restarts
from gpushare.core.snapshot.actions import NodeState
from gpushare.core.snapshot.node import NodeSnapshot
from gpushare.names import Reason
from tests.kit.values.node_plans import (
    INSTALLER,
    a_settled,
    cordoned,
    expect_apply,
    expect_idle,
    expect_recheck,
    failed,
    plan_of,
    replaced,
    seconds_to_next,
    under_way,
)
from tests.kit.values.objects import NOW, a_plugin_pod, a_pool

PLUGIN = a_plugin_pod()
BACK = a_pool(rollout={"on_failure": "Rollback"})


def read_restarts(annotations: object) -> Restarts:
    assert isinstance(annotations, dict)
    return Restarts.model_validate_json(annotations[names.ANNOTATION_RESTARTS])


def test_the_sixth_change_within_an_hour_waits_until_the_first_is_an_hour_ago() -> None:
    assert expect_apply(plan_of(a_settled(records=replaced(4)), a_pool(), PLUGIN)).cordon
    plan = plan_of(a_settled(records=replaced(5)), a_pool(), PLUGIN)
    expect_idle(plan, NodeState.WAITING, Reason.RESTART_LIMIT)
    assert plan.kind is not None
    for word in ("03:59:05", "retry node/gpu-1", "5 times"):
        assert word in plan.message
    assert seconds_to_next(plan) == timedelta(minutes=55).total_seconds()
    later = NOW + timedelta(minutes=55)
    assert expect_apply(plan_of(a_settled(records=replaced(5)), a_pool(), PLUGIN, now=later)).cordon


def test_a_retry_of_the_node_begins_anew() -> None:
    node = a_settled(records=replaced(6), retry="now")
    assert expect_apply(plan_of(node, a_pool(), PLUGIN)).cordon


def test_a_retry_that_is_removed_again_is_no_new_one() -> None:
    node = a_settled(records=replaced(5, retry="once"))
    assert plan_of(node, a_pool(), PLUGIN).reason is Reason.RESTART_LIMIT


def test_a_node_that_is_as_its_pool_says_does_not_wait() -> None:
    node = a_settled(records=replaced(6), allocatable={"aliyun.com/gpu-mem": 15})
    assert plan_of(node, a_pool(schedule="share"), PLUGIN).reason is not Reason.RESTART_LIMIT


def test_each_restart_of_a_plugin_is_recorded_with_the_pods_that_are_deleted() -> None:
    node = cordoned(under_way(ChangePhase.LABELLED, restart=True))
    action = plan_restart(NodeSnapshot(node, (PLUGIN,), parse_records(node)), NOW)
    assert action is not None
    assert read_restarts(action.annotations).at == (NOW,)


@pytest.mark.parametrize(("restart", "counts"), [(True, 0), (False, 1)])
def test_a_plugin_that_its_label_replaces_is_counted_with_the_label(
    restart: bool, counts: int
) -> None:
    node = cordoned(under_way(ChangePhase.CORDONED, restart=restart))
    found = expect_recheck(node).annotations.get(names.ANNOTATION_RESTARTS)
    assert (len(Restarts.model_validate_json(found).at) if found else 0) == counts


def test_a_change_that_is_verified_forgets_no_restart() -> None:
    node = with_restarts(cordoned(under_way(ChangePhase.LABELLED), offered=15), 3)
    plan = plan_of(node, a_pool(), PLUGIN, INSTALLER, now=NOW + timedelta(seconds=30))
    assert not expect_apply(plan).cordon
    assert len(read_restarts(expect_apply(plan).annotations).at) == 3


def with_restarts(node: Node, times: int) -> Node:
    restarts = replaced(times).restarts.dump()
    return replace(node, annotations={**node.annotations, names.ANNOTATION_RESTARTS: restarts})


def test_what_failed_is_rolled_back_only_while_a_restart_is_left() -> None:
    node = cordoned(failed(from_mode="default"))
    assert plan_of(with_restarts(node, 5), BACK).reason is Reason.ROLLED_BACK
    plan = plan_of(with_restarts(node, 6), BACK)
    assert plan.state is NodeState.FAILED
    assert "too often" in plan.message


def test_an_unreadable_record_bounds_nothing_and_blocks_nothing() -> None:
    node = a_settled()
    node = replace(node, annotations={**node.annotations, names.ANNOTATION_RESTARTS: "{"})
    assert plan_of(node, a_pool(), PLUGIN).reason is not Reason.RECORD_UNREADABLE
