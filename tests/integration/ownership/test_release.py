"""A node leaves its pool: what stays on it, what goes, and that nothing holds a pool for ever."""

import re
from collections.abc import Mapping
from typing import Any

import pytest

from tests.integration.nodechange.node_modes import EXPECTED_MODES, expect_offer
from tests.integration.ownership.label_conflict import LabelConflict, write_label
from tests.kit.bench import MODE, NODES, PLACEMENT, POOL, POOLS, Bench, Json
from tests.kit.cluster.denying_policy import SENTENCE, node_writes_denied
from tests.kit.cluster.expect import (
    expect,
    expect_gone,
    expect_labels,
    expect_pool_ready,
    expect_quiet,
    expect_reason,
    expect_running,
    list_traces,
    read_events,
)
from tests.kit.cluster.object_diff import find_differences
from tests.kit.cluster.sharing_pools import given_sharing_pool, place_pod
from tests.kit.values.manifests import NODE_POOL_LABEL, build_pod, build_pool

TRAINING = f"{POOLS}/training"
OURS = {MODE, PLACEMENT, POOL, "cgpu", "cgpu.disable.isolation", "gpushare"}
"""Labels that the operator writes, in whatever edition."""
IMPATIENT = {"GPUSHARE_RELEASE_PATIENCE_SECONDS": "12", "GPUSHARE_RESYNC_SECONDS": "1"}
"""An operator that gives up waiting for a node after seconds."""


def expect_given_up(bench: Bench, node: str, labels: Mapping[str, str]) -> None:
    """Nothing on the node is ours, of our labels it has just these, and it takes pods."""

    def probe() -> Json | None:
        found = bench.node(node)
        return None if list_traces(found) else found

    found = expect(bench, f"{node} is given up", probe)
    kept = {k: v for k, v in found["metadata"]["labels"].items() if k in OURS}
    assert kept == labels
    assert not found["spec"].get("unschedulable")


# WholeCard.


@pytest.mark.usefixtures("operator")
@pytest.mark.parametrize("edition", ["Professional", "Basic", "OpenSource"])
def test_whole_card_takes_nodes_back_one_at_a_time_and_lets_go_once_cards_are_offered(
    bench: Bench, edition: Any
) -> None:
    whole = EXPECTED_MODES[edition]["default"]
    nodes = ("n1", "n2", "n3") if edition == "Professional" else ("n1", "n2")
    given_sharing_pool(bench, edition, *nodes, deletionPolicy="WholeCard")
    with bench.watching() as watch:
        bench.cluster.kubectl("delete", "gsp", "training", "--timeout=60s")

    for node in nodes:
        expect_given_up(bench, node, whole.labels)
        expect_offer(bench, node, whole)
        states = [each for each in watch.history if each["metadata"]["name"] == node]
        left = next(each for each in states if POOL not in each["metadata"]["labels"])
        assert left["status"]["allocatable"]["aliyun.com/gpu-mem"] == "0"
        if edition != "OpenSource":
            # It alone has no plugin for whole cards that could be waited for.
            assert left["status"]["allocatable"]["nvidia.com/gpu"] == "1"
    out = watch.most_at_once(lambda node: bool(node["spec"].get("unschedulable")))
    assert len(out) == 1


# Restore.


@pytest.mark.usefixtures("operator")
@pytest.mark.parametrize(
    ("edition", "found"),
    [
        ("Professional", {MODE: "default", PLACEMENT: "binpack"}),
        ("Professional", {}),
        ("Basic", {}),
        ("OpenSource", {"gpushare": "false"}),
    ],
)
def test_restore_brings_back_what_was_found_and_no_more(
    bench: Bench, edition: Any, found: dict[str, str]
) -> None:
    bench.install(edition)
    bench.add_nodes("n1", labels=found)
    spec: Json = {"placement": "spread"} if edition == "Professional" else {}
    bench.create_pool(build_pool(edition=edition, deletionPolicy="Restore", **spec))
    expect_pool_ready(bench, nodes=1)

    bench.cluster.kubectl("delete", "gsp", "training", "--timeout=60s")

    expect_given_up(bench, "n1", found)
    if found:
        expect_offer(bench, "n1", EXPECTED_MODES[edition]["default"])


# What must not hold a pool.


@pytest.mark.usefixtures("operator")
def test_a_node_that_is_gone_holds_no_pool(bench: Bench) -> None:
    given_sharing_pool(bench, "Professional", "n1", "n2", deletionPolicy="WholeCard")
    expect_running(bench, place_pod(bench, "train-1", "n1"))
    bench.delete_pool()
    assert "default/train-1" in expect_reason(bench, "n1", "WorkloadsPresent")["message"]

    bench.call("DELETE", f"{NODES}/n1")

    expect_gone(bench, TRAINING)


def test_a_node_that_refuses_our_writes_is_left_behind_and_given_up_later(bench: Bench) -> None:
    bench.operators.start(env=IMPATIENT)
    given_sharing_pool(bench, "Professional", "n1", "n2")
    pool, kept = bench.pool(), {MODE: "share", POOL: "training"}
    with node_writes_denied(bench, "n2"):
        bench.delete_pool()
        sample = expect_reason(bench, "n2", "WriteRefused")
        assert SENTENCE in sample["message"]
        expect_gone(bench, TRAINING)
        expect_given_up(bench, "n1", kept)
        (event,) = expect(
            bench, "an Event lists them", lambda: read_events(bench, pool, "NodesLeftBehind")
        )
        assert event["note"].endswith(": n2")
        expect_labels(bench, "n2", kept)
        assert list_traces(bench.node("n2"))

    expect_given_up(bench, "n2", kept)


# Retain, on a cluster on which the operator was used.

KEYS = "|".join(re.escape(key) for key in (MODE, PLACEMENT, POOL))

ALLOWED: dict[str, str] = {
    r"/metadata/resourceVersion": "every write of anybody's moves it",
    rf"/metadata/labels/({KEYS})": "Retain keeps the labels",
    r"/metadata/annotations/gpushare\.io/module": "the kernel module outlives the pool",
    r"/metadata/annotations/sim\.devcluster/.*": "the simulator's own records",
    r"/status/(capacity|allocatable)/(aliyun|nvidia)\.com/.*": "the mode's own resources",
    rf"managedFields/(devcluster|kubectl-label|nfd-master)/.*/f:({KEYS})": (
        "a key that was taken over belongs to nobody afterwards"
    ),
    r"managedFields/devcluster-simulator/.*": "the node's own side, played",
}
"""What is different after Retain, written down beforehand: anything else must not be."""


def read_nodes(bench: Bench) -> dict[str, Json]:
    return {node["metadata"]["name"]: node for node in bench.call("GET", NODES)["items"]}


def given_nodes_of_different_kinds(bench: Bench) -> None:
    """Nodes of one node pool, some touched by others, and one that no pool will ever have."""
    bench.install("Professional")
    bench.add_nodes("bare")
    bench.add_nodes("joined", labels={MODE: "default"})
    bench.add_nodes(
        "settled",
        labels={MODE: "share", PLACEMENT: "binpack", "example.com/team": "vision"},
        annotations={"example.com/note": "ours"},
    )
    bench.add_nodes("labelled", "applied")
    bench.add_nodes("elsewhere", node_pool="np2", labels={MODE: "default"})
    write_label(bench, "labelled", MODE, "default")
    write_label(bench, "labelled", "example.com/rack", "r1", manager="node-admin")
    LabelConflict(
        bench, "applied", PLACEMENT, "binpack", manager="nfd-master", applies=True
    ).write()
    bench.cordon("elsewhere")
    expect(bench, "its taint is there", lambda: bench.node("elsewhere")["spec"].get("taints"))
    expect_quiet(bench, "no node changes any more", lambda: read_nodes(bench))


def use_the_operator(bench: Bench) -> None:
    """Everything that a pool does to its nodes, and that people do to them meanwhile."""
    bench.create_pool(build_pool(placement="spread"))
    expect_pool_ready(bench, nodes=5)
    bench.create_pod(build_pod("train-1", selects={POOL: "training"}))
    expect_running(bench, "train-1")
    bench.label("joined", {MODE: None})
    write_label(bench, "bare", PLACEMENT, "binpack")
    expect_labels(bench, "joined", {MODE: "share"})
    expect_labels(bench, "bare", {PLACEMENT: "spread"})
    with LabelConflict(bench, "settled", PLACEMENT, "binpack") as conflict:
        expect(bench, "the rival was met", lambda: conflict.writes > 10)
    bench.annotate(f"{NODES}/settled", {"gpushare.io/retry": "1"})
    expect_labels(bench, "settled", {PLACEMENT: "spread"})
    bench.delete_pod("train-1")
    bench.change_pool(schedule="cgpu", placement="binpack")
    expect_pool_ready(bench, nodes=5, within=90)
    bench.create_pool(
        build_pool("urgent", schedule="cgpu", priority=200, nodes={"names": ["bare"]})
    )
    expect_pool_ready(bench, "urgent", nodes=1)
    bench.change_pool(
        nodes={"selector": {"matchLabels": {NODE_POOL_LABEL: "np1"}}, "exclude": ["labelled"]}
    )
    expect(bench, "one node left", lambda: bench.pool()["status"]["nodes"]["matched"] == 4)


@pytest.mark.usefixtures("operator")
def test_nothing_but_the_labels_tells_that_the_operator_was_here(bench: Bench) -> None:
    given_nodes_of_different_kinds(bench)
    before = read_nodes(bench)
    use_the_operator(bench)

    # The other way round, training would get the node that urgent leaves.
    for pool in ("training", "urgent"):
        bench.delete_pool(pool)
    for pool in ("urgent", "training"):
        expect_gone(bench, f"{POOLS}/{pool}")
    expect_quiet(bench, "no node changes any more", lambda: read_nodes(bench))
    after = read_nodes(bench)

    assert before.keys() == after.keys()
    unexpected = {
        f"{name}: {path}": values
        for name in before
        for path, values in find_differences(before[name], after[name]).items()
        if not any(re.fullmatch(pattern, path) for pattern in ALLOWED)
    }
    assert not unexpected
    assert {name: traces for name, node in after.items() if (traces := list_traces(node))} == {}
    kept = {name: labels_of(node) for name, node in after.items() if name != "elsewhere"}
    assert {labels[MODE] for labels in kept.values()} == {"cgpu"}
    assert {labels[POOL] for labels in kept.values()} == {"training", "urgent"}
    assert labels_of(after["elsewhere"]) == labels_of(before["elsewhere"])


def labels_of(node: Json) -> Json:
    labels: Json = node["metadata"]["labels"]
    return labels
