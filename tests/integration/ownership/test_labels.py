"""Nodes get their pool's labels, keep them, and keep them when the pool goes."""

import json
from typing import Any

import pytest

from devcluster.nodes import add_nodes, build_gpu_node
from tests.kit.bench import DAEMONSETS, NODES, POOLS, Bench
from tests.kit.cluster.expect import (
    expect,
    expect_gone,
    expect_gpu_memory,
    expect_labels,
    expect_pool_ready,
    expect_reason,
    expect_running,
    watch_delivers,
)
from tests.kit.cluster.operator_processes import PATIENT
from tests.kit.values.manifests import NODE_POOL_LABEL, build_pod, build_pool

MODE = "ack.node.gpu.schedule"
PLACEMENT = "ack.node.gpu.placement"
POOL = "gpushare.io/pool"
MANAGER = "gpushare-operator"


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


def given_pool(bench: Bench, *nodes: str, schedule: str = "share", **spec: Any) -> None:
    """Nodes in a pool that is Ready."""
    bench.add_nodes(*nodes)
    bench.create_pool(build_pool(schedule=schedule, **spec))
    expect_pool_ready(bench, nodes=len(nodes))


@pytest.mark.usefixtures("operator")
def test_a_label_that_was_deleted_by_hand_comes_back(bench: Bench) -> None:
    given_pool(bench, "n1")
    for key in (MODE, POOL):
        bench.label("n1", {key: None})
        expect_labels(bench, "n1", {MODE: "share", POOL: "training"})


@pytest.mark.usefixtures("operator")
def test_a_label_that_was_changed_by_hand_is_put_back_without_a_restart(bench: Bench) -> None:
    given_pool(bench, "n1")
    # Else it may be quick enough to load the kernel module, which no label takes out again.
    bench.call("DELETE", f"{DAEMONSETS}/cgpu-installer")
    mark = bench.audit.mark()

    bench.label("n1", {MODE: "cgpu"})

    expect_labels(bench, "n1", {MODE: "share"})
    expect_pool_ready(bench, nodes=1)
    assert bench.audit.our_deletions(mark) == []


@pytest.mark.usefixtures("operator")
def test_what_a_node_had_before_is_recorded_before_it_is_taken_over(bench: Bench) -> None:
    bench.add_nodes("n1", labels={MODE: "default", PLACEMENT: "binpack"})
    with bench.watching() as watch:
        bench.create_pool(build_pool(placement="spread"))
        expect_pool_ready(bench, nodes=1)

    found = json.loads(bench.node("n1")["metadata"]["annotations"]["gpushare.io/found"])
    assert found == {MODE: "default", PLACEMENT: "binpack", POOL: None}
    changed = [n["metadata"] for n in watch.history if n["metadata"]["labels"][MODE] == "share"]
    assert all("gpushare.io/found" in each["annotations"] for each in changed)


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
def test_a_control_plane_node_is_a_member_only_by_name(bench: Bench) -> None:
    control_plane = {"node-role.kubernetes.io/control-plane": ""}
    bench.add_nodes("n1")
    bench.add_nodes("master", labels=control_plane)
    bench.create_pool(build_pool())
    expect_pool_ready(bench, nodes=1)
    assert POOL not in bench.node("master")["metadata"]["labels"]

    selector = {"matchLabels": {NODE_POOL_LABEL: "np1"}}
    bench.change_pool(nodes={"selector": selector, "names": ["master"]})

    expect_labels(bench, "master", {POOL: "training", MODE: "share"})


@pytest.mark.usefixtures("operator")
def test_names_add_members_and_exclude_takes_them_out(bench: Bench) -> None:
    bench.add_nodes("n1", "n2")
    bench.add_nodes("other", node_pool="np2")
    selector = {"matchLabels": {NODE_POOL_LABEL: "np1"}}
    bench.create_pool(
        build_pool(nodes={"selector": selector, "names": ["other"], "exclude": ["n2"]})
    )

    expect_pool_ready(bench, nodes=2)

    expect_labels(bench, "n1", {POOL: "training"})
    expect_labels(bench, "other", {POOL: "training"})
    expect_labels(bench, "n2", {POOL: None, MODE: None})


@pytest.mark.usefixtures("operator")
def test_a_change_of_placement_needs_no_cordon_and_no_restart(bench: Bench) -> None:
    given_pool(bench, "n1", placement="binpack")
    mark = bench.audit.mark()
    with bench.watching() as watch:
        bench.change_pool(placement="spread")
        expect_labels(bench, "n1", {PLACEMENT: "spread"})
        expect_pool_ready(bench, nodes=1)

    assert not any(node["spec"].get("unschedulable") for node in watch.history)
    assert bench.audit.our_deletions(mark) == []


# Overlap.


@pytest.mark.usefixtures("operator")
def test_the_higher_priority_wins_a_node_and_the_loser_names_it(bench: Bench) -> None:
    given_pool(bench, "n1")

    bench.create_pool(build_pool("urgent", priority=200))

    expect_labels(bench, "n1", {POOL: "urgent"})
    sample = expect_reason(bench, "n1", "OwnedByOtherPool")
    assert "urgent" in sample["message"]
    assert "priority is higher (200 > 100)" in sample["message"]
    expect_pool_ready(bench, "urgent", nodes=1)


@pytest.mark.usefixtures("operator")
def test_of_equal_priority_the_owner_keeps_its_node(bench: Bench) -> None:
    given_pool(bench, "n1")

    bench.create_pool(build_pool("another"))

    sample = expect_reason(bench, "n1", "OwnedByOtherPool", pool="another")
    assert "training" in sample["message"]
    expect_labels(bench, "n1", {POOL: "training"})


@pytest.mark.parametrize("first", ["a-pool", "z-pool"])
def test_without_an_owner_the_older_pool_wins(bench: Bench, first: str) -> None:
    bench.operators.end_all()
    second = {"a-pool": "z-pool", "z-pool": "a-pool"}[first]
    bench.add_nodes("n1")
    created = bench.create_pool(build_pool(first))["metadata"]["creationTimestamp"]

    def create_later() -> bool:
        # Ages are told in whole seconds: try until the younger one really is younger.
        later = bench.create_pool(build_pool(second))["metadata"]["creationTimestamp"]
        if later == created:
            bench.delete_pool(second)
        return bool(later > created)

    expect(bench, "the second pool is younger", create_later)
    bench.operators.standard()

    expect_labels(bench, "n1", {POOL: first})
    sample = expect_reason(bench, "n1", "OwnedByOtherPool", pool=second)
    assert first in sample["message"]


@pytest.mark.usefixtures("operator")
def test_a_node_that_leaves_one_pool_goes_to_the_other_that_claims_it(bench: Bench) -> None:
    given_pool(bench, "n1")
    bench.create_pool(build_pool("another"))
    expect_reason(bench, "n1", "OwnedByOtherPool", pool="another")

    bench.delete_pool("training")

    expect_labels(bench, "n1", {POOL: "another", MODE: "share"})
    expect_gone(bench, f"{POOLS}/training")


# Leaving.


@pytest.mark.usefixtures("operator")
def test_deleting_a_pool_keeps_every_label_and_gives_up_the_rest(bench: Bench) -> None:
    given_pool(bench, "n1", "n2", placement="spread")

    bench.cluster.kubectl("delete", "gsp", "training", "--timeout=30s")

    for name in ("n1", "n2"):
        meta = bench.node(name)["metadata"]
        assert {MODE: "share", PLACEMENT: "spread", POOL: "training"}.items() <= (
            meta["labels"].items()
        )
        assert not [key for key in meta["annotations"] if key.startswith("gpushare.io/")]
        assert MANAGER not in {entry["manager"] for entry in meta["managedFields"]}


@pytest.mark.usefixtures("operator")
def test_a_node_that_was_given_up_can_be_relabelled_by_anybody(bench: Bench) -> None:
    given_pool(bench, "n1")
    bench.cluster.kubectl("delete", "gsp", "training", "--timeout=30s")
    mark = bench.audit.mark()

    bench.label("n1", {MODE: "default"})
    bench.create_pool(build_pool("another", node_pool="np2"))

    expect_pool_status(bench, "another", "NoNodes")
    expect_labels(bench, "n1", {MODE: "default"})
    assert not [call for call in bench.audit.our_writes(mark) if call.resource == "nodes"]


def expect_pool_status(bench: Bench, pool: str, reason: str) -> None:
    def probe() -> bool:
        conditions = bench.pool(pool).get("status", {}).get("conditions", [])
        return any(condition["reason"] == reason for condition in conditions)

    expect(bench, f"pool {pool} says {reason}", probe)


@pytest.mark.usefixtures("operator")
def test_a_node_that_comes_back_under_its_name_gets_its_labels_again(bench: Bench) -> None:
    given_pool(bench, "n1")
    before = bench.node("n1")["metadata"]["uid"]

    bench.call("DELETE", f"{NODES}/n1")
    add_nodes(bench.cluster, [build_gpu_node("n1", labels={NODE_POOL_LABEL: "np1"})])

    node = expect_labels(bench, "n1", {MODE: "share", POOL: "training"})
    assert node["metadata"]["uid"] != before
    expect_pool_ready(bench, nodes=1)


# Nodes that are left alone.


def expect_untouched(bench: Bench, node: str, reason: str, mark: int) -> str:
    """The pool gives `reason`, and nothing was written to the node; the sentence that it gives."""
    message: str = expect_reason(bench, node, reason)["message"]
    assert not [call for call in bench.audit.our_writes(mark) if call.resource == "nodes"]
    return message


@pytest.mark.usefixtures("operator")
def test_a_node_that_offers_mig_devices_is_left_alone(bench: Bench) -> None:
    bench.add_nodes("n1")
    amount = {"nvidia.com/mig-1g.5gb": "7"}
    status = {"capacity": amount, "allocatable": amount}
    with watch_delivers(bench, "nodes"):
        bench.call("PATCH", f"{NODES}/n1/status", {"status": status})
    mark = bench.audit.mark()
    bench.create_pool(build_pool())
    expect_untouched(bench, "n1", "MigNode", mark)


@pytest.mark.usefixtures("operator")
def test_a_node_with_another_editions_labels_is_left_alone(bench: Bench) -> None:
    bench.add_nodes("n1", labels={"cgpu": "true"})
    mark = bench.audit.mark()
    bench.create_pool(build_pool())
    assert "cgpu=true" in expect_untouched(bench, "n1", "OtherEditionLabels", mark)


@pytest.mark.usefixtures("operator")
def test_leaving_cgpu_for_share_needs_a_teardown_and_nothing_is_written(bench: Bench) -> None:
    given_pool(bench, "n1", schedule="cgpu")
    mark = bench.audit.mark()

    bench.change_pool(schedule="share")

    message = expect_untouched(bench, "n1", "RequiresTeardown", mark)
    assert "gpushare.io/teardown=start" in message
    assert "reboot" in message
    expect_labels(bench, "n1", {MODE: "cgpu"})


@pytest.mark.usefixtures("operator")
def test_a_mode_whose_installer_is_not_in_the_cluster_is_not_begun(bench: Bench) -> None:
    given_pool(bench, "n1", "n2")
    installer = "/apis/apps/v1/namespaces/kube-system/daemonsets/cgpu-installer"
    with watch_delivers(bench, "daemonsets"):
        bench.call("DELETE", installer)
        expect_gone(bench, installer)
    mark = bench.audit.mark()

    bench.change_pool(schedule="cgpu")

    assert "cgpu-installer" in expect_untouched(bench, "n1", "ComponentMissing", mark)
    bench.install("Professional")
    expect_pool_ready(bench, nodes=2)
    expect_labels(bench, "n1", {MODE: "cgpu"})


@pytest.mark.usefixtures("operator")
def test_pods_that_select_the_pool_run_on_after_it_is_deleted(bench: Bench) -> None:
    given_pool(bench, "n1")
    expect_gpu_memory(bench, "n1")
    bench.create_pod(build_pod("early", selects={POOL: "training"}))
    expect_running(bench, "early")

    bench.cluster.kubectl("delete", "gsp", "training", "--timeout=30s")

    bench.create_pod(build_pod("late", selects={POOL: "training"}))
    expect_running(bench, "late")
    expect_running(bench, "early")
