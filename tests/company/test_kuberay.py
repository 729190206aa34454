"""KubeRay's clusters over pools: Ray does not run here, so its autoscaler's edits are played."""

from collections.abc import Iterator

import pytest

from devcluster.company.controller import Controller
from tests.company.page import find_manifest, kubectl_apply
from tests.kit.bench import GPU_MEM, Bench, Json
from tests.kit.cluster.expect import expect, expect_capacity, is_unschedulable
from tests.kit.cluster.pod_admission import decision_of, pool_of
from tests.kit.cluster.sharing_pools import given_sharing_pool
from tests.kit.values.manifests import NODE_POOL_LABEL

CLUSTERS = "/apis/ray.io/v1/namespaces/default/rayclusters"
GROUP = "ray.io/group"


@pytest.fixture
def tuning(kuberay: Controller, bench: Bench) -> Iterator[Bench]:
    """The RayCluster of the page, with one worker on the one card of the pool `training`."""
    given_sharing_pool(bench, "OpenSource", "n1")
    bench.add_other_nodes(("CPU", "c1"), labels={NODE_POOL_LABEL: "np-cpu"})
    kubectl_apply(bench, find_manifest("raycluster.yaml"))
    expect_workers(bench, running=1)
    yield bench
    # KubeRay would put its pods back for as long as it is there.
    bench.call("DELETE", f"{CLUSTERS}/tuning")
    expect(bench, "its pods are gone", lambda: not bench.pods())


def list_workers(bench: Bench) -> list[Json]:
    pods = (p for p in bench.pods() if p["metadata"]["labels"].get(GROUP) == "shared")
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def expect_workers(bench: Bench, *, running: int, waiting: int = 0) -> list[Json]:
    """Wait until so many workers are bound and so many wait for room; return all of them."""

    def probe() -> list[Json] | None:
        workers = list_workers(bench)
        bound = [pod for pod in workers if pod["spec"].get("nodeName")]
        refused = [pod for pod in workers if is_unschedulable(pod)]
        return workers if (len(bound), len(refused)) == (running, waiting) else None

    found: list[Json] = expect(bench, f"{running} workers are bound, {waiting} wait", probe)
    return found


def scale(bench: Bench, replicas: int, *remove: str) -> None:
    """Edit the worker group as Ray's autoscaler does."""
    (group,) = bench.call("GET", f"{CLUSTERS}/tuning")["spec"]["workerGroupSpecs"]
    group |= {"replicas": replicas, "scaleStrategy": {"workersToDelete": list(remove)}}
    bench.call("PATCH", f"{CLUSTERS}/tuning", {"spec": {"workerGroupSpecs": [group]}})


def test_workers_go_to_their_pool_and_the_head_to_none(tuning: Bench) -> None:
    (worker,) = list_workers(tuning)
    assert pool_of(worker) == "training"
    assert decision_of(worker)["pool"] == "training"
    assert "ALIYUN_COM_GPU_MEM_IDX" in worker["metadata"]["annotations"]
    (gcs,) = worker["spec"]["initContainers"]
    assert GPU_MEM not in gcs["resources"]["limits"]
    heads = [p for p in tuning.pods() if p["metadata"]["labels"].get("ray.io/node-type") == "head"]
    assert [(pool_of(head), decision_of(head)) for head in heads] == [(None, {})]


def test_workers_that_the_autoscaler_adds_follow_and_wait_where_the_pool_is_full(
    tuning: Bench,
) -> None:
    scale(tuning, 3)
    workers = expect_workers(tuning, running=3)
    assert {pool_of(worker) for worker in workers} == {"training"}
    expect_capacity(tuning, memoryAllocated=12, memoryRequested=12, largestFreeBlock=3)

    last = max(workers, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
    scale(tuning, 2, last["metadata"]["name"])
    left = expect_workers(tuning, running=2)
    assert last["metadata"]["name"] not in [pod["metadata"]["name"] for pod in left]
    expect_capacity(tuning, memoryAllocated=8, largestFreeBlock=7)


def test_ray_is_told_the_number_of_gpus_that_the_page_sets(tuning: Bench) -> None:
    (worker,) = list_workers(tuning)
    (container,) = worker["spec"]["containers"]
    started = " ".join(container.get("args") or []) + str(container.get("env") or "")
    assert "--num-gpus=1" in started
