"""Nodes whose cards another stack gives out are left as they are."""

from dataclasses import replace
from typing import Any

import pytest

from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Pool, Schedule
from gpushare.core.capacity.node_capacity import NodeCapacity
from gpushare.core.planner.task import Task
from gpushare.core.records.change_record import ChangePhase
from gpushare.core.records.node_records import parse_records
from gpushare.core.snapshot.actions import ApplyNode, NodeState
from gpushare.core.snapshot.cluster import NodeContext
from gpushare.core.snapshot.node import NodeSnapshot
from gpushare.names import Reason
from tests.kit.values.node_plans import (
    OURS,
    SHARE,
    a_failure,
    a_settled,
    applied,
    expect_apply,
    expect_idle,
    expect_recheck,
    plan_of,
    under_way,
    unlabelled,
)
from tests.kit.values.objects import MEMORY, a_node, a_plugin_pod, a_pool

WHOLE = "nvidia.com/gpu"
BOTH = {MEMORY: 15, WHOLE: 1}
PLUGIN = a_plugin_pod()
NVIDIA = replace(
    a_plugin_pod("nvidia-1", daemonset="nvidia-device-plugin-daemonset"), namespace="gpu-operator"
)
HAMI = a_plugin_pod("hami-1", daemonset="hami-device-plugin")
SLICES = ("gpu-1-slice",)
SHARE_POOL = a_pool(schedule="share")


def _settled(**offers: int) -> Node:
    return a_settled(allocatable={MEMORY: 15, **offers}, gpu_count=1)


@pytest.mark.parametrize("pool", [SHARE_POOL, a_pool()], ids=["as it is", "another mode"])
@pytest.mark.parametrize(
    ("pods", "slices"), [((PLUGIN, NVIDIA), ()), ((PLUGIN, HAMI), ()), ((PLUGIN,), SLICES)]
)
def test_a_member_that_two_stacks_serve_is_told_and_not_changed(
    pods: tuple[Pod, ...], slices: tuple[str, ...], pool: Pool
) -> None:
    node = _settled(**{WHOLE: 0 if slices else 1})
    plan = plan_of(node, pool, *pods, slices=slices)
    expect_idle(plan, NodeState.BLOCKED, Reason.COMPETING_STACKS)


@pytest.mark.parametrize(
    ("offers", "pods", "slices", "reason"),
    [
        (BOTH, (PLUGIN, NVIDIA), (), Reason.COMPETING_STACKS),
        ({WHOLE: 10}, (NVIDIA, HAMI), (), Reason.COMPETING_STACKS),
        ({WHOLE: 10}, (HAMI,), (), Reason.OTHER_STACK),
        ({}, (), SLICES, Reason.OTHER_STACK),
    ],
    ids=["ours and NVIDIA's", "NVIDIA's and HAMi", "HAMi", "DRA"],
)
def test_a_new_node_of_another_stack_gets_no_label(
    offers: dict[str, int], pods: tuple[Pod, ...], slices: tuple[str, ...], reason: Reason
) -> None:
    plan = plan_of(a_node(allocatable=offers), SHARE_POOL, *pods, slices=slices)
    expect_idle(plan, NodeState.BLOCKED, reason)


@pytest.mark.parametrize(("pods", "slices"), [((HAMI,), ()), ((), SLICES)])
def test_mode_disabled_hands_a_node_to_another_stack(
    pods: tuple[Pod, ...], slices: tuple[str, ...]
) -> None:
    node, pool = a_node(allocatable={WHOLE: 10}), a_pool(schedule="disabled")
    assert expect_apply(plan_of(node, pool, *pods, slices=slices)).cordon


@pytest.mark.parametrize("edition", ["OpenSource", "Basic", "Professional"])
def test_a_node_of_whole_cards_by_nvidias_plugin_alone_begins_to_share(edition: str) -> None:
    node, pool = a_node(allocatable={WHOLE: 1}), a_pool(schedule="share", edition=edition)
    assert expect_apply(plan_of(node, pool, NVIDIA)).cordon


def test_nvidias_plugin_alone_is_the_whole_card_plugin_of_a_node_that_does_not_share() -> None:
    node, pool = a_node(allocatable={WHOLE: 1}), a_pool(schedule="default", edition="OpenSource")
    assert "gpushare.io/applied" in expect_apply(plan_of(node, pool, NVIDIA)).annotations


@pytest.mark.parametrize(("pods", "slices"), [((PLUGIN, NVIDIA), ()), ((PLUGIN,), SLICES)])
def test_a_second_stack_that_comes_during_the_cordon_ends_the_change(
    pods: tuple[Pod, ...], slices: tuple[str, ...]
) -> None:
    node = unlabelled(allocatable=BOTH)
    apply = expect_apply(plan_of(node, a_pool(), *pods, slices=slices))
    assert not apply.cordon
    assert not expect_recheck(node, *pods, slices=slices).cordon
    assert expect_recheck(node, PLUGIN).cordon


def _failed_on_its_way(**more: Any) -> Node:
    """The change from whole cards to share failed: NVIDIA's plugin stays beside ours."""
    way = {"from_mode": Schedule.DEFAULT, "to": Schedule.SHARE, "failure": a_failure(), **more}
    records = under_way(ChangePhase.LABELLED, **way).model_copy(
        update={"applied": applied(Schedule.DEFAULT).applied}
    )
    values: dict[str, Any] = {"unschedulable": True, "owns_cordon": True, "gpu_count": 1}
    return a_node(labels={**SHARE, **OURS}, records=records, allocatable=BOTH, **values)


def test_a_failed_change_leads_back_although_both_plugins_run() -> None:
    pool = a_pool(schedule="default")
    back = plan_of(_failed_on_its_way(), pool, PLUGIN, NVIDIA)
    assert isinstance(back.action, ApplyNode)
    rollback = a_pool(schedule="share", rollout={"on_failure": "Rollback"})
    assert plan_of(_failed_on_its_way(), rollback, PLUGIN, NVIDIA).reason is Reason.ROLLED_BACK
    held = plan_of(_failed_on_its_way(), rollback, PLUGIN, HAMI)
    assert (held.state, held.action) == (NodeState.FAILED, None)
    assert "rollback to default waits. Alibaba Cloud's device plugin" in held.message


@pytest.mark.parametrize(("pods", "counts"), [((PLUGIN,), True), ((PLUGIN, NVIDIA), False)])
def test_a_member_that_two_stacks_serve_leaves_the_capacity_of_its_pool(
    pods: tuple[Pod, ...], counts: bool
) -> None:
    node = _settled(**{WHOLE: 1})
    seen = NodeSnapshot(node, pods, parse_records(node))
    measured = Task(NodeContext(seen, is_busy=False), is_member=True).measure(
        plan_of(node, SHARE_POOL, *pods), SHARE_POOL
    )
    assert (measured != NodeCapacity()) is counts
