"""Nodes get their pool's labels, keep them, and keep them when the pool goes."""

import pytest

from tests.kit.bench import DAEMONSETS, NODES, Bench
from tests.kit.cluster.expect import (
    expect_gone,
    expect_labels,
    expect_pool_ready,
    expect_reason,
    watch_delivers,
)
from tests.kit.cluster.operator_processes import PATIENT
from tests.kit.cluster.sharing_pools import given_sharing_pool
from tests.kit.values.manifests import build_pool

MODE = "ack.node.gpu.schedule"
PLACEMENT = "ack.node.gpu.placement"
POOL = "gpushare.io/pool"


@pytest.fixture(autouse=True)
def professional(bench: Bench) -> None:
    bench.install("Professional")


def test_the_smallest_pool_labels_fifty_nodes_and_kubectl_shows_it(bench: Bench) -> None:
    bench.operators.start(env=PATIENT)
    bench.add_nodes(*(f"gpu-{index:02d}" for index in range(50)))
    bench.cluster.kubectl(
        "apply", "--validate=strict", "-f", "-",
        stdin="""
apiVersion: gpushare.io/v1alpha1
kind: GPUSharePool
metadata: {name: training}
spec:
  nodes: {selector: {matchLabels: {alibabacloud.com/nodepool-id: np1}}}
  schedule: cgpu
""",
    )  # fmt: skip

    expect_pool_ready(bench, nodes=50, within=90)

    labels = [node["metadata"]["labels"] for node in bench.call("GET", NODES)["items"]]
    assert {(each[MODE], each[POOL]) for each in labels} == {("cgpu", "training")}
    header, row = bench.cluster.kubectl("get", "gsp").splitlines()
    shown = dict(zip(header.split(), row.replace("cgpu  ", "cgpu - ", 1).split(), strict=True))
    assert shown | {"AGE": "", "GPU-MEM": "", "MEM-SINCE": ""} == {
        "NAME": "training", "SCHEDULE": "cgpu", "PLACEMENT": "-", "NODES": "50", "READY": "50",
        "UPDATING": "0", "GPU-MEM": "", "MEM-SINCE": "",
        "STATUS": "AllNodesReady", "AGE": "",
    }  # fmt: skip


@pytest.mark.usefixtures("operator")
def test_labels_and_annotations_of_others_are_left_alone(bench: Bench) -> None:
    theirs = {"example.com/team": "vision", "gpushare": "false"}
    bench.add_nodes("n1", labels=theirs, annotations={"example.com/note": "ours"})
    bench.create_pool(build_pool())
    expect_pool_ready(bench, nodes=1)

    node = bench.node("n1")["metadata"]
    assert theirs.items() <= node["labels"].items()
    assert node["annotations"]["example.com/note"] == "ours"
    assert PLACEMENT not in node["labels"]


@pytest.mark.usefixtures("operator")
def test_a_node_that_was_given_up_can_be_relabelled_by_anybody(bench: Bench) -> None:
    given_sharing_pool(bench, "Professional", "n1")
    bench.cluster.kubectl("delete", "gsp", "training", "--timeout=30s")
    mark = bench.audit.mark()

    bench.label("n1", {MODE: "default"})
    bench.create_pool(build_pool("another", node_pool="np2"))

    expect_pool_ready(bench, "another", nodes=0)
    expect_labels(bench, "n1", {MODE: "default"})
    assert not [call for call in bench.audit.our_writes(mark) if call.resource == "nodes"]


@pytest.mark.usefixtures("operator")
def test_a_mode_whose_installer_is_not_in_the_cluster_is_not_begun(bench: Bench) -> None:
    given_sharing_pool(bench, "Professional", "n1", "n2")
    installer = f"{DAEMONSETS}/cgpu-installer"
    with watch_delivers(bench, "daemonsets"):
        bench.call("DELETE", installer)
        expect_gone(bench, installer)
    mark = bench.audit.mark()

    bench.change_pool(schedule="cgpu")

    assert "cgpu-installer" in expect_reason(bench, "n1", "ComponentMissing")["message"]
    assert not [call for call in bench.audit.our_writes(mark) if call.resource == "nodes"]
    bench.install("Professional")
    expect_pool_ready(bench, nodes=2)
    expect_labels(bench, "n1", {MODE: "cgpu"})
