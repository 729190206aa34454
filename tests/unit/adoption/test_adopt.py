"""Which pools describe a labelled cluster, what they leave out, and what the planner says."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from gpushare import names
from gpushare.api.cluster import Cluster
from gpushare.api.manifest import parse_manifest
from gpushare.cli.world import observe_cluster, with_pools
from gpushare.core.adoption.adopt import Description, Proof, describe_world, prove
from gpushare.core.adoption.grouping import build_manifest
from gpushare.core.adoption.remarks import Code
from gpushare.core.world import World
from tests.kit.histories.gpu_cluster import (
    MODE_LABEL,
    MODE_LABELS,
    PLACEMENT_LABEL,
    POOL_LABEL,
    VERIFIED_LABEL,
)
from tests.kit.histories.labelled_cluster import (
    CONTROL_PLANE,
    READ_AT,
    LabelledNode,
    build_labelled_cluster,
)
from tests.kit.values.manifests import build_pool

Json = dict[str, Any]

EVERY_MODE = [(edition, mode) for edition, modes in MODE_LABELS.items() for mode in modes]


def observe(cluster: Cluster) -> World:
    return observe_cluster(cluster).world


def describe(*nodes: LabelledNode, pools: Iterable[Json] | None = None) -> Description:
    cluster = build_labelled_cluster(nodes, pools=pools)
    return describe_world(observe(cluster), names.LABEL_NODE_POOL)


def list_specs(description: Description) -> dict[str, Json]:
    return {pool.name: build_manifest(pool)["spec"] for pool in description.pools}


def list_codes(description: Description | Proof) -> dict[str, Code]:
    return {name: remark.code for remark in description.remarks for name in remark.names}


def prove_all(*nodes: LabelledNode) -> Proof:
    world = observe(build_labelled_cluster(nodes))
    described = describe_world(world, names.LABEL_NODE_POOL)
    pools = [parse_manifest(build_manifest(pool), READ_AT) for pool in described.pools]
    return prove(with_pools(world, pools), described.pools, READ_AT)


def select(node_pool: str) -> Json:
    return {"selector": {"matchLabels": {"alibabacloud.com/nodepool-id": node_pool}}}


def build_found_pool(name: str, **spec: Any) -> Json:
    pool = build_pool(name, **spec)
    pool["metadata"] |= {"uid": name, "creationTimestamp": "2026-02-01T00:00:00Z"}
    return pool


# What becomes a pool.


@pytest.mark.parametrize(("edition", "mode"), EVERY_MODE)
def test_a_node_pool_of_each_mode_is_one_pool_whose_plan_is_empty(edition: str, mode: str) -> None:
    nodes = [LabelledNode(f"n{index}", edition, mode) for index in range(2)]
    (spec,) = list_specs(describe(*nodes)).values()
    assert spec == {"nodes": select("np1"), "edition": edition, "schedule": mode}
    proof = prove_all(*nodes)
    assert proof.changes == ()
    verified = {VERIFIED_LABEL: (None, "true")} if mode in ("cgpu", "core_mem") else {}
    assert [each.labels for each in proof.foreseen] == [
        {POOL_LABEL: (None, name)} | verified for name in [*list_specs(describe(*nodes))] * 2
    ]


def test_placement_is_part_of_what_a_pool_says() -> None:
    nodes = [
        LabelledNode(f"n-{each}", node_pool=f"np-{each}", labels={PLACEMENT_LABEL: each})
        for each in ("binpack", "spread")
    ]
    specs = list_specs(describe(*nodes))
    assert {name: spec["placement"] for name, spec in specs.items()} == {
        "np-binpack-share-binpack": "binpack",
        "np-spread-share-spread": "spread",
    }
    assert prove_all(*nodes).changes == ()


def test_nodes_without_a_node_pool_are_named() -> None:
    described = describe(
        LabelledNode("a", "OpenSource", "share", node_pool=""),
        LabelledNode("b", "OpenSource", "default", node_pool=""),
        LabelledNode("c", "OpenSource", "share", node_pool=""),
    )
    specs = list_specs(described)
    assert {name: spec["nodes"] for name, spec in specs.items()} == {
        "nodes-opensource-default": {"names": ["b"]},
        "nodes-opensource-share": {"names": ["a", "c"]},
    }
    assert set(list_codes(described).values()) == {Code.BY_NAME}


def test_a_node_pool_whose_nodes_differ_is_not_selected() -> None:
    described = describe(
        LabelledNode("a", schedule="cgpu"), LabelledNode("b"), LabelledNode("c", schedule="cgpu")
    )
    specs = list_specs(described)
    assert {name: spec["nodes"] for name, spec in specs.items()} == {
        "np1-cgpu": {"names": ["a", "c"]},
        "np1-share": {"names": ["b"]},
    }
    assert set(list_codes(described).values()) == {Code.MIXED_NODE_POOL}


def test_a_node_pool_with_an_unlabelled_node_is_not_selected_either() -> None:
    described = describe(LabelledNode("a"), LabelledNode("b", labels={MODE_LABEL: None}))
    (spec,) = list_specs(described).values()
    assert spec["nodes"] == {"names": ["a"]}
    assert list_codes(described) == {"b": Code.UNLABELLED, "np1-share": Code.MIXED_NODE_POOL}


def test_a_control_plane_node_is_named_since_no_selector_reaches_it() -> None:
    (spec,) = list_specs(
        describe(LabelledNode("a"), LabelledNode("b", labels=CONTROL_PLANE))
    ).values()
    assert spec["nodes"] == {**select("np1"), "names": ["b"]}
    assert prove_all(LabelledNode("b", labels=CONTROL_PLANE)).changes == ()


def test_a_pool_label_that_was_retained_names_the_pool_again() -> None:
    retained = {POOL_LABEL: "training.v2"}
    nodes = [
        LabelledNode("a", labels=retained),
        LabelledNode("b", labels=retained, node_pool="np2"),
        LabelledNode("c", labels=retained, node_pool=""),
    ]
    ((name, spec),) = list_specs(describe(*nodes)).items()
    values = {"key": "alibabacloud.com/nodepool-id", "operator": "In", "values": ["np1", "np2"]}
    assert (name, spec["nodes"]) == (
        "training.v2",
        {"selector": {"matchExpressions": [values]}, "names": ["c"]},
    )
    assert [each.labels for each in prove_all(*nodes).foreseen] == [{}] * 3


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


def test_a_thousand_names_are_as_many_as_one_pool_lists() -> None:
    described = describe(*(LabelledNode(f"n{index:04}", node_pool="") for index in range(1001)))
    first, second = described.pools
    assert (first.name, len(first.nodes), len(second.nodes)) == ("nodes-share", 1000, 1)
    assert second.name.startswith("nodes-share-")


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
    nodes = [LabelledNode("a", "OpenSource", "share", node_pool="", labels={key: "gpus"})]
    described = describe_world(observe(build_labelled_cluster(nodes)), key)
    (spec,) = list_specs(described).values()
    assert spec["nodes"] == {"selector": {"matchLabels": {key: "gpus"}}}


# What is left out.


@pytest.mark.parametrize(
    ("labels", "code"),
    [
        ({MODE_LABEL: "egpu"}, Code.UNKNOWN_VALUE),
        ({MODE_LABEL: "mig"}, Code.UNKNOWN_VALUE),
        ({MODE_LABEL: None, "cgpu": "yes"}, Code.UNKNOWN_VALUE),
        ({MODE_LABEL: None, "gpushare": "1"}, Code.UNKNOWN_VALUE),
        (
            {MODE_LABEL: None, "cgpu": "true", "cgpu.disable.isolation": "maybe"},
            Code.UNKNOWN_VALUE,
        ),
        ({"cgpu": "true"}, Code.CONFLICTING_LABELS),
        ({MODE_LABEL: None, "cgpu": "true", "gpushare": "true"}, Code.CONFLICTING_LABELS),
        ({MODE_LABEL: None}, Code.UNLABELLED),
    ],
)
def test_a_node_that_no_pool_can_say_is_left_out(labels: dict[str, Any], code: Code) -> None:
    described = describe(LabelledNode("odd", labels=labels))
    assert (described.pools, list_codes(described)) == ((), {"odd": code})


def test_a_node_that_offers_mig_devices_is_left_out() -> None:
    described = describe(LabelledNode("odd", offers={"nvidia.com/mig-1g.5gb": "7"}))
    assert (described.pools, list_codes(described)) == ((), {"odd": Code.MIG_NODE})


def test_a_node_without_gpus_and_labels_is_not_mentioned() -> None:
    cluster = build_labelled_cluster([])
    node = {"metadata": {"name": "web", "uid": "web", "labels": {}}}
    described = describe_world(observe(replace(cluster, nodes=(node,))), names.LABEL_NODE_POOL)
    assert described == Description((), ())


@pytest.mark.parametrize("labels", [{"cgpu": "false"}, {"gpushare": "false"}])
def test_another_edition_s_label_that_leaves_whole_cards_alone_is_no_conflict(
    labels: dict[str, str],
) -> None:
    nodes = [LabelledNode("a", labels=labels)]
    assert [spec["edition"] for spec in list_specs(describe(*nodes)).values()] == ["Professional"]
    assert prove_all(*nodes).changes == ()


def test_nodes_that_are_left_out_do_not_keep_their_node_pool_from_being_selected() -> None:
    described = describe(LabelledNode("a"), LabelledNode("odd", labels={MODE_LABEL: "egpu"}))
    (spec,) = list_specs(described).values()
    assert spec["nodes"] == {**select("np1"), "exclude": ["odd"]}


def test_a_node_that_a_pool_has_already_stays_with_it() -> None:
    taken = build_found_pool("np1-share", nodes={"names": ["a"]})
    described = describe(LabelledNode("a"), LabelledNode("b"), pools=[taken])
    ((name, spec),) = list_specs(described).items()
    assert name.startswith("np1-share-")
    assert spec["nodes"] == {**select("np1"), "exclude": ["a"]}
    assert list_codes(described) == {"a": Code.IN_POOL}


def test_a_node_of_a_pool_that_can_t_be_read_is_left_to_it() -> None:
    broken = build_found_pool("newer", schedule="share")
    broken["spec"]["schedule"] = "quantum"
    described = describe(LabelledNode("a", labels={POOL_LABEL: "newer"}), pools=[broken])
    assert (described.pools, list_codes(described)) == ((), {"a": Code.POOL_UNREADABLE})


def test_what_is_said_of_many_nodes_is_said_once() -> None:
    nodes = [LabelledNode(f"n{index:02}", labels={MODE_LABEL: "egpu"}) for index in range(20)]
    (remark,) = describe(*nodes).remarks
    assert remark.about.startswith("nodes n00, n01, ")
    assert remark.about.endswith(" and 8 more")


# What the planner says.


def test_a_label_that_basic_lacks_is_told_and_nothing_restarts() -> None:
    (change,) = prove_all(
        LabelledNode("a", "Basic", "cgpu", labels={"cgpu.disable.isolation": None})
    ).changes
    assert change.changed_labels == {"cgpu.disable.isolation": (None, "false")}
    assert (change.changes_mode, change.restarts, change.reboots) == (False, False, False)


def test_a_module_that_outlives_its_mode_is_seen_only_once_the_node_is_a_member() -> None:
    (change,) = prove_all(LabelledNode("a", extra_plugins=["cgpu-installer"])).changes
    assert change.reboots
    assert change.plan.reason == "RequiresTeardown"


def test_a_teardown_that_somebody_agreed_to_would_begin_with_a_cordon() -> None:
    cluster = build_labelled_cluster([LabelledNode("a", extra_plugins=["cgpu-installer"])])
    cluster.nodes[0]["metadata"]["annotations"] = {"gpushare.io/teardown": "start"}
    world = observe(cluster)
    described = describe_world(world, names.LABEL_NODE_POOL)
    pools = [parse_manifest(build_manifest(pool), READ_AT) for pool in described.pools]
    (change,) = prove(with_pools(world, pools), described.pools, READ_AT).changes
    assert (change.plan.reason, change.reboots) == ("Cordoned", True)


def test_a_second_plugin_changes_nothing_and_is_told() -> None:
    proof = prove_all(LabelledNode("a", extra_plugins=["ack-nvidia-device-plugin"],
                                   offers={"nvidia.com/gpu": "1"}))  # fmt: skip
    (remark,) = proof.remarks
    assert proof.changes == ()
    assert (remark.code, remark.names) == (Code.NOT_READY, ("a",))
    assert "CompetingPlugins" in remark.message


def test_a_plugin_that_is_away_changes_nothing_and_is_told() -> None:
    proof = prove_all(LabelledNode("a", has_plugins=False))
    assert (proof.changes, list_codes(proof)) == ((), {"a": Code.NOT_READY})


def test_a_placement_that_nobody_knows_stays_on_its_node() -> None:
    nodes = [LabelledNode("a", labels={PLACEMENT_LABEL: "sideways"})]
    assert list_codes(describe(*nodes)) == {"a": Code.PLACEMENT_IGNORED}
    assert [each.labels for each in prove_all(*nodes).foreseen] == [
        {POOL_LABEL: (None, "np1-share")}
    ]
