"""Which taints take the room of a node away."""

from typing import Any

import pytest

from gpushare.api.k8s.pod import Pod
from gpushare.api.k8s.taint import Taint, Toleration
from gpushare.core.capacity.memory_sums import MemorySums
from gpushare.core.capacity.node_capacity import NodeCapacity, observe_node_capacity
from gpushare.core.capacity.pool_capacity import sum_capacity
from gpushare.core.capacity.taints import list_untolerated, read_tolerations
from gpushare.core.planner.planner import Planner
from gpushare.core.snapshot.node import Timing
from tests.kit.values.objects import MEMORY, NOW, a_gpu_pod, a_node, a_pool, a_snapshot

AUTOSCALER = Taint("ToBeDeletedByClusterAutoscaler", value="1764300000")
TEAM = Taint("team", value="vision")
BY_TEAM = (Toleration("team", value="vision"),)
ANY = (Toleration(operator="Exists"),)


def node(*pods: Pod, taints: tuple[Taint, ...] = (), cards: int = 1) -> NodeCapacity:
    """A node with cards of 15 GiB."""
    offering = a_node(taints=taints, allocatable={MEMORY: 15 * cards}, gpu_count=cards)
    return observe_node_capacity(offering, pods)


def holder(units: int, tolerations: Any = ()) -> Pod:
    return a_gpu_pod(requests={MEMORY: units}, cards={0: units}, tolerations=tolerations)


def blocks(*nodes: NodeCapacity) -> list[int]:
    """The free memory of each card, in the status; the metrics are equal."""
    capacity, sums = sum_capacity(nodes, (), NOW), MemorySums()
    for each in nodes:
        sums.count(each)
    assert sums.sum_up(NOW).largest_free == capacity.largest_free
    return [block.size for block in capacity.free_blocks for _ in range(block.cards)]


def test_a_tainted_node_has_no_room_and_keeps_its_total() -> None:
    nodes = node(), node(holder(4), taints=(AUTOSCALER,))
    assert blocks(*nodes) == [15]
    capacity = sum_capacity(nodes, (), NOW)
    assert (capacity.memory_total, capacity.memory_allocated) == (30, 4)


def test_a_node_that_is_idle_and_tainted_has_no_room() -> None:
    assert blocks(node(taints=(AUTOSCALER,))) == []


def test_a_taint_of_the_whole_pool_that_its_pods_tolerate_takes_no_room_away() -> None:
    nodes = [node(holder(4, BY_TEAM), taints=(TEAM,)), node(taints=(TEAM,))]
    assert blocks(*nodes) == [15, 11]


def test_a_second_taint_that_nobody_tolerates_does() -> None:
    nodes = [node(holder(4, BY_TEAM), taints=(TEAM,)), node(taints=(TEAM, AUTOSCALER))]
    assert blocks(*nodes) == [11]


def test_one_pod_that_tolerates_everything_makes_no_room_on_a_broken_node() -> None:
    broken = node(holder(2, ANY), taints=(AUTOSCALER,))
    assert blocks(broken, node(holder(4))) == [11]


def test_one_pod_that_tolerates_nothing_takes_no_room_of_the_others_away() -> None:
    by_node_name = node(holder(1), taints=(TEAM,))
    assert blocks(by_node_name, node(holder(4, BY_TEAM), taints=(TEAM,))) == [14, 11]


def test_what_pods_of_half_the_memory_tolerate_is_not_tolerated() -> None:
    nodes = node(holder(4, BY_TEAM), taints=(TEAM,)), node(holder(4))
    assert blocks(*nodes) == [11]


@pytest.mark.parametrize("key", ["nvidia.com/gpu", "aliyun.com/gpu-mem"])
def test_a_taint_by_the_name_of_a_gpu_resource_is_meant_for_other_pods(key: str) -> None:
    assert blocks(node(taints=(Taint(key, value="present"),))) == [15]


def test_what_the_pool_adds_to_its_pods_is_tolerated() -> None:
    pool = a_pool(workloads={"tolerations": [{"key": "team", "value": "vision"}]})
    assert list_untolerated((TEAM, AUTOSCALER), read_tolerations(pool)) == (AUTOSCALER,)
    assert list_untolerated((TEAM,), read_tolerations(a_pool())) == (TEAM,)
    assert read_tolerations(None) == ()


def test_a_taint_is_decided_about_when_it_comes() -> None:
    planner, pool = Planner(Timing()), a_pool()
    clean = a_node(allocatable={MEMORY: 15}, gpu_count=1)
    tainted = a_node(allocatable={MEMORY: 15}, gpu_count=1, taints=(TEAM,))
    planner.update(a_snapshot(pools=(pool,), nodes=(clean,)), None, NOW)
    assert planner.is_relevant(clean, tainted)
    planner.update(a_snapshot(pools=(pool,), nodes=(tainted,)), {tainted.name}, NOW)
    assert blocks(*planner.pool_states[pool.name].capacities.values()) == []
