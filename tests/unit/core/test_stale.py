"""Pods that keep a former mode's isolation: reported, or asked to go in their node's turn."""

from dataclasses import replace
from typing import Any

from gpushare.api.node import Node
from gpushare.api.pod import Pod, SharingContainer
from gpushare.api.pool import Edition, Schedule
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


def a_flipped(name: str = "gpu-1", *stale: str) -> Node:
    """A node that went from cgpu to share while these pods ran."""
    known = dict.fromkeys(stale or ("uid-of-train-1",), "cgpu")
    records = applied("share", edition=Edition.BASIC, before=tuple(known), admitted=known)
    labels = {**MODES[Edition.BASIC, Schedule.SHARE].labels, **OURS}
    return a_node(name, labels, records=records, allocatable={MEMORY: 15}, gpu_count=1)


def a_train(name: str = "train-1", **more: Any) -> Pod:
    return a_gpu_pod(name, containers=(SharingContainer("main"),), **more)


def test_by_default_they_are_left_alone() -> None:
    plan = plan_of(a_flipped(), REPORT, *PARTS, a_train(), may_evict=True)
    assert (plan.state, plan.action) == (NodeState.READY, None)


def test_they_are_evicted_where_the_pool_says_so() -> None:
    plan = plan_of(a_flipped(), EVICT, *PARTS, a_train(), a_train("new"), may_evict=True)
    assert (plan.state, plan.reason) == (NodeState.UPDATING, Reason.STALE_ISOLATION)
    assert plan.action == EvictPods("gpu-1", (TRAIN,))


def test_where_the_installation_does_not_allow_it_that_is_said() -> None:
    plan = plan_of(a_flipped(), EVICT, *PARTS, a_train())
    expect_idle(plan, NodeState.BLOCKED, Reason.EVICTION_DISABLED)
    assert "eviction.enabled" in plan.message


def test_a_node_waits_for_its_turn() -> None:
    plan = plan_of(a_flipped(), EVICT, *PARTS, a_train(), may_evict=True, slot_free=False)
    expect_idle(plan, NodeState.WAITING, Reason.WAITING_FOR_BUDGET)


def test_until_they_are_gone_the_node_is_in_its_turn_and_they_are_not_asked_again() -> None:
    plan = plan_of(a_flipped(), EVICT, *PARTS, a_train(deleting=True), may_evict=True)
    expect_idle(plan, NodeState.UPDATING, Reason.STALE_ISOLATION)
    assert plan.takes_slot


def test_what_would_come_back_at_once_is_only_reported() -> None:
    plan = plan_of(a_flipped(), EVICT, *PARTS, a_train(is_evictable=False), may_evict=True)
    assert plan.state is NodeState.READY


def test_pods_of_which_nothing_is_known_stay() -> None:
    records = applied("share", edition=Edition.BASIC, before=("uid-of-train-1",))
    labels = {**MODES[Edition.BASIC, Schedule.SHARE].labels, **OURS}
    node = a_node(labels=labels, records=records, allocatable={MEMORY: 15}, gpu_count=1)
    assert plan_of(node, EVICT, *PARTS, a_train(), may_evict=True).state is NodeState.READY


def test_one_node_after_the_other() -> None:
    def see(*, is_going: bool) -> Planner:
        nodes = tuple(a_flipped(f"gpu-{n}", f"uid-of-train-{n}") for n in (1, 2))
        trains = (
            a_train("train-1", node="gpu-1", deleting=is_going),
            a_train("train-2", node="gpu-2"),
        )
        parts = tuple(replace(part, node=node.name) for node in nodes for part in PARTS)
        world = a_world(pools=(EVICT,), nodes=nodes, pods=(*parts, *trains))
        planner = Planner(Timing(), may_evict=True)
        planner.update(world, None, NOW)
        return planner

    for is_going in (False, True):
        plans = see(is_going=is_going).books["training"].plans
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
