"""Pools whose selector covers nodes that have no card, or on which nothing shows one."""

import pytest

from devcluster.nodes import build_gpu_node
from tests.kit.bench import GPU_MEM, MODE, NODES, POOL, Bench
from tests.kit.cluster.expect import (
    expect,
    expect_labels,
    expect_pool_ready,
    expect_reason,
    expect_step,
)
from tests.kit.cluster.sharing_pools import given_sharing_pool
from tests.kit.values.manifests import NODE_POOL, NODE_POOL_LABEL, build_pool

OTHERS = ("cpu", "win", "virtual")
SIGNS = [f"aliyun.accelerator/nvidia_{what}" for what in ("count", "mem", "name")]
SELECTOR = {"matchLabels": {NODE_POOL_LABEL: NODE_POOL}}


def is_unchanged(bench: Bench, node: str) -> bool:
    """In service, without a label or record of ours."""
    raw = bench.node(node)
    keys = {*raw["metadata"]["labels"], *raw["metadata"].get("annotations", {})}
    is_ours = MODE in keys or any(key.startswith("gpushare") for key in keys)
    return not (is_ours or raw["spec"].get("unschedulable"))


def has_record(bench: Bench, node: str, kind: str = "change") -> bool:
    return f"gpushare.io/{kind}" in bench.node(node)["metadata"]["annotations"]


def add_bare_node(bench: Bench, name: str) -> None:
    """A GPU node as bare metal registers: its cards show once a device plugin runs."""
    node = build_gpu_node(name, labels={NODE_POOL_LABEL: NODE_POOL})
    for sign in SIGNS:
        del node["metadata"]["labels"][sign]
    bench.call("POST", NODES, node)


@pytest.mark.usefixtures("operator")
def test_a_selector_that_covers_every_node_changes_those_with_cards_alone(bench: Bench) -> None:
    """HAMi-DRA#17, kubernetes#103086: all of them were cordoned at once."""
    bench.install("Professional")
    bench.add_nodes("gpu")
    bench.add_other_nodes(("CPU", "cpu"), ("Windows", "win"), ("virtual", "virtual"))
    mark = bench.audit.mark()
    bench.create_pool(build_pool())
    expect_labels(bench, "gpu", {POOL: "training", MODE: "share"})
    for node in OTHERS:
        expect_reason(bench, node, "NoGpuOnNode", "spec.nodes.exclude")
    assert all(is_unchanged(bench, node) for node in OTHERS)
    written = {call.name for call in bench.audit.our_writes(mark) if call.resource == "nodes"}
    assert written == {"gpu"}


@pytest.mark.usefixtures("operator")
def test_records_that_are_copied_onto_a_node_without_a_card_change_nothing_there(
    bench: Bench,
) -> None:
    given_sharing_pool(bench, "Professional", "gpu")
    bench.add_other_nodes(("CPU", "cpu"))
    bench.cordon("cpu")
    bench.set_faults("gpu", start_delay_seconds=60)
    bench.change_pool(schedule="cgpu")
    expect_step(bench, "gpu", "Restarting")
    notes = bench.node("gpu")["metadata"]["annotations"]
    copied = {key: text for key, text in notes.items() if key.startswith("gpushare.io/")}
    assert copied.keys() >= {f"gpushare.io/{kind}" for kind in ("applied", "change")}

    # As `kubectl annotate --all` and a restored backup do.
    bench.annotate(f"{NODES}/cpu", copied)
    bench.set_faults("gpu")

    expect(bench, "the change is over", lambda: not has_record(bench, "gpu"))
    expect(bench, "the copy is removed", lambda: not has_record(bench, "cpu"))
    assert not has_record(bench, "cpu", "applied")
    raw = bench.node("cpu")
    assert raw["spec"]["unschedulable"]
    assert not {POOL, MODE} & raw["metadata"]["labels"].keys()


@pytest.mark.usefixtures("operator")
def test_bare_metal_joins_by_what_the_pool_says_and_stays_without_it(bench: Bench) -> None:
    bench.install("OpenSource")
    add_bare_node(bench, "metal")
    bench.create_pool(build_pool(edition="OpenSource"))
    expect_reason(bench, "metal", "NoGpuOnNode", "spec.nodes.cards")
    assert is_unchanged(bench, "metal")
    bench.change_pool(nodes={"cards": "Assumed"})
    expect_pool_ready(bench, nodes=1)
    # Its mode was verified: from now on its card is known.
    bench.change_pool(nodes={"cards": "Detected"})
    expect_pool_ready(bench, nodes=1)
    expect_labels(bench, "metal", {POOL: "training", "gpushare": "true"})


@pytest.mark.usefixtures("operator")
def test_what_was_begun_on_a_node_without_cards_is_taken_back(bench: Bench) -> None:
    bench.install("OpenSource")
    bench.add_other_nodes(("CPU", "cpu"))
    nodes = {"selector": SELECTOR, "cards": "Assumed"}
    bench.create_pool(build_pool(edition="OpenSource", nodes=nodes))
    expect_labels(bench, "cpu", {"gpushare": "true"})
    assert bench.node("cpu")["spec"]["unschedulable"]
    assert GPU_MEM not in bench.node("cpu")["status"]["capacity"]
    bench.change_pool(nodes={"cards": "Detected"})
    expect(bench, "the node is as it was", lambda: is_unchanged(bench, "cpu"))
    expect_reason(bench, "cpu", "NoGpuOnNode")
