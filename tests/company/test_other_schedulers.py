"""Other schedulers over pools: one that calls gpushare's extender, as Koordinator's can, and one
that binds pods by the memory of nodes, as Volcano does."""

import json
import os
from collections.abc import Iterator

import pytest
import yaml

from tests.company.page import find_manifest, kubectl_apply
from tests.kit.bench import PODS, Bench, Json
from tests.kit.cluster.command_line import run_command
from tests.kit.cluster.expect import expect, expect_capacity, expect_pool_ready, expect_running
from tests.kit.cluster.pod_admission import decision_of, pool_of
from tests.kit.values.manifests import build_pod, build_pool

CARD = "ALIYUN_COM_GPU_MEM_IDX"
VALUES = "my-values.yaml"


@pytest.fixture
def shared(bench: Bench) -> Bench:
    """A pool with a node of two cards, and a webhook with the page's list of schedulers."""
    listed = yaml.safe_load(find_manifest(VALUES))["webhook"]["schedulers"]
    bench.install("OpenSource")
    bench.add_nodes("n1", cards=2)
    bench.operators.start(env={"GPUSHARE_SCHEDULERS": json.dumps(listed)})
    bench.create_pool(build_pool(edition="OpenSource"))
    expect_pool_ready(bench, nodes=1)
    return bench


@pytest.fixture
def second_scheduler(shared: Bench) -> Iterator[None]:
    """A kube-scheduler with Koordinator's name, and the extender of the first in its settings."""
    cluster = shared.cluster
    settings = yaml.safe_load((cluster.logs.parent / "scheduler.yaml").read_text())
    settings |= {
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(cluster.kubeconfig)},
        "profiles": [{"schedulerName": "koord-scheduler"}],
    }
    file = cluster.logs.parent / "second-scheduler.yaml"
    file.write_text(yaml.safe_dump(settings))
    command = [str(cluster.binaries / "kube-scheduler"), f"--config={file}", "--secure-port=0"]
    process = cluster.spawn(command, log="second-scheduler.log", env=os.environ)
    yield
    process.kill()
    process.wait()


def test_pods_of_a_scheduler_with_the_extender_get_a_pool_and_a_card(
    shared: Bench, second_scheduler: None
) -> None:
    kubectl_apply(shared, find_manifest("koordinator.yaml"))
    pod = expect_running(shared, "notebook")
    assert (pool_of(pod), decision_of(pod)["pool"]) == ("training", "training")
    assert pod["metadata"]["annotations"][CARD] in ("0", "1")
    expect_capacity(shared, memoryAllocated=4, memoryRequested=4)


def bind(bench: Bench, pod: Json, node: str) -> str:
    """Create a pod of Volcano's scheduler, and bind it as that does."""
    name = bench.create_pod(pod)
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    bench.call("POST", f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": target})
    return name


def test_a_pod_that_was_bound_without_a_card_takes_room_and_is_told_why_it_fails(
    shared: Bench,
) -> None:
    pod = build_pod(
        "worker", gib=8, schedulerName="volcano", selects={"gpushare.io/pool": "training"}
    )
    name = bind(shared, pod, "n1")
    assert decision_of(shared.pod(name))["reason"] == "OtherScheduler"
    expect_capacity(shared, memoryAllocated=0, memoryRequested=8)

    def ask() -> bool:
        said = run_command(
            "explain", "pod", name, kubeconfig=shared.cluster.kubeconfig, COLUMNS="200"
        )
        return "NoCardAllocated: Scheduler volcano bound the pod without a card" in said.out

    expect(shared, "explain tells why it does not start", ask)


def test_a_pod_that_holds_a_card_of_another_scheduler_is_named(shared: Bench) -> None:
    resource = "koordinator.sh/gpu-core"
    pod = build_pod("own", gib=None, schedulerName="koord-scheduler")
    pod["spec"]["containers"][0]["resources"] = {
        "limits": {resource: "50"},
        "requests": {resource: "50"},
    }
    offered = {"status": {kind: {resource: "200"} for kind in ("capacity", "allocatable")}}
    shared.call("PATCH", "/api/v1/nodes/n1/status", offered)
    name = bind(shared, pod, "n1")
    told = f"default/{name} ({resource} of container main)"
    for command in (["doctor"], ["explain", "node", "n1"]):
        said = run_command(*command, kubeconfig=shared.cluster.kubeconfig, COLUMNS="400")
        assert told in said.out
    expect_capacity(shared, memoryRequested=0)
