"""Which taints take the room of a node away."""

from dataclasses import replace

import pytest

from gpushare.api.k8s.pod import Pod
from gpushare.api.k8s.taint import Taint
from gpushare.core.capacity.memory_sums import MemorySums
from gpushare.core.capacity.node_capacity import NodeCapacity, observe_node_capacity
from gpushare.core.capacity.pool_capacity import sum_capacity
from gpushare.core.capacity.taints import list_untolerated, read_tolerations
from gpushare.core.planner.planner import Planner
from gpushare.core.snapshot.node import Timing
from tests.kit.values.objects import MEMORY, NOW, a_gpu_pod, a_node, a_pool, a_snapshot

AUTOSCALER = Taint("ToBeDeletedByClusterAutoscaler", value="1764300000")
TEAM = Taint("team", value="vision")


def node(*pods: Pod, taints: tuple[Taint, ...] = (), cards: int = 1) -> NodeCapacity:
    """A node with cards of 15 GiB."""
    offering = a_node(taints=taints, allocatable={MEMORY: 15 * cards}, gpu_count=cards)
    return observe_node_capacity(offering, pods)


def blocks(*nodes: NodeCapacity) -> list[int]:
    """The free memory of each card, in the status; the metrics are equal."""
    capacity, sums = sum_capacity(nodes, (), NOW), MemorySums()
    for each in nodes:
        sums.count(each)
    assert sums.sum_up(NOW).largest_free == capacity.largest_free
    return [block.size for block in capacity.free_blocks for _ in range(block.cards)]


def test_a_tainted_node_has_no_room_and_keeps_its_total() -> None:
    nodes = node(), node(a_gpu_pod(cards={0: 4}), taints=(AUTOSCALER,))
    assert blocks(*nodes) == [15]
    capacity = sum_capacity(nodes, (), NOW)
    assert (capacity.memory_total, capacity.memory_allocated) == (30, 4)


def test_a_taint_of_all_nodes_of_a_pool_takes_no_room_away_from_it_though_no_pod_runs() -> None:
    assert blocks(node(taints=(TEAM,)), node(taints=(TEAM,))) == [15, 15]


def test_an_autoscalers_taint_does_though_all_nodes_of_a_pool_have_it() -> None:
    assert blocks(*[node(taints=(AUTOSCALER,))] * 2) == []


def test_a_taint_of_a_single_node_is_not_taken_for_its_pools_own() -> None:
    assert blocks(node(taints=(TEAM,))) == []


def test_a_second_taint_of_one_node_does() -> None:
    assert blocks(node(taints=(TEAM,)), node(taints=(Taint("team", value="audio"), TEAM))) == [15]


def test_taints_of_another_value_or_effect_are_not_the_same() -> None:
    for other in (replace(TEAM, value="audio"), replace(TEAM, effect="NoExecute")):
        assert blocks(node(taints=(TEAM,)), node(taints=(other,))) == []


def test_a_node_whose_cards_are_not_known_says_nothing_about_the_taint_of_the_others() -> None:
    assert blocks(NodeCapacity(), *[node(taints=(TEAM,))] * 2) == [15, 15]


@pytest.mark.parametrize("key", ["nvidia.com/gpu", "aliyun.com/gpu-mem"])
def test_a_taint_by_the_name_of_a_gpu_resource_is_meant_for_other_pods(key: str) -> None:
    assert blocks(node(taints=(Taint(key, value="present"),)), node()) == [15, 15]


def test_what_the_pool_adds_to_its_pods_is_tolerated() -> None:
    pool = a_pool(workloads={"tolerations": [{"key": "team", "value": "vision"}]})
    assert list_untolerated((TEAM, AUTOSCALER), read_tolerations(pool)) == (AUTOSCALER,)
    assert list_untolerated((TEAM,), read_tolerations(a_pool())) == (TEAM,)
    assert read_tolerations(None) == ()


def test_a_taint_is_decided_about_when_it_comes() -> None:
    planner, pool = Planner(Timing()), a_pool()
    clean, other = (a_node(n, allocatable={MEMORY: 15}, gpu_count=1) for n in ("gpu-1", "gpu-2"))
    tainted = replace(clean, taints=(TEAM,))
    planner.update(a_snapshot(pools=(pool,), nodes=(clean, other)), None, NOW)
    assert planner.is_relevant(clean, tainted)
    planner.update(a_snapshot(pools=(pool,), nodes=(tainted, other)), {tainted.name}, NOW)
    assert blocks(*planner.plans_by_pool[pool.name].capacities.values()) == [15]
