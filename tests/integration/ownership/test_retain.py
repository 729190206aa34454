"""A cluster on which the operator was used and every pool deleted with Retain: what is different.

The list of differences was written down beforehand; anything else is a trace that must not be.
"""

import re

import pytest

from tests.integration.ownership.label_conflict import LabelConflict, write_label
from tests.kit.bench import MODE, NODES, PLACEMENT, POOL, POOLS, Bench, Json
from tests.kit.cluster.expect import (
    expect,
    expect_gone,
    expect_labels,
    expect_pool_ready,
    expect_quiet,
    expect_running,
    list_traces,
)
from tests.kit.cluster.object_diff import find_differences
from tests.kit.values.manifests import NODE_POOL_LABEL, build_pod, build_pool

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
