"""What a pool offers, and what of it is given out."""

from dataclasses import replace
from typing import Any

import pytest

from gpushare import names
from gpushare.api.k8s.node import MAX_CARDS, Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.status import FreeBlock, PoolCapacity
from gpushare.core.capacity.cards import MAX_CGPU_PODS
from gpushare.core.capacity.memory_sums import MAX_FIGURE
from gpushare.core.capacity.node_capacity import NodeCapacity, observe_node_capacity
from gpushare.core.capacity.pool_capacity import MAX_FREE_BLOCKS, sum_capacity
from tests.kit.values.objects import MEMORY, NOW, a_gpu_pod, a_node


def _node(cards: int = 2, card_memory: int = 15, **more: Any) -> Node:
    allocatable = {MEMORY: cards * card_memory}
    return a_node(allocatable=allocatable, gpu_count=cards, **more)


def _holder(cards: dict[int, int], asks: int | None = None, **more: Any) -> Pod:
    requests = {MEMORY: sum(cards.values()) if asks is None else asks}
    return a_gpu_pod(requests=requests, cards=cards, **more)


def _sum(*nodes: Node, pods: tuple[Pod, ...] = (), pending: tuple[Pod, ...] = ()) -> PoolCapacity:
    observed = [observe_node_capacity(nodes[0], pods)]
    observed += [observe_node_capacity(node, ()) for node in nodes[1:]]
    return sum_capacity(observed, pending, NOW)


def test_what_pods_hold_is_counted_card_by_card() -> None:
    pods = [_holder({0: 4}), _holder({0: 3, 1: 3}), _holder({1: 1})]
    assert observe_node_capacity(_node(), pods) == NodeCapacity(
        gpus=2,
        total=30,
        allocated=11,
        requested=11,
        free_blocks=(8, 11),
        requests=(4, 6, 1),
        used={0: 7, 1: 4},
        card_total=15,
    )


@pytest.mark.parametrize(
    ("pods", "allocated", "requested", "free"),
    [
        ([_holder({}, asks=4)], 0, 4, (15, 11)),
        ([_holder({0: 4}, deleting=True)], 4, 4, (11, 15)),
        ([_holder({0: 4}, phase="Succeeded"), _holder({0: 4}, phase="Failed")], 0, 0, (15, 15)),
        ([_holder({0: 10}), _holder({0: 8})], 18, 18, (0, 12)),
        ([_holder({7: 5})], 0, 5, (15, 10)),
    ],
    ids=["not in the ledger", "deleted", "ended", "given out twice", "of no such card"],
)
def test_what_is_free_is_what_ledger_and_kube_scheduler_leave(
    pods: list[Pod], allocated: int, requested: int, free: tuple[int, ...]
) -> None:
    capacity = observe_node_capacity(_node(), pods)
    assert (capacity.allocated, capacity.requested) == (allocated, requested)
    assert capacity.free_blocks == free


def test_a_healthy_card_keeps_its_memory_where_another_is_unhealthy() -> None:
    node = _node(capacity={MEMORY: 30}, card_memory=15)
    half = replace(node, allocatable={MEMORY: 15})
    capacity = observe_node_capacity(half, [], {1})
    assert (capacity.card_total, capacity.free_blocks) == (15, (15, 0))
    # Which one it is, nobody says: one pod gets 15, two do not.
    assert observe_node_capacity(half, []).free_blocks == (15, 0)


def test_an_unhealthy_card_that_the_plugin_still_offers_is_not_free() -> None:
    capacity = observe_node_capacity(_node(capacity={MEMORY: 30}), [_holder({0: 4})], {0})
    assert (capacity.total, capacity.allocated, capacity.free_blocks) == (30, 4, (0, 15))


def test_where_kube_scheduler_counts_a_sidecar_too_the_smaller_room_is_free() -> None:
    pods = [_holder({0: 2}, asks=5, card_memory=2) for _ in range(3)]
    node = _node(1, labels={names.LABEL_GPUSHARE: "true"})
    capacity = observe_node_capacity(node, pods)
    assert (capacity.allocated, capacity.requested, capacity.requests) == (6, 15, (2, 2, 2))
    assert capacity.is_extended
    assert capacity.free_blocks == (0,)


def test_a_card_under_cgpu_with_twenty_pods_takes_no_more() -> None:
    pods = [_holder({0: 1, 1: 0}) for _ in range(MAX_CGPU_PODS)] + [_holder({1: 1})] * 3
    for labels in ({"ack.node.gpu.schedule": "cgpu"}, {"cgpu": "true"}):
        capacity = observe_node_capacity(_node(2, 80, labels=labels), pods)
        assert (capacity.free_blocks, capacity.free_pods) == ((0, 77), 17)
        assert _sum(_node(2, 80, labels=labels), pods=tuple(pods)).free_pods == 17
    for labels in ({"ack.node.gpu.schedule": "share"}, {"ack.node.gpu.schedule": "mps"}, {}):
        capacity = observe_node_capacity(_node(2, 80, labels=labels), pods)
        assert (capacity.free_blocks, capacity.free_pods) == ((60, 77), None)


def test_pods_are_not_limited_in_a_pool_where_one_node_does_not_limit_them() -> None:
    isolated = _node(labels={"ack.node.gpu.schedule": "cgpu"})
    assert _sum(isolated).free_pods == 2 * MAX_CGPU_PODS
    assert _sum(isolated, _node()).free_pods is None
    assert _sum(isolated, _node(ready=False)).free_pods == 2 * MAX_CGPU_PODS


def test_a_node_that_takes_no_pods_has_no_free_block_but_keeps_its_total() -> None:
    for node in (_node(ready=False), _node(unschedulable=True)):
        capacity = observe_node_capacity(node, [_holder({0: 4})])
        assert (capacity.total, capacity.allocated, capacity.free_blocks) == (30, 4, ())


@pytest.mark.parametrize(
    ("allocatable", "gpus", "capacity"),
    [
        (
            {names.RESOURCE_WHOLE_GPU: 8, MEMORY: 0},
            2,
            NodeCapacity(gpus=8, gpu_resources=(names.RESOURCE_WHOLE_GPU,)),
        ),
        ({names.RESOURCE_TOPOLOGY_GPU: 8, MEMORY: 0}, 2, NodeCapacity(gpus=8)),
        ({}, 2, NodeCapacity(gpus=2)),
        ({MEMORY: 15}, 0, NodeCapacity(gpus=0, total=15)),
    ],
    ids=["whole cards", "topology", "nobody offers them", "the plugin counts none"],
)
def test_cards_are_counted_by_who_offers_them(
    allocatable: dict[str, int], gpus: int, capacity: NodeCapacity
) -> None:
    assert observe_node_capacity(a_node(allocatable=allocatable, gpu_count=gpus), []) == capacity


def test_while_the_plugin_is_away_a_node_has_its_cards_and_no_memory() -> None:
    node = a_node(allocatable={MEMORY: 0}, gpu_count=2)
    assert observe_node_capacity(node, [_holder({0: 4})]) == NodeCapacity(
        gpus=2, total=0, allocated=4, requested=4, requests=(4,), used={0: 4}
    )


def test_a_number_of_cards_that_can_not_be_costs_nothing() -> None:
    node = a_node(allocatable={MEMORY: 10**12}, gpu_count=10**9)
    assert len(observe_node_capacity(node, []).free_blocks) == MAX_CARDS


def test_cards_with_equal_room_are_counted_together_and_full_ones_not() -> None:
    pods = (_holder({0: 4}), _holder({1: 4}), _holder({2: 15}))
    blocks = _sum(_node(4, 15), pods=pods).free_blocks
    assert [(block.size, block.cards) for block in blocks] == [(15, 1), (11, 2)]


def test_of_many_amounts_those_between_are_rounded_down() -> None:
    pods = tuple(_holder({card: card}) for card in range(40))
    found = _sum(_node(40, 60), pods=pods).free_blocks
    blocks = [(block.size, block.cards) for block in found]
    assert len(blocks) == MAX_FREE_BLOCKS
    assert (blocks[0], blocks[-1][0]) == ((60, 1), 21)
    assert sum(cards for _, cards in blocks) == 40
    free = sum(range(21, 61))
    assert 0.9 * free < sum(size * cards for size, cards in blocks) <= free


@pytest.mark.parametrize(
    ("pods", "pending", "stranded"),
    [
        ([], [], 0),
        ([_holder({0: 10}), _holder({1: 3})], [], 0),
        ([_holder({0: 10}), _holder({1: 3})], [5], 0),
        ([_holder({0: 10}), _holder({1: 3})], [6], 5),
        ([_holder({0: 6, 1: 6}, card_count=2)], [], 0),
    ],
    ids=["nobody asks", "they fit", "one more fits", "one is too large", "on several cards"],
)
def test_memory_is_stranded_on_cards_that_the_median_pod_does_not_fit(
    pods: list[Pod], pending: list[int], stranded: int
) -> None:
    waiting = tuple(a_gpu_pod(node="", requests={MEMORY: asks}) for asks in pending)
    assert _sum(_node(), pods=tuple(pods), pending=waiting).stranded_memory == stranded


def test_cards_of_a_thousand_and_more_are_counted_in_mib_and_rounded_down() -> None:
    waiting = a_gpu_pod(node="", requests={MEMORY: 16_100})
    capacity = _sum(_node(2, 16_130), pods=(_holder({0: 4000}),), pending=(waiting, waiting))
    assert capacity == PoolCapacity(
        summary="3/31",
        observed_at=NOW,
        gpus=2,
        memory_total=31,
        memory_allocated=3,
        memory_requested=35,
        largest_free_block=15,
        stranded_memory=11,
        unit="MiB",
        largest_card=16_130,
        free_blocks=(FreeBlock(size=16_130, cards=1), FreeBlock(size=12_130, cards=1)),
    )


def test_the_largest_card_is_not_known_while_a_node_offers_no_memory() -> None:
    away = a_node(allocatable={MEMORY: 0}, gpu_count=2)
    assert _sum(_node()).largest_card == 15
    assert _sum(_node(), away).largest_card == 0


def test_a_request_beyond_all_bounds_still_fits_the_status() -> None:
    greedy = a_gpu_pod(node="", requests={MEMORY: 2**63 - 1})
    assert sum_capacity([], [greedy] * 3, NOW).memory_requested == MAX_FIGURE
    assert sum_capacity([], (), NOW) == PoolCapacity(summary="0/0", observed_at=NOW)
