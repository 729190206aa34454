"""Nodes whose cards another stack gives out too: NVIDIA's plugin by its chart, and DRA."""

from collections.abc import Iterator
from functools import partial

import pytest

from devcluster.plugins import build_hami_plugin, build_nvidia_plugin
from tests.kit.bench import MODE, POOL, Bench, Json
from tests.kit.cluster.command_line import run_command
from tests.kit.cluster.expect import (
    expect,
    expect_capacity,
    expect_offered,
    expect_pool_ready,
    expect_reason,
    is_observed,
    read_change,
    read_events,
)
from tests.kit.cluster.installations import installation_with
from tests.kit.values.manifests import build_pod, build_pool

SHARE = {MODE: "share"}
NAMESPACE = "nvidia-device-plugin"
PLUGINS = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets"
CHART = "nvdp-nvidia-device-plugin"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"


def build_slice(node: str, driver: str) -> Json:
    """What a DRA driver publishes of a node with one card."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{driver}"},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0"}],
        },
    }


def create_claim(bench: Bench, name: str, driver: str, node: str) -> None:
    """A claim that the scheduler gave a device of this driver, on this node."""
    request = {"name": "r", "exactly": {"deviceClassName": driver}}
    spec = {"devices": {"requests": [request]}}
    manifest = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
    claim = manifest | {"metadata": {"name": name}, "spec": spec}
    bench.call("POST", CLAIMS, claim)
    result = {"request": "r", "driver": driver, "pool": node, "device": "gpu-0"}
    status = {"status": {"allocation": {"devices": {"results": [result]}}}}
    bench.call("PATCH", f"{CLAIMS}/{name}/status", status)


def create_claimant(bench: Bench, node: str, driver: str = "gpu.nvidia.com") -> None:
    """Pod `on-NODE`, which holds a device of this driver there by a claim."""
    create_claim(bench, f"of-{node}", driver, node)
    claims = [{"name": "c", "resourceClaimName": f"of-{node}"}]
    bench.create_pod(build_pod(f"on-{node}", gib=None, nodeName=node, resourceClaims=claims))


@pytest.fixture
def professional(bench: Bench) -> Iterator[Bench]:
    bench.install("Professional")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    if not bench.cluster.api.exists(f"/api/v1/namespaces/{NAMESPACE}"):
        bench.call("POST", "/api/v1/namespaces", namespace)
    yield bench
    bench.call("DELETE", PLUGINS)
    hami = "/apis/apps/v1/namespaces/kube-system/daemonsets/hami-device-plugin"
    if bench.cluster.api.exists(hami):
        bench.call("DELETE", hami)
    for path in (SLICES, CLAIMS):
        for each in bench.call("GET", path)["items"]:
            bench.call("DELETE", f"{path}/{each['metadata']['name']}")


@pytest.mark.usefixtures("operator")
def test_two_stacks_on_a_node_are_told_and_a_new_node_of_another_stack_gets_no_label(
    professional: Bench,
) -> None:
    bench = professional
    bench.add_nodes("fine", "twice", labels=SHARE)
    bench.call("POST", SLICES, build_slice("fine", "compute-domain.nvidia.com"))
    bench.create_pool(build_pool())
    expect_pool_ready(bench, nodes=2)
    expect_capacity(bench, memoryTotal=30)

    selector = {"kubernetes.io/hostname": "twice"}
    manifest = build_nvidia_plugin(selector, name=CHART, namespace=NAMESPACE)
    bench.call("POST", PLUGINS, manifest)
    # The driver's slice is there before the node is seen.
    bench.call("POST", SLICES, build_slice("new", "gpu.nvidia.com"))
    bench.add_nodes("new", labels=SHARE)

    told = expect_reason(bench, "twice", "CompetingStacks")["message"]
    assert f"pod {NAMESPACE}/{CHART}-" in told
    assert "ResourceSlice new-gpu" in expect_reason(bench, "new", "CompetingStacks")["message"]
    explained = run_command("explain", "node", "new", kubeconfig=bench.cluster.kubeconfig).out
    assert "NVIDIA's DRA driver\n" in explained
    expect_capacity(bench, memoryTotal=15)
    for about in (bench.pool(), bench.node("twice")):
        (event,) = expect(
            bench, "it is told", partial(read_events, bench, about, "CompetingStacks")
        )
        assert event["type"] == "Warning"

    mark = bench.audit.mark()
    bench.change_pool(schedule="cgpu")
    expect(
        bench,
        "the other node has changed",
        lambda: is_observed(bench.pool()) and bench.pool()["status"]["nodes"]["ready"] == 1,
    )
    assert {call.name for call in bench.audit.our_writes(mark) if call.resource == "nodes"} == {
        "fine"
    }
    labels = bench.labels()
    assert (labels["twice"][MODE], labels["new"].get(POOL)) == ("share", None)
    assert "unschedulable" not in bench.node("twice")["spec"]

    bench.call("DELETE", f"{PLUGINS}/{CHART}")
    expect(bench, "the member changes", lambda: bench.labels()["twice"].get(MODE) == "cgpu")


@pytest.mark.usefixtures("operator")
def test_pods_that_hold_cards_by_a_resource_claim_hold_up_the_change_of_their_node(
    professional: Bench,
) -> None:
    bench = professional
    bench.add_nodes("cards", "other", labels=SHARE)
    bench.create_pool(build_pool())
    expect_pool_ready(bench, nodes=2)
    create_claimant(bench, "cards")
    create_claimant(bench, "other", "nic.example.com")

    bench.change_pool(schedule="cgpu")
    expect(bench, "the other node changes", lambda: bench.labels()["other"].get(MODE) == "cgpu")
    assert "on-cards" in expect_reason(bench, "cards", "WorkloadsPresent")["message"]
    assert bench.labels()["cards"][MODE] == "share"

    bench.delete_pod("on-cards")
    expect(bench, "the node changes", lambda: bench.labels()["cards"].get(MODE) == "cgpu")


def test_a_pod_that_gets_cards_by_a_claim_after_the_cordon_is_seen_before_the_labels(
    professional: Bench,
) -> None:
    bench = professional
    bench.operators.start(env={"GPUSHARE_RECHECK_SECONDS": "8"})
    bench.add_nodes("cards", labels=SHARE)
    bench.create_pool(build_pool())
    expect_pool_ready(bench, nodes=1)
    with bench.watching() as watch:
        bench.change_pool(schedule="cgpu")
        expect(bench, "cordoned", lambda: bench.node("cards")["spec"].get("unschedulable"))
        create_claimant(bench, "cards")
        assert "on-cards" in expect_reason(bench, "cards", "WorkloadsPresent")["message"]
        bench.delete_pod("on-cards")
        expect_pool_ready(bench, nodes=1)
    assert "Deferred" in {read_change(node).get("phase") for node in watch.history}


def test_a_pod_that_holds_cards_by_a_claim_is_evicted_where_the_pool_says_so(
    professional: Bench,
) -> None:
    bench = professional
    with installation_with(bench, {"eviction.enabled": "true"}):
        bench.operators.start(env={"GPUSHARE_ALLOW_EVICTION": "true"})
        bench.add_nodes("cards", labels=SHARE)
        bench.create_pool(build_pool(rollout={"workloads": "Evict"}))
        expect_pool_ready(bench, nodes=1)
        create_claimant(bench, "cards")
        pod, mark = bench.pod("on-cards"), bench.audit.mark()
        bench.change_pool(schedule="cgpu")
        expect(bench, "it is told", partial(read_events, bench, pod, "PodEvicted"))
        expect_pool_ready(bench, nodes=1)
        writes = bench.audit.our_writes(mark)
        assert [w.name for w in writes if w.resource == "pods/eviction"] == ["on-cards"]


@pytest.mark.usefixtures("operator")
def test_a_node_that_hami_has_is_left_alone_until_hami_has_left(professional: Bench) -> None:
    bench = professional
    bench.add_nodes("ours", labels=SHARE)
    bench.add_nodes("hamis", labels={"gpu": "on"})
    bench.annotate("/api/v1/nodes/hamis", {"hami.io/node-nvidia-register": "[]"})
    bench.call("POST", "/apis/apps/v1/namespaces/kube-system/daemonsets", build_hami_plugin())
    expect_offered(bench, "hamis", 10, resource="nvidia.com/gpu")
    mark = bench.audit.mark()
    bench.create_pool(build_pool(schedule="cgpu"))

    told = expect_reason(bench, "hamis", "OtherStack")["message"]
    assert "HAMi" in told
    assert "kubectl label node hamis gpu-" in told
    expect(bench, "the other node changes", lambda: bench.labels()["ours"].get(MODE) == "cgpu")
    writes = {call.name for call in bench.audit.our_writes(mark) if call.resource == "nodes"}
    assert writes == {"ours"}

    # HAMi's annotation stays, and proves nothing.
    bench.label("hamis", {"gpu": None})
    expect(bench, "the node changes", lambda: bench.labels()["hamis"].get(MODE) == "cgpu")
