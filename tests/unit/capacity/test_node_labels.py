"""What a pool's status says of the labels of its nodes."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.core.capacity.node_labels import (
    MAX_BYTES,
    MAX_COMBINATIONS,
    PUBLISHED_KEYS,
    Combination,
    combine,
    list_combinations,
)
from gpushare.core.decision_settings import build_planner
from gpushare.core.planner.planner import Planner
from gpushare.core.snapshot.node import Timing
from gpushare.core.status.pool_status import build_status
from gpushare.settings import Settings
from tests.kit.values.node_plans import a_settled
from tests.kit.values.objects import NOW, a_plugin_pod, a_pool, a_snapshot

ZONE, MODEL = "topology.kubernetes.io/zone", "aliyun.accelerator/nvidia_name"
KEYS = (MODEL, ZONE)


def _count(*nodes: dict[str, str]) -> Counter[Combination]:
    return Counter(combine(labels, KEYS) for labels in nodes)


def _list(counts: Mapping[Combination, int]) -> list[tuple[int, dict[str, str]]]:
    listed = list_combinations(counts)
    return [(each.nodes, each.labels) for each in listed.combinations] if listed else []


def test_combinations_are_listed_by_their_nodes_and_then_by_text() -> None:
    t4, v100, bare = {MODEL: "T4", ZONE: "b"}, {MODEL: "V100", ZONE: "a"}, {ZONE: "a"}
    counts = _count(v100, {**t4, "team": "x"}, bare, {**v100, "team": "y"})
    assert _list(counts) == [(2, v100), (1, t4), (1, bare)]


def test_without_a_node_that_takes_pods_nothing_is_listed() -> None:
    assert list_combinations({}) is None


@pytest.mark.parametrize("keys", [KEYS, tuple(sorted(PUBLISHED_KEYS))], ids=["few", "long"])
def test_of_many_combinations_those_of_most_nodes_are_listed_and_the_rest_is_counted(
    keys: tuple[str, ...],
) -> None:
    counts = Counter[Combination]()
    for number in range(200):
        labels = dict.fromkeys(keys, f"value-{number:03}")
        counts[combine(labels, keys)] += 2 if number > 150 else 1
    listed = list_combinations(counts)
    assert listed is not None
    assert (len(listed.combinations) == MAX_COMBINATIONS) is (keys == KEYS)
    assert len(listed.model_dump_json(by_alias=True)) <= MAX_BYTES
    assert {each.nodes for each in listed.combinations[:5]} == {2}
    assert listed.more == 249 - sum(each.nodes for each in listed.combinations)


def _publish(*nodes: Node) -> list[tuple[int, dict[str, str]]]:
    pool, planner = a_pool("training", "share"), Planner(Timing(), published_keys=KEYS)
    planner.update(a_snapshot(pools=(pool,), nodes=nodes), None, NOW)
    status = build_status(pool, planner.plans_by_pool["training"], NOW)
    written = json.loads(status.model_dump_json(by_alias=True))["nodeLabels"]
    return [(each["nodes"], each["labels"]) for each in (written or {}).get("combinations", ())]


def test_an_installation_adds_keys_but_none_that_the_operator_writes() -> None:
    planner = build_planner(Settings(node_label_keys=("team", names.LABEL_POOL)))
    labelled = _label(a_settled(), **{"team": "x", ZONE: "a"})
    planner.update(a_snapshot(pools=(a_pool("training", "share"),), nodes=(labelled,)), None, NOW)
    assert _list(planner.plans_by_pool["training"].labels) == [(1, {"team": "x", ZONE: "a"})]


def _label(node: Node, **labels: str) -> Node:
    return replace(node, labels={**node.labels, **labels})


def test_members_are_published_also_while_they_are_out_of_service() -> None:
    away = replace(_label(a_settled("gpu-2"), **{ZONE: "b"}), ready=False)
    assert _publish(_label(a_settled(), **{ZONE: "a"}), away) == [
        (1, {ZONE: "a"}),
        (1, {ZONE: "b"}),
    ]


@pytest.mark.parametrize(
    "labels",
    [{"group": "other"}, {"nvidia.com/mig.config": "all-1g.5gb"}],
    ids=["it is no member", "it is left alone"],
)
def test_a_node_that_takes_no_pods_of_the_pool_is_not_published(labels: dict[str, str]) -> None:
    assert _publish(_label(a_settled(), **{ZONE: "a"}, **labels)) == []


def test_a_node_that_another_pool_has_is_published_there_alone() -> None:
    pools = a_pool("training", "share"), a_pool("better", "share", priority=200)
    planner = Planner(Timing(), published_keys=KEYS)
    node = _label(a_settled(), **{ZONE: "a"})
    planner.update(a_snapshot(pools=pools, nodes=(node,)), None, NOW)
    published = {name: _list(state.labels) for name, state in planner.plans_by_pool.items()}
    assert published == {"training": [], "better": [(1, {ZONE: "a"})]}


def test_the_status_is_stale_where_a_published_label_changes_and_not_by_another() -> None:
    pool, planner = a_pool("training", "share"), Planner(Timing(), published_keys=KEYS)
    node = _label(a_settled(), **{ZONE: "a"})
    snapshot = a_snapshot(pools=(pool,), nodes=(node,), pods=(a_plugin_pod(),))
    planner.update(snapshot, None, NOW)
    state = planner.plans_by_pool["training"]
    for labels, is_stale in (({"team": "x"}, False), ({ZONE: "b"}, True)):
        state.is_stale, changed = False, _label(node, **labels)
        assert planner.is_relevant(node, changed) is is_stale
        planner.update(replace(snapshot, nodes={"gpu-1": changed}), {"gpu-1"}, NOW)
        assert state.is_stale is is_stale
