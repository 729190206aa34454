"""What nodes would be once their pools are rolled out."""

from dataclasses import replace

from gpushare import names
from gpushare.analysis.placement.cluster import find_members
from gpushare.analysis.placement.split import Split, roll_out
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Pool
from tests.kit.values.objects import (
    MEMORY,
    a_gpu_pod,
    a_node,
    a_plugin_pod,
    a_pool,
    a_snapshot,
)
from tests.kit.values.placements import a_member

WHOLE = names.RESOURCE_WHOLE_GPU


def _roll_out(node: Node, pool: Pool, *pods: Pod) -> Split:
    snapshot = a_snapshot(pools=(pool,), nodes=(node,), pods=pods)
    return roll_out(snapshot, find_members(snapshot), "GiB")


def _convert(node: Node, pool: Pool) -> Node:
    return _roll_out(node, pool).snapshot.nodes[node.name]


def test_a_node_that_is_as_its_pool_says_stays_the_same() -> None:
    pool = a_pool()
    node = a_member("n", pool)
    assert _convert(node, pool) == node


def test_a_mode_with_the_same_resource_changes_only_labels() -> None:
    node = a_member("n", a_pool(schedule="share"), cards=2)
    found = _convert(node, a_pool())
    assert found.labels["ack.node.gpu.schedule"] == "cgpu"
    assert found.labels[names.LABEL_ISOLATION_VERIFIED] == "true"
    assert found.allocatable == node.allocatable


def test_core_mem_adds_the_compute_of_all_cards() -> None:
    found = _convert(a_member("n", a_pool(schedule="share"), cards=2), a_pool(schedule="core_mem"))
    assert found.allocatable == {MEMORY: 30, names.RESOURCE_GPU_CORE: 200}


def test_whole_cards_are_offered_by_number() -> None:
    found = _convert(a_member("n", a_pool(), cards=2), a_pool(schedule="default"))
    assert found.allocatable == {WHOLE: 2}


def test_the_memory_of_whole_cards_is_read_from_their_label() -> None:
    labels = {names.LABEL_CARD_MEMORY: "16130MiB"}
    node = a_node(labels=labels, allocatable={WHOLE: 2}, capacity={WHOLE: 2})
    found = _convert(node, a_pool(schedule="share"))
    assert found.allocatable == {MEMORY: 30}
    assert found.gpu_count == 2


def test_a_node_whose_cards_are_unknown_is_named_and_offers_nothing() -> None:
    split = _roll_out(a_node(allocatable={WHOLE: 2}, capacity={WHOLE: 2}), a_pool())
    assert split.unknown == ("gpu-1",)
    assert split.snapshot.nodes["gpu-1"].allocatable == {}


def test_the_operators_cordon_ends_and_a_users_stays() -> None:
    pool = a_pool()
    node = a_member("n", pool, unschedulable=True)
    assert _convert(node, pool).unschedulable
    assert not _convert(replace(node, owns_cordon=True), pool).unschedulable


def test_a_node_that_leaves_its_pool_keeps_its_mode() -> None:
    node = a_member("n", a_pool())
    nobody = a_pool(nodes={"selector": {"match_labels": {"group": "nobody"}}})
    found = _convert(node, nobody)
    assert names.LABEL_POOL not in found.labels
    assert found.labels["ack.node.gpu.schedule"] == "cgpu"


def test_a_pool_that_observes_changes_nothing() -> None:
    node = a_member("n", a_pool(schedule="share"))
    assert _convert(node, a_pool(reconcile="Observe")) == node


def test_pods_on_a_node_whose_mode_changes_are_displaced() -> None:
    node = a_member("gpu-1", a_pool(schedule="share"))
    split = _roll_out(node, a_pool(), a_gpu_pod("gone"), a_plugin_pod("plugin"))
    assert split.displaced == {"uid-of-gone"}
    assert [pod.uid for pod in split.snapshot.pods["gpu-1"]] == ["plugin"]
    assert split.changes == 1


def test_pods_that_select_the_former_pool_are_displaced() -> None:
    node = a_member("gpu-1", a_pool("former"))
    selects = frozenset({(names.LABEL_POOL, "former")})
    split = _roll_out(node, a_pool(), a_gpu_pod("gone", selects=selects), a_gpu_pod("stays"))
    assert split.displaced == {"uid-of-gone"}
    assert split.changes == 0


def test_the_isolation_flip_of_the_basic_edition_displaces_nobody() -> None:
    node = a_member("gpu-1", a_pool(schedule="share", edition="Basic"))
    split = _roll_out(node, a_pool(edition="Basic"), a_gpu_pod("stays"))
    assert (split.displaced, split.changes) == (frozenset(), 1)
