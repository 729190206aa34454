"""Which pools describe a labelled cluster, what they leave out, and what the planner says.

What holds of any cluster is in test_adopt_model.py.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from gpushare import names
from gpushare.analysis.adoption.adopt import Description, Proof, describe_snapshot, prove
from gpushare.analysis.adoption.grouping import build_manifest
from gpushare.analysis.adoption.notes import AdoptionCode
from gpushare.api.manifest import parse_manifest
from gpushare.cli.cluster.snapshot import observe_cluster, with_pools
from gpushare.core.snapshot.cluster import ClusterSnapshot
from tests.kit.histories.gpu_cluster import (
    MODE_LABEL,
    MODE_LABELS,
    PLACEMENT_LABEL,
    POOL_LABEL,
    VERIFIED_LABEL,
)
from tests.kit.histories.labelled_cluster import (
    CARDS_LABEL,
    CONTROL_PLANE,
    LabelledNode,
    build_labelled_cluster,
)
from tests.kit.values.found_clusters import READ_AT, build_found_pool
from tests.kit.values.manifests import NODE_POOL_LABEL, Json

EVERY_MODE = [(edition, mode) for edition, modes in MODE_LABELS.items() for mode in modes]
SELECTED = {"selector": {"matchLabels": {NODE_POOL_LABEL: "np1"}}}


def observe(*nodes: LabelledNode, pools: Iterable[Json] | None = None) -> ClusterSnapshot:
    return observe_cluster(build_labelled_cluster(nodes, pools=pools)).snapshot


def describe(*nodes: LabelledNode, pools: Iterable[Json] | None = None) -> Description:
    return describe_snapshot(observe(*nodes, pools=pools), names.LABEL_NODE_POOL)


def list_specs(description: Description) -> dict[str, Json]:
    return {pool.name: build_manifest(pool)["spec"] for pool in description.pools}


def list_codes(description: Description | Proof) -> dict[str, AdoptionCode]:
    return {name: note.code for note in description.notes for name in note.names}


def prove_all(*nodes: LabelledNode) -> Proof:
    return prove_snapshot(observe(*nodes))


def prove_snapshot(snapshot: ClusterSnapshot) -> Proof:
    described = describe_snapshot(snapshot, names.LABEL_NODE_POOL)
    return prove(adopt(snapshot, described), described.pools, READ_AT)


def adopt(snapshot: ClusterSnapshot, described: Description) -> ClusterSnapshot:
    pools = [parse_manifest(build_manifest(pool), READ_AT) for pool in described.pools]
    return with_pools(snapshot, pools)


@pytest.mark.parametrize(("edition", "mode"), EVERY_MODE)
def test_a_node_pool_of_each_mode_is_one_pool_whose_plan_is_empty(edition: str, mode: str) -> None:
    nodes = [LabelledNode(f"n{index}", edition, mode) for index in range(2)]
    ((name, spec),) = list_specs(describe(*nodes)).items()
    assert spec == {"nodes": SELECTED, "edition": edition, "schedule": mode}
    proof = prove_all(*nodes)
    assert proof.changes == ()
    verified = {VERIFIED_LABEL: (None, "true")} if mode in ("cgpu", "core_mem") else {}
    expected = {POOL_LABEL: (None, name)} | verified
    assert [each.labels for each in proof.simulated] == [expected] * 2


BARE = {CARDS_LABEL: None}


@pytest.mark.parametrize("edition", ["Basic", "OpenSource"])
def test_nodes_that_show_no_gpu_but_by_their_label_are_assumed_to_have_one(edition: str) -> None:
    nodes = [LabelledNode("a", edition), LabelledNode("b", edition, labels=BARE)]
    ((_, spec),) = list_specs(describe(*nodes)).items()
    assert spec["nodes"] == {**SELECTED, "cards": "Assumed"}
    assert prove_all(*nodes).changes == ()


def test_a_node_that_shows_no_gpu_is_left_out_where_its_label_says_false() -> None:
    node = LabelledNode("a", "OpenSource", "default", labels=BARE)
    snapshot = observe(node)
    bare = replace(snapshot.nodes["a"], capacity={})
    described = describe_snapshot(replace(snapshot, nodes={"a": bare}), names.LABEL_NODE_POOL)
    assert (list_specs(described), list_codes(described)) == (
        {},
        {"a": AdoptionCode.NO_GPU_ON_NODE},
    )


def retained(name: str, node_pool: str) -> LabelledNode:
    return LabelledNode(name, labels={POOL_LABEL: "training.v2"}, node_pool=node_pool)


TWO_POOLS = {"key": NODE_POOL_LABEL, "operator": "In", "values": ["np1", "np2"]}
MEMBERS: dict[str, tuple[list[LabelledNode], dict[str, Json], AdoptionCode | None]] = {
    "nodes without a node pool are named": (
        [LabelledNode(name, node_pool="") for name in ("a", "c")],
        {"nodes-share": {"names": ["a", "c"]}},
        AdoptionCode.BY_NAME,
    ),
    "a node pool with an unlabelled node is not selected": (
        [LabelledNode("a"), LabelledNode("b", labels={MODE_LABEL: None})],
        {"np1-share": {"names": ["a"]}},
        AdoptionCode.MIXED_NODE_POOL,
    ),
    "no selector reaches a control-plane node": (
        [LabelledNode("a"), LabelledNode("b", labels=CONTROL_PLANE)],
        {"np1-share": {**SELECTED, "names": ["b"]}},
        None,
    ),
    "a pool's label that was retained names the pool again": (
        [retained("a", "np1"), retained("b", "np2"), retained("c", "")],
        {"training.v2": {"selector": {"matchExpressions": [TWO_POOLS]}, "names": ["c"]}},
        AdoptionCode.NAMED_AFTER_LABEL,
    ),
}


@pytest.mark.parametrize(("nodes", "members", "code"), MEMBERS.values(), ids=MEMBERS)
def test_members_are_selected_by_their_node_pool_or_named(
    nodes: list[LabelledNode], members: dict[str, Json], code: AdoptionCode | None
) -> None:
    described = describe(*nodes)
    specs = list_specs(described)
    assert {name: spec["nodes"] for name, spec in specs.items()} == members
    assert {list_codes(described).get(name) for name in members} == {code}


def test_of_two_modes_that_kept_one_pool_s_label_the_larger_has_its_name() -> None:
    retained = {POOL_LABEL: "training"}
    nodes = [
        LabelledNode("a", labels=retained),
        LabelledNode("b", labels=retained, schedule="cgpu", node_pool="np2"),
        LabelledNode("c", labels=retained, schedule="cgpu", node_pool="np2"),
    ]
    pools = {pool.name: pool.nodes for pool in describe(*nodes).pools}
    assert pools == {"training": ("b", "c"), "nodes-share": ("a",)}
    (change,) = prove_all(*nodes).changes
    assert change.changed_labels == {POOL_LABEL: ("training", "nodes-share")}


def test_a_pool_that_selects_and_one_that_lists_the_rest_share_no_node() -> None:
    named = [LabelledNode(f"n{index:04}", labels=CONTROL_PLANE) for index in range(1001)]
    first, second = describe(LabelledNode("worker"), *named).pools
    assert (len(first.nodes), second.nodes) == (1001, ("n1000",))
    assert not {*first.nodes} & {*second.nodes}


def test_names_that_a_pool_can_t_have_are_spelled_otherwise_and_stay_apart() -> None:
    node_pools = ("NP_1", "np-1", "n" * 63)
    described = describe(
        *(LabelledNode(f"n{i}", node_pool=each) for i, each in enumerate(node_pools))
    )
    found = [pool.name for pool in described.pools]
    assert "np-1-share" in found
    assert len(set(found)) == 3
    assert all(len(name) <= 63 for name in found)


def test_another_label_can_name_the_node_pool() -> None:
    key = "eks.amazonaws.com/nodegroup"
    node = LabelledNode("a", "OpenSource", "share", node_pool="", labels={key: "gpus"})
    (spec,) = list_specs(describe_snapshot(observe(node), key)).values()
    assert spec["nodes"] == {"selector": {"matchLabels": {key: "gpus"}}}


@pytest.mark.parametrize(
    ("labels", "code"),
    [
        ({MODE_LABEL: "mig"}, AdoptionCode.UNKNOWN_VALUE),
        ({MODE_LABEL: None, "cgpu": "yes"}, AdoptionCode.UNKNOWN_VALUE),
        (
            {MODE_LABEL: None, "cgpu": "true", "cgpu.disable.isolation": "maybe"},
            AdoptionCode.UNKNOWN_VALUE,
        ),
        ({"cgpu": "true"}, AdoptionCode.CONFLICTING_LABELS),
        ({MODE_LABEL: None, "cgpu": "true", "gpushare": "true"}, AdoptionCode.CONFLICTING_LABELS),
        ({MODE_LABEL: None}, AdoptionCode.UNLABELLED),
        ({}, AdoptionCode.MIG_NODE),
    ],
)
def test_a_node_that_no_pool_can_say_is_left_out(
    labels: dict[str, Any], code: AdoptionCode
) -> None:
    offers = {"nvidia.com/mig-1g.5gb": "7"} if code is AdoptionCode.MIG_NODE else {}
    described = describe(LabelledNode("odd", labels=labels, offers=offers))
    assert (described.pools, list_codes(described)) == ((), {"odd": code})


def test_a_node_without_gpus_and_labels_is_not_mentioned() -> None:
    node = {"metadata": {"name": "web", "uid": "web", "labels": {}}}
    cluster = replace(build_labelled_cluster([]), nodes=(node,))
    snapshot = observe_cluster(cluster).snapshot
    assert describe_snapshot(snapshot, names.LABEL_NODE_POOL) == Description((), ())


@pytest.mark.parametrize("labels", [{"cgpu": "false"}, {"gpushare": "false"}])
def test_another_edition_s_label_that_leaves_whole_cards_alone_is_no_conflict(
    labels: dict[str, str],
) -> None:
    nodes = [LabelledNode("a", labels=labels)]
    assert [spec["edition"] for spec in list_specs(describe(*nodes)).values()] == ["Professional"]


def test_a_node_that_a_pool_has_already_stays_with_it() -> None:
    taken = build_found_pool("np1-share", nodes={"names": ["a"]})
    described = describe(LabelledNode("a"), LabelledNode("b"), pools=[taken])
    ((name, spec),) = list_specs(described).items()
    assert name.startswith("np1-share-")
    assert spec["nodes"] == {**SELECTED, "exclude": ["a"]}


def test_a_node_of_a_pool_that_can_t_be_read_is_left_to_it() -> None:
    broken = build_found_pool("newer", schedule="quantum")
    described = describe(LabelledNode("a", labels={POOL_LABEL: "newer"}), pools=[broken])
    assert (described.pools, list_codes(described)) == ((), {"a": AdoptionCode.POOL_UNREADABLE})


def test_what_is_said_of_many_nodes_is_said_once() -> None:
    nodes = [LabelledNode(f"n{index:02}", labels={MODE_LABEL: "egpu"}) for index in range(20)]
    (note,) = describe(*nodes).notes
    assert note.about.startswith("nodes n00, n01, ")
    assert note.about.endswith(" and 8 more")


@pytest.mark.parametrize(
    ("plugins", "annotation", "reason"),
    [
        (["cgpu-installer"], {"gpushare.io/teardown": "start"}, "Cordoned"),
        ([], {"gpushare.io/module": "loaded"}, "RequiresTeardown"),
    ],
    ids=["that somebody agreed to begins with a cordon", "of a module that a person noted waits"],
)
def test_a_teardown(plugins: list[str], annotation: dict[str, str], reason: str) -> None:
    cluster = build_labelled_cluster([LabelledNode("a", extra_plugins=plugins)])
    cluster.nodes[0]["metadata"]["annotations"] = annotation
    (change,) = prove_snapshot(observe_cluster(cluster).snapshot).changes
    assert (change.plan.reason, change.reboots) == (reason, True)


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (LabelledNode("a", has_plugins=False), "PluginRestarting"),
        (
            LabelledNode(
                "a",
                extra_plugins=["ack-nvidia-device-plugin"],
                offers={"nvidia.com/gpu": "1"},
            ),
            "CompetingPlugins",
        ),
    ],
)
def test_a_plugin_that_is_not_as_it_should_be_changes_nothing_and_is_told(
    node: LabelledNode, reason: str
) -> None:
    proof = prove_all(node)
    (note,) = proof.notes
    assert (proof.changes, note.code, note.names) == ((), AdoptionCode.NOT_READY, ("a",))
    assert reason in note.message


def test_a_placement_that_nobody_knows_stays_on_its_node() -> None:
    nodes = [LabelledNode("a", labels={PLACEMENT_LABEL: "sideways"})]
    assert list_codes(describe(*nodes)) == {"a": AdoptionCode.PLACEMENT_IGNORED}
    expected = {POOL_LABEL: (None, "np1-share")}
    assert [each.labels for each in prove_all(*nodes).simulated] == [expected]
