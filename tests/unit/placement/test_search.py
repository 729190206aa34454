"""Which split of nodes over pools runs most of a queue."""

import random
from dataclasses import replace
from itertools import product

import pytest

from gpushare import names
from gpushare.analysis.placement import search as module
from gpushare.analysis.placement.place import QueuedPod
from gpushare.analysis.placement.search import SplitScore, SplitSearch
from gpushare.analysis.placement.what_if import Observed, read_shapes
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod, parse_pod
from gpushare.settings import Settings
from tests.kit.values.manifests import build_pod
from tests.kit.values.objects import NOW, a_plugin_pod, a_pool, a_snapshot
from tests.kit.values.placements import HERE, a_member, a_queued

_OPEN = {names.ANNOTATION_ISOLATION: names.ISOLATION_NONE}
_POOLS = {
    "train": a_pool("train", "cgpu", nodes={"selector": {"match_labels": {"group": "t"}}}),
    "infer": a_pool("infer", "share", nodes={"selector": {"match_labels": {"group": "i"}}}),
}


def _observe(*nodes: Node, pods: tuple[Pod, ...] = ()) -> Observed:
    plugins = tuple(a_plugin_pod(f"plugin-{node.name}", node=node.name) for node in nodes)
    snapshot = a_snapshot(pools=tuple(_POOLS.values()), nodes=nodes, pods=(*plugins, *pods))
    return Observed(snapshot, {}, (), (HERE,), Settings(), NOW)


def _node(name: str, pool: str, *, cards: int = 1) -> Node:
    return a_member(name, _POOLS[pool], cards=cards, card=8, group=pool[0])


def _strip(score: SplitScore) -> SplitScore:
    """Without the sizes, which decide only between equal splits."""
    return replace(score, sizes=())


def test_nodes_go_where_most_pods_run() -> None:
    seen = _observe(_node("a", "train"), _node("b", "train"))
    queue = [a_queued(f"p{n}", gib=8, annotations=_OPEN) for n in range(2)]
    result = SplitSearch(seen, queue, ["a", "b"], ["train", "infer"]).run()
    assert result.is_exact
    assert result.tried == 3
    assert result.best[0].members == {"a": "infer", "b": "infer"}
    assert [split.placed for split in result.best] == [2, 1, 0]


def test_of_equally_good_splits_the_one_with_fewer_changes_is_best() -> None:
    seen = _observe(_node("a", "infer"), _node("b", "train"))
    result = SplitSearch(seen, [], ["a", "b"], ["train", "infer"]).run()
    assert result.best[0].members == {"a": "infer", "b": "train"}
    assert result.best[0].score.changes == 0


def test_of_equally_good_splits_the_one_that_interrupts_fewest_pods_is_best() -> None:
    raw = build_pod("job", gib=8, selects={names.LABEL_POOL: "train"}, annotations=_OPEN)
    raw["metadata"] |= {"uid": "job", "namespace": "default"}
    raw["spec"]["nodeName"], raw["status"] = "a", {"phase": "Running"}
    job = parse_pod(raw, plugin_namespaces=())
    assert job is not None
    seen = _observe(_node("a", "train"), _node("b", "train"), pods=(job,))
    seen = replace(seen, shapes=read_shapes([raw]))
    queue = [a_queued("p", gib=8, selects={names.LABEL_POOL: "infer"})]
    best, second, *_ = SplitSearch(seen, queue, ["a", "b"], ["train", "infer"]).run().best
    assert best.members == {"a": "train", "b": "infer"}
    assert (best.displaced, second.displaced) == (0, 1)
    assert best.score.missed == second.score.missed


def test_equal_nodes_are_one_group() -> None:
    seen = _observe(_node("a", "train"), _node("b", "train"), _node("c", "train", cards=2))
    search = SplitSearch(seen, [], ["a", "b", "c"], ["train", "infer"])
    assert search.groups == (("a", "b"), ("c",))


def test_of_too_many_splits_only_some_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SPLITS", 2)
    seen = _observe(_node("a", "train"), _node("b", "train"))
    queue = [a_queued(f"p{n}", gib=8, annotations=_OPEN) for n in range(2)]
    result = SplitSearch(seen, queue, ["a", "b"], ["train", "infer"]).run()
    assert not result.is_exact
    assert result.best[0].members == {"a": "infer", "b": "infer"}


def _draw_queue(choice: random.Random) -> list[QueuedPod]:
    return [
        a_queued(
            f"p{number}",
            gib=choice.randint(1, 8),
            annotations=_OPEN if choice.random() < 0.5 else {},
        )
        for number in range(choice.randint(1, 6))
    ]


@pytest.mark.parametrize("seed", range(200))
def test_the_search_finds_what_trying_each_node_in_each_pool_finds(seed: int) -> None:
    choice = random.Random(seed)
    nodes = [
        _node(f"n{number}", choice.choice(["train", "infer"]), cards=choice.randint(1, 2))
        for number in range(choice.randint(1, 4))
    ]
    searched = [node.name for node in nodes]
    search = SplitSearch(_observe(*nodes), _draw_queue(choice), searched, ["train", "infer"])
    every = product(("train", "infer"), repeat=len(nodes))
    by_force = min(
        _strip(search.judge(dict(zip(searched, split, strict=True))).score) for split in every
    )
    assert _strip(search.run().best[0].score) == by_force
