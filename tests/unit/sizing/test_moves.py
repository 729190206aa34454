"""Which idle node moves to a pool where pods wait."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.api.rollout import DemandMode, DemandPolicy
from gpushare.api.selector import PoolSize
from gpushare.core.sizing.assignment import ClaimedNode
from gpushare.core.sizing.moves import (
    NOT_ACCEPTED,
    ElasticPool,
    IdleNodeMove,
    WaitingPods,
    find_moves,
)
from tests.kit.values.objects import NOW

DEMAND = DemandPolicy(mode=DemandMode.AUTOMATIC, pending_for="2m", idle_for="10m")
LONG_AGO = NOW - timedelta(hours=1)


def waiting(minutes: float = 3, kind: bytes = b"8") -> WaitingPods:
    return WaitingPods(kind, "team/pod", NOW - timedelta(minutes=minutes))


def a_pool(name: str, *pods: WaitingPods, least: int = 0, **more: Any) -> ElasticPool:
    values = {"size": PoolSize(min=least), "demand": DEMAND, "waiting": pods, **more}
    return ElasticPool(name, **values)


def a_node(name: str, pool: str = "serve", **more: Any) -> ClaimedNode:
    values = {"claimants": frozenset({"train", "serve"}), "idle_since": LONG_AGO, **more}
    return ClaimedNode(name, pool, **values)


def find(
    pools: Collection[ElasticPool], nodes: Collection[ClaimedNode], now: datetime = NOW
) -> list[IdleNodeMove]:
    return find_moves(pools, nodes, lambda kind, node, pool: True, now)[0]


SERVE = a_pool("serve")
TRAIN = a_pool("train", waiting())


def test_an_idle_node_moves_to_the_pool_whose_pods_have_waited() -> None:
    (move,) = find([TRAIN, SERVE], [a_node("n1"), a_node("n0", "train", idle_since=None)])
    assert (move.node, move.source, move.target, move.waits_for) == ("n1", "serve", "train", "")


@pytest.mark.parametrize(
    ("pools", "node"),
    [
        ([a_pool("train", waiting(1)), SERVE], a_node("n1")),
        ([a_pool("train"), SERVE], a_node("n1")),
        ([a_pool("train", waiting(), size=PoolSize(max=0)), SERVE], a_node("n1")),
        ([TRAIN, a_pool("serve", least=1)], a_node("n1")),
        ([TRAIN, SERVE], a_node("n1", idle_since=None)),
        ([TRAIN, SERVE], a_node("n1", idle_since=NOW - timedelta(minutes=9))),
        ([TRAIN, SERVE], a_node("n1", may_move=False)),
        ([TRAIN, SERVE], a_node("n1", is_serving=False)),
        ([TRAIN, SERVE], a_node("n1", is_coming=True)),
        ([TRAIN, SERVE], a_node("n1", claimants=frozenset({"serve"}))),
        ([TRAIN], a_node("n1")),
    ],
    ids=[
        "the pods came a moment ago",
        "no pod waits",
        "the pool is at its maximum",
        "the other is at its minimum",
        "the node is busy",
        "it was busy a moment ago",
        "somebody works on it",
        "its pool has no node in service to spare",
        "it has not arrived yet",
        "the pool does not match it",
        "the other pool is not elastic",
    ],
)
def test_nothing_moves_if(pools: list[ElasticPool], node: ClaimedNode) -> None:
    assert find(pools, [node]) == []


@pytest.mark.parametrize(
    "other",
    [
        a_node("n2", "train", is_coming=True, idle_since=None),
        a_node("n2", "other", is_coming=True, source="serve"),
        a_node("n2", "train"),
    ],
    ids=["one is on its way", "one leaves the same pool", "one that has come is still idle"],
)
def test_no_second_node_moves_while(other: ClaimedNode) -> None:
    assert find([TRAIN, SERVE], [a_node("n1"), other]) == []


def test_a_pod_that_no_node_would_run_does_not_keep_its_pool_from_giving_nodes() -> None:
    hopeless = a_pool("serve", waiting(kind=b"huge"))
    moves, _ = find_moves([TRAIN, hopeless], [a_node("n1")], lambda kind, *_: kind != b"huge", NOW)
    assert [move.target for move in moves] == ["train"]


def test_a_node_on_which_no_waiting_pod_would_run_stays() -> None:
    nodes = [a_node("n1"), a_node("n2")]
    moves, _ = find_moves([TRAIN, SERVE], nodes, lambda kind, node, pool: node == "n2", NOW)
    assert [move.node for move in moves] == ["n2"]


def test_no_node_leaves_a_pool_for_which_pods_wait_that_another_node_would_run() -> None:
    pools = [TRAIN, a_pool("serve", waiting(0, b"big"))]
    nodes = [a_node("n1"), a_node("n0", "train", idle_since=None)]
    moves, _ = find_moves(pools, nodes, lambda kind, node, _: (kind, node) != (b"big", "n1"), NOW)
    assert moves == []


def test_of_several_nodes_the_one_that_was_idle_longest_moves() -> None:
    older = a_node("n2", idle_since=LONG_AGO - timedelta(hours=1))
    assert [move.node for move in find([TRAIN, SERVE], [a_node("n1"), older])] == ["n2"]


def test_the_pool_whose_pod_waits_longest_is_asked_first_and_each_pool_moves_one() -> None:
    pools = [a_pool("a", waiting(5)), a_pool("b", waiting(9)), a_pool("c")]
    claimants = frozenset("abc")
    nodes = [a_node(f"n{n}", "c", claimants=claimants) for n in range(3)]
    assert [(move.node, move.target) for move in find(pools, nodes)] == [("n0", "b")]


@pytest.mark.parametrize("recommends", ["train", "serve"])
def test_with_recommend_on_either_side_a_user_accepts_the_move(recommends: str) -> None:
    recommend = DemandPolicy(mode=DemandMode.RECOMMEND, pending_for="2m", idle_for="10m")
    pools = [replace(p, demand=recommend) if p.name == recommends else p for p in (TRAIN, SERVE)]
    (move,) = find(pools, [a_node("n1")])
    assert move.waits_for == NOT_ACCEPTED
    accepted = [replace(pools[0], accepted=move.hash), pools[1]]
    assert find(accepted, [a_node("n1")])[0].waits_for == ""
    assert find(accepted, [a_node("n2")])[0].waits_for == NOT_ACCEPTED


def test_a_pool_whose_changes_may_not_begin_only_shows_the_move() -> None:
    (move,) = find([TRAIN, replace(SERVE, refusal="frozen")], [a_node("n1")])
    assert move.waits_for == "frozen"


def test_the_time_to_look_again_is_when_a_pod_or_a_node_has_waited_long_enough() -> None:
    pools = [a_pool("train", waiting(1)), SERVE]
    node = a_node("n1", idle_since=NOW - timedelta(minutes=6))
    assert find_moves(pools, [node], lambda *_: True, NOW)[1] == NOW + timedelta(minutes=1)
    later = NOW + timedelta(minutes=1)
    assert find_moves(pools, [node], lambda *_: True, later)[1] == NOW + timedelta(minutes=4)
    assert find_moves([SERVE], [node], lambda *_: True, NOW)[1] is None


_POOLS = ("a", "b", "c")


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[ElasticPool], list[ClaimedNode]]:
    """Draw elastic pools with waiting pods, and their nodes."""
    pools = [
        a_pool(
            name,
            *(waiting(draw(st.integers(0, 5))) for _ in range(draw(st.integers(0, 2)))),
            size=PoolSize(min=draw(st.integers(0, 2)), max=draw(st.none() | st.integers(2, 5))),
        )
        for name in _POOLS
    ]
    nodes = [
        a_node(
            f"n{number}",
            draw(st.sampled_from(_POOLS)),
            claimants=frozenset(draw(st.sets(st.sampled_from(_POOLS), min_size=1))),
            idle_since=draw(st.sampled_from((None, LONG_AGO, NOW))),
            may_move=draw(st.booleans()),
            is_coming=draw(st.integers(0, 5)) == 0,
        )
        for number in range(draw(st.integers(0, 8)))
    ]
    return pools, nodes


@given(clusters())
def test_moves_keep_sizes_and_touch_no_node_with_pods(
    cluster: tuple[list[ElasticPool], list[ClaimedNode]],
) -> None:
    pools, nodes = cluster
    moves = find(pools, nodes)
    assert moves == find(pools[::-1], nodes[::-1])
    by_node = {node.name: node for node in nodes}
    after = {node.name: node.pool for node in nodes} | {m.node: m.target for m in moves}
    for move in moves:
        node = by_node[move.node]
        assert node.idle_since is not None
        assert node.may_move
        assert move.target in node.claimants
    for pool in pools:
        before = sum(node.pool == pool.name for node in nodes)
        count = sum(name == pool.name for name in after.values())
        assert count >= min(before, pool.size.min)
        assert count <= max(before, before if pool.size.max is None else pool.size.max) or (
            pool.size.max is None and count == before + 1
        )
    touched = [name for move in moves for name in (move.source, move.target)]
    assert len(touched) == len(set(touched))


@given(clusters(), st.integers(1, 3))
def test_constant_demand_moves_each_node_once_at_most(
    cluster: tuple[list[ElasticPool], list[ClaimedNode]], minutes: int
) -> None:
    pools, nodes = cluster
    moved: list[str] = []
    now = NOW
    for _ in range(40):
        now += timedelta(minutes=minutes)
        for move in find(pools, nodes, now):
            moved.append(move.node)
            # The pods that wait run there, and more come.
            nodes = [
                replace(node, pool=move.target, idle_since=None) if node.name == move.node else node
                for node in nodes
            ]
    assert len(moved) == len(set(moved))
