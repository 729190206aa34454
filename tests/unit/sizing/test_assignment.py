"""Which nodes pools with a size have: minima before more, owners first, and nothing to and fro."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.api.selector import PoolSize
from gpushare.core.sizing.assignment import ClaimedNode, NodeAssignment, SizedPool, assign_nodes
from tests.kit.values.objects import NOW


def a_claimant(
    name: str, least: int = 0, most: int | None = None, *, priority: int = 100, age: int = 0
) -> SizedPool:
    """Build a pool with a size, created `age` seconds before the others."""
    size = PoolSize(min=least, max=most)
    return SizedPool(name, priority, NOW - timedelta(seconds=age), size)


def without_size(name: str, *, priority: int = 100) -> SizedPool:
    return SizedPool(name, priority, NOW, None)


def owned(pool: str, *names: str, by: str = "a b", **more: Any) -> list[ClaimedNode]:
    """Build idle nodes of `pool` that the pools `by` claim."""
    values = {"idle_since": NOW, **more}
    return [ClaimedNode(name, pool, frozenset(by.split()), **values) for name in names]


def count(found: NodeAssignment) -> Mapping[str, int]:
    return Counter(pool for pool in found.pools.values() if pool)


def move(nodes: list[ClaimedNode], found: NodeAssignment) -> list[ClaimedNode]:
    """Return the nodes once each is where it is assigned to."""
    return [replace(node, pool=found.pools[node.name]) for node in nodes]


def test_nodes_that_no_pool_has_go_to_minima_first_and_then_by_priority() -> None:
    pools = [a_claimant("a", 0, 4, priority=200), a_claimant("b", 2, 4)]
    assert count(assign_nodes(owned("", *"12345"), pools)) == {"a": 3, "b": 2}


def test_of_more_than_its_maximum_nodes_without_pods_leave_first_the_last_by_name() -> None:
    nodes = [*owned("a", "1", "2", "3"), *owned("a", "4", idle_since=None)]
    found = assign_nodes(nodes, [a_claimant("a", 0, 2), a_claimant("b", 0, 0)])
    assert found.pools == {"1": "a", "2": "", "3": "", "4": "a"}


def test_a_minimum_takes_an_idle_node_of_a_pool_that_has_more_than_its_own() -> None:
    nodes = [*owned("a", "1", idle_since=None), *owned("a", "2", "3")]
    found = assign_nodes(nodes, [a_claimant("a", 1), a_claimant("b", 1)])
    assert found.pools == {"1": "a", "2": "b", "3": "a"}


def test_a_minimum_takes_no_node_from_another_minimum_and_says_who_has_them() -> None:
    nodes = owned("a", "1", "2")
    found = assign_nodes(nodes, [a_claimant("a", 2), a_claimant("b", 1, priority=900)])
    assert found.pools == {"1": "a", "2": "a"}
    assert found.short == {"b": ("a",)}


def test_a_pool_without_a_size_loses_a_node_to_a_higher_priority_only() -> None:
    nodes = owned("b", "1", "2")
    assert count(assign_nodes(nodes, [a_claimant("a", 1), without_size("b")])) == {"b": 2}
    higher = assign_nodes(nodes, [a_claimant("a", 1, 1, priority=101), without_size("b")])
    assert count(higher) == {"a": 1, "b": 1}


def test_beyond_its_minimum_a_pool_takes_nodes_from_lower_priorities_down_to_their_minimum() -> (
    None
):
    nodes = owned("b", *"1234")
    pools = [a_claimant("a", 0, 4, priority=200), a_claimant("b", 1, 4)]
    assert count(assign_nodes(nodes, pools)) == {"a": 3, "b": 1}


def test_a_node_whose_change_failed_stays_where_it_is() -> None:
    nodes = owned("a", "1", "2", has_failed=True)
    found = assign_nodes(nodes, [a_claimant("a", 0, 1), a_claimant("b", 2)])
    assert found.pools == {"1": "a", "2": "a"}


def test_pools_with_demand_take_only_free_nodes_beyond_their_minimum() -> None:
    elastic = replace(a_claimant("a", 0, 4, priority=200), is_elastic=True)
    nodes = [*owned("b", "1", "2"), *owned("", "3")]
    assert assign_nodes(nodes, [elastic, a_claimant("b")]).pools == {"1": "b", "2": "b", "3": "a"}
    lower = replace(a_claimant("a", 0, 4, priority=50), is_elastic=True)
    assert count(assign_nodes(owned("a", "1", "2"), [lower, a_claimant("b", 1)])) == {
        "a": 1,
        "b": 1,
    }


def test_a_minimum_takes_no_node_that_only_a_user_can_change() -> None:
    nodes = owned("a", "1", "2", reachable=frozenset("a"))
    found = assign_nodes(nodes, [a_claimant("a", 0), a_claimant("b", 1)])
    assert (found.pools, found.short) == ({"1": "a", "2": "a"}, {"b": ("a",)})


@pytest.mark.parametrize("paused", ["a", "b"])
def test_a_paused_pool_takes_no_node_and_gives_none(paused: str) -> None:
    pools = [a_claimant("a", 0, 1), a_claimant("b", 1)]
    held = [replace(pool, acts=pool.name != paused) for pool in pools]
    found = assign_nodes(owned("a", "1", "2"), held)
    assert count(found) == ({"a": 2} if paused == "a" else {"a": 1})


def test_two_pools_whose_minima_exceed_the_nodes_move_none() -> None:
    nodes = [*owned("a", "1"), *owned("b", "2")]
    found = assign_nodes(nodes, [a_claimant("a", 2), a_claimant("b", 2)])
    assert found.pools == {"1": "a", "2": "b"}
    assert found.short == {"a": ("b",), "b": ("a",)}


_NAMES = "abcd"
_SIZES = st.one_of(
    st.none(),
    st.builds(
        lambda least, more: PoolSize(min=least, max=None if more is None else least + more),
        st.integers(0, 4),
        st.none() | st.integers(0, 4),
    ),
)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[ClaimedNode], list[SizedPool]]:
    """Draw nodes, of which each is claimed by some of the pools, and the pools."""
    pools = [
        SizedPool(name, draw(st.sampled_from((50, 100, 150))), NOW, size, is_elastic=is_elastic)
        for name in _NAMES
        for size in [draw(_SIZES)]
        for is_elastic in [size is not None and draw(st.booleans())]
    ]
    nodes = [
        ClaimedNode(
            f"n{number}",
            draw(st.sampled_from(("", *_NAMES))),
            frozenset(draw(st.sets(st.sampled_from(_NAMES), min_size=1))),
            idle_since=draw(st.sampled_from((None, NOW))),
            has_failed=draw(st.integers(0, 9)) == 0,
        )
        for number in range(draw(st.integers(0, 12)))
    ]
    return nodes, pools


@given(clusters())
def test_a_pool_has_at_most_its_maximum_and_equal_clusters_are_assigned_equally(
    cluster: tuple[list[ClaimedNode], list[SizedPool]],
) -> None:
    nodes, pools = cluster
    found = assign_nodes(nodes, pools)
    failed = Counter(node.pool for node in nodes if node.has_failed)
    for pool in pools:
        assert count(found).get(pool.name, 0) <= max(pool.most, failed[pool.name])
    assert all(found.pools[node.name] in {"", *node.claimants} for node in nodes)
    assert assign_nodes(nodes[::-1], pools[::-1]) == found


@given(clusters())
def test_what_is_assigned_stays_so_once_the_nodes_are_there(
    cluster: tuple[list[ClaimedNode], list[SizedPool]],
) -> None:
    nodes, pools = cluster
    found = assign_nodes(nodes, pools)
    assert assign_nodes(move(nodes, found), pools).pools == found.pools


@given(clusters())
def test_no_node_stays_without_a_pool_while_one_that_claims_it_wants_more(
    cluster: tuple[list[ClaimedNode], list[SizedPool]],
) -> None:
    nodes, pools = cluster
    found = assign_nodes(nodes, pools)
    wanting = {pool.name for pool in pools if count(found).get(pool.name, 0) < pool.most}
    left = [node for node in nodes if not found.pools[node.name] and node.claimants & wanting]
    assert left == []


@given(clusters())
def test_no_pool_falls_below_its_minimum_by_what_another_takes(
    cluster: tuple[list[ClaimedNode], list[SizedPool]],
) -> None:
    nodes, pools = cluster
    before = Counter(node.pool for node in nodes if node.pool in node.claimants)
    after = count(assign_nodes(nodes, pools))
    for pool in pools:
        assert after.get(pool.name, 0) >= min(before[pool.name], pool.fewest)


@given(clusters(), st.randoms(use_true_random=False))
def test_nodes_that_move_one_at_a_time_come_to_rest(
    cluster: tuple[list[ClaimedNode], list[SizedPool]], random: Random
) -> None:
    nodes, pools = cluster
    moves = Counter[str]()
    while True:
        found = assign_nodes(nodes, pools).pools
        left = [node for node in nodes if node.pool != found[node.name]]
        if not left:
            return
        moved = random.choice(left)
        moves[moved.name] += 1
        assert moves[moved.name] <= 2
        nodes = [replace(node, pool=found[node.name]) if node is moved else node for node in nodes]
