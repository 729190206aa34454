"""Pods that keep a former mode's isolation: reported, or asked to go in their node's turn."""

from dataclasses import replace
from typing import Any

import pytest

from gpushare.api.node import Node
from gpushare.api.pod import Pod, SharingContainer
from gpushare.api.pool import Edition, Pool, Schedule
from gpushare.core.actions import EvictedPod, EvictPods, NodeState
from gpushare.core.modes import MODES
from gpushare.core.observed import Timing
from gpushare.core.plan import Planner
from gpushare.core.status import build_status
from gpushare.names import Condition, Reason
from tests.kit.values.node_plans import OURS, applied, expect_idle, plan_of
from tests.kit.values.objects import MEMORY, NOW, a_gpu_pod, a_node, a_plugin_pod, a_pool, a_world

REPORT = a_pool(schedule="share", edition="Basic")
EVICT = a_pool(schedule="share", edition="Basic", rollout={"stale_workloads": "Evict"})
PARTS = (a_plugin_pod(), a_plugin_pod("installer", daemonset="cgpu-installer"))
TRAIN = EvictedPod("default", "train-1", "uid-of-train-1")


def a_flipped(name: str = "gpu-1", *stale: str, **more: Any) -> Node:
    """A node that went from cgpu to share while these pods ran."""
    known = dict.fromkeys(stale or ("uid-of-train-1",), "cgpu")
    values = {"before": tuple(known), "admitted": known, **more}
    records = applied("share", edition=Edition.BASIC, **values)
    labels = {**MODES[Edition.BASIC, Schedule.SHARE].labels, **OURS}
    return a_node(name, labels, records=records, allocatable={MEMORY: 15}, gpu_count=1)


def a_train(name: str = "train-1", **more: Any) -> Pod:
    return a_gpu_pod(name, containers=(SharingContainer("main"),), **more)


@pytest.mark.parametrize(
    ("pool", "pod"),
    [(REPORT, a_train()), (EVICT, a_train(is_evictable=False))],
    ids=["by default", "it would come back at once"],
)
def test_they_are_only_reported(pool: Pool, pod: Pod) -> None:
    plan = plan_of(a_flipped(), pool, *PARTS, pod, may_evict=True)
    assert (plan.state, plan.action) == (NodeState.READY, None)


def test_they_are_evicted_where_the_pool_says_so() -> None:
    plan = plan_of(a_flipped(), EVICT, *PARTS, a_train(), a_train("new"), may_evict=True)
    assert (plan.state, plan.reason) == (NodeState.UPDATING, Reason.STALE_ISOLATION)
    assert plan.action == EvictPods("gpu-1", (TRAIN,))


@pytest.mark.parametrize(
    ("given", "state", "reason"),
    [
        ({}, NodeState.BLOCKED, Reason.EVICTION_DISABLED),
        (
            {"may_evict": True, "slot_free": False},
            NodeState.WAITING,
            Reason.WAITING_FOR_BUDGET,
        ),
    ],
    ids=["not allowed", "not its turn"],
)
def test_nobody_is_evicted_where_that_is_not_allowed_or_not_the_nodes_turn(
    given: dict[str, Any], state: NodeState, reason: Reason
) -> None:
    plan = expect_idle(plan_of(a_flipped(), EVICT, *PARTS, a_train(), **given), state, reason)
    assert given or "eviction.enabled" in plan.message


def test_until_they_are_gone_the_node_is_in_its_turn_and_they_are_not_asked_again() -> None:
    plan = plan_of(a_flipped(), EVICT, *PARTS, a_train(deleting=True), may_evict=True)
    expect_idle(plan, NodeState.UPDATING, Reason.STALE_ISOLATION)
    assert plan.takes_slot


def test_pods_of_which_nothing_is_known_stay() -> None:
    node = a_flipped(admitted=None)
    assert plan_of(node, EVICT, *PARTS, a_train(), may_evict=True).state is NodeState.READY


@pytest.mark.parametrize("is_going", [False, True])
def test_one_node_after_the_other(is_going: bool) -> None:
    nodes = tuple(a_flipped(f"gpu-{n}", f"uid-of-train-{n}") for n in (1, 2))
    first = a_train("train-1", node="gpu-1", deleting=is_going)
    parts = tuple(replace(part, node=node.name) for node in nodes for part in PARTS)
    pods = (*parts, first, a_train("train-2", node="gpu-2"))
    planner = Planner(Timing(), may_evict=True)
    planner.update(a_world(pools=(EVICT,), nodes=nodes, pods=pods), None, NOW)
    plans = planner.books["training"].plans
    assert plans["gpu-1"].reason is Reason.STALE_ISOLATION
    assert plans["gpu-2"].reason is Reason.WAITING_FOR_BUDGET


def test_the_condition_names_the_first_and_says_what_helps() -> None:
    world = a_world(pools=(REPORT,), nodes=(a_flipped(),), pods=(*PARTS, a_train()))
    planner = Planner(Timing())
    planner.update(world, None, NOW)
    status = build_status(REPORT, planner.books["training"], NOW)
    (condition,) = (c for c in status.conditions if c.type == Condition.ISOLATION_CONSISTENT)
    assert (condition.status, condition.reason) == ("False", Reason.STALE_ISOLATION)
    for part in ("default/train-1", "gpu-1 is isolated", "under cgpu", "staleWorkloads"):
        assert part in condition.message
    assert status.isolation is not None
    assert (status.isolation.containers, status.isolation.stale) == (1, 1)
    (sample,) = status.isolation.samples
    assert (sample.node, sample.pod, sample.admitted) == ("gpu-1", "default/train-1", "cgpu")
