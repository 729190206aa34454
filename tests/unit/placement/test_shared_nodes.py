"""Which nodes can be divided over pools by hand, and which of them move."""

from itertools import product
from typing import Any

import pytest

from gpushare import names
from gpushare.analysis.placement.cluster import find_members
from gpushare.analysis.placement.search import SplitSearch
from gpushare.analysis.placement.shared_nodes import (
    MOST_POOLS,
    SharedNodes,
    divide,
    find_shared_nodes,
)
from gpushare.analysis.placement.split import plan_move
from gpushare.analysis.placement.what_if import Observed
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Pool
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.settings import Settings
from tests.kit.values.objects import NOW, a_gpu_pod, a_node, a_plugin_pod, a_pool, a_snapshot
from tests.kit.values.placements import HERE, a_member

NODE_POOL = {names.LABEL_NODE_POOL: "np1"}


def _pool(name: str, schedule: str, *nodes: str, **spec: Any) -> Pool:
    return a_pool(name, schedule, nodes={"names": nodes or ("none",)}, **spec)


def _snapshot(*pools: Pool, pods: tuple[Pod, ...] = (), more: tuple[Node, ...] = ()) -> Any:
    """A cluster in which each pool has the nodes that it lists, all of one node pool."""
    nodes = [
        a_member(name, pool, labels=NODE_POOL)
        for pool in pools
        for name in pool.spec.nodes.names
        if name != "none"
    ]
    plugins = [a_plugin_pod(f"plugin-{node.name}", node=node.name) for node in nodes]
    return a_snapshot(pools=pools, nodes=(*nodes, *more), pods=(*plugins, *pods))


def _find(snapshot: ClusterSnapshot) -> dict[str, SharedNodes]:
    found = find_shared_nodes(snapshot, find_members(snapshot))
    return {each.label.partition("=")[0]: each for each in found}


def _divide(snapshot: ClusterSnapshot, **sizes: int) -> dict[str, str]:
    members = find_members(snapshot)
    observed = Observed(snapshot, {}, (), (HERE,), Settings(), NOW)
    search = SplitSearch(observed, (), snapshot.nodes, tuple(sizes))
    return divide(search, snapshot, members, sizes)


def test_pools_share_the_nodes_of_a_label_that_they_claim_together() -> None:
    snapshot = _snapshot(_pool("train", "cgpu", "a", "b"), _pool("infer", "share", "c"))
    (shared,) = _find(snapshot).values()
    assert shared.label == f"{names.LABEL_NODE_POOL}=np1"
    assert shared.nodes == ("a", "b", "c")
    assert shared.sizes == {"infer": 1, "train": 2}


def test_a_pool_whose_selector_covers_the_nodes_of_another_shares_them() -> None:
    selector = {"selector": {"match_labels": NODE_POOL}}
    pools = (a_pool("first", nodes=selector), a_pool("second", nodes=selector, priority=10))
    nodes = tuple(a_member(name, pools[0], labels=NODE_POOL) for name in "ab")
    sizes = _find(a_snapshot(pools=pools, nodes=nodes))[names.LABEL_NODE_POOL].sizes
    assert sum(sizes.values()) == 2
    assert set(sizes) == {"first", "second"}


def test_a_node_in_no_pool_is_shared_where_it_shows_a_card_and_else_all_its_labels_are_not() -> (
    None
):
    pools = _pool("train", "cgpu", "a"), _pool("infer", "share", "b")
    spare = a_node("c", NODE_POOL, allocatable={names.RESOURCE_WHOLE_GPU: 1})
    bare = a_node("c", NODE_POOL, capacity={})
    (shared,) = _find(_snapshot(*pools, more=(spare,))).values()
    assert shared.nodes == ("a", "b", "c")
    assert shared.sizes == {"infer": 1, "train": 1}
    assert _find(_snapshot(*pools, more=(bare,))) == {}


@pytest.mark.parametrize("others", [0, MOST_POOLS])
def test_nodes_of_one_pool_or_of_too_many_are_not_divided(others: int) -> None:
    more = [_pool(f"p{number}", "share", f"n{number}") for number in range(others)]
    assert _find(_snapshot(_pool("train", "cgpu", "a", "b"), *more)) == {}


def test_nodes_that_a_pool_claims_which_changes_none_are_not_divided() -> None:
    observing = _pool("infer", "share", "b", reconcile="Observe")
    assert _find(_snapshot(_pool("train", "cgpu", "a"), observing)) == {}


def test_nodes_that_stay_are_as_many_as_the_sizes_allow() -> None:
    snapshot = _snapshot(_pool("train", "cgpu", "a", "b", "c"), _pool("infer", "share", "d"))
    moved = _divide(snapshot, train=2, infer=2)
    assert moved["d"] == "infer"
    assert sorted(moved.values()) == ["infer", "infer", "train", "train"]


def test_the_node_moves_of_which_fewest_pods_must_go() -> None:
    busy = a_gpu_pod("busy", node="a", selects=frozenset({(names.LABEL_POOL, "train")}))
    snapshot = _snapshot(
        _pool("train", "cgpu", "a", "b"), _pool("infer", "share", "c"), pods=(busy,)
    )
    assert _divide(snapshot, train=1, infer=2) == {"a": "train", "b": "infer", "c": "infer"}


def test_a_node_whose_mode_stays_moves_before_one_whose_mode_changes() -> None:
    pools = _pool("one", "cgpu", "a"), _pool("two", "share", "b"), _pool("three", "share")
    moved = _divide(_snapshot(*pools), one=1, two=0, three=1)
    assert moved == {"a": "one", "b": "three"}
    moved = _divide(_snapshot(*pools), one=0, two=0, three=1)
    assert moved == {"b": "three"}


def test_a_node_that_no_pool_has_is_left_alone_where_the_sizes_leave_one_over() -> None:
    spare = a_node("c", NODE_POOL, allocatable={names.RESOURCE_WHOLE_GPU: 1})
    pools = _pool("train", "cgpu", "a"), _pool("infer", "share", "b")
    assert _divide(_snapshot(*pools, more=(spare,)), train=0, infer=2) == {
        "a": "infer",
        "b": "infer",
    }


def test_no_assignment_of_these_sizes_moves_fewer_nodes_or_changes_fewer_modes() -> None:
    pools = (
        _pool("one", "cgpu", "a", "b", "c"),
        _pool("two", "share", "d", "e"),
        _pool("three", "cgpu", "f"),
    )
    snapshot = _snapshot(*pools)
    members, every = find_members(snapshot), {pool.name: pool for pool in pools}

    def weigh(split: dict[str, str]) -> tuple[int, int]:
        moves = [plan_move(snapshot.nodes[n], snapshot.pods[n], every[p]) for n, p in split.items()]
        return sum(members[n] != p for n, p in split.items()), sum(m.changes for m in moves)

    for sizes in product(range(7), repeat=3):
        if sum(sizes) == 6:
            wanted = dict(zip(every, sizes, strict=True))
            splits = (
                dict(zip(members, chosen, strict=True))
                for chosen in product(every, repeat=6)
                if all(chosen.count(pool) == size for pool, size in wanted.items())
            )
            found = _divide(snapshot, **wanted)
            assert {pool: list(found.values()).count(pool) for pool in every} == wanted
            assert weigh(found) == min(map(weigh, splits)), wanted
