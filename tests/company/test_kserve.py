"""KServe's predictors over pools, in mode Standard: Deployments whose model servers do not run."""

from collections.abc import Iterator

import pytest

from devcluster.company.controller import Controller
from tests.company.page import find_manifest, kubectl_apply
from tests.kit.bench import GPU_MEM, Bench, Json
from tests.kit.cluster.expect import expect, expect_capacity, expect_pool_ready
from tests.kit.cluster.namespaces import default_namespace
from tests.kit.cluster.pod_admission import decision_of, expect_sent, pool_of
from tests.kit.cluster.sharing_pools import given_sharing_pool
from tests.kit.values.manifests import build_pod, build_pool

SERVICES = "/apis/serving.kserve.io/v1beta1/namespaces/default/inferenceservices"
LABEL = "serving.kserve.io/inferenceservice"


@pytest.fixture
def serving(kserve: Controller, bench: Bench) -> Iterator[Bench]:
    """The page's InferenceService on the one card of the pool `training`."""
    given_sharing_pool(bench, "Professional", "n1")
    expect_sent(default_namespace(bench), build_pod("probe"), "training")
    kubectl_apply(bench, find_manifest("inferenceservice.yaml"))
    yield bench
    # KServe would put its pods back for as long as they are there.
    bench.call("DELETE", SERVICES)
    expect(bench, "its pods are gone", lambda: not bench.pods())


def expect_predictors(bench: Bench, pool: str) -> list[Json]:
    """Wait until the two pods of the service, and no others, are bound in `pool`."""

    def probe() -> list[Json] | None:
        pods = [pod for pod in bench.pods() if "deletionTimestamp" not in pod["metadata"]]
        found = [pod for pod in pods if pod["metadata"]["labels"].get(LABEL) == "chat"]
        bound = [pod for pod in found if pod["spec"].get("nodeName") and pool_of(pod) == pool]
        return found if len(found) == len(bound) == 2 else None

    pods: list[Json] = expect(bench, f"two predictors are bound in pool {pool}", probe)
    return pods


def test_predictors_are_assigned_as_the_pods_of_any_deployment(serving: Bench) -> None:
    for pod in expect_predictors(serving, "training"):
        assert decision_of(pod)["pool"] == "training"
        (container,) = pod["spec"]["containers"]
        assert container["resources"]["limits"][GPU_MEM] == "4"
    expect_capacity(serving, "training", memoryAllocated=8, memoryRequested=8)


def test_the_annotation_of_a_service_chooses_the_pool_of_its_predictors(serving: Bench) -> None:
    expect_predictors(serving, "training")
    serving.add_nodes("n2", node_pool="np2")
    serving.create_pool(build_pool("inference", node_pool="np2"))
    expect_pool_ready(serving, "inference", nodes=1)
    serving.annotate(f"{SERVICES}/chat", {"gpushare.io/pool": "inference"})
    expect_predictors(serving, "inference")
    expect_capacity(serving, "inference", memoryAllocated=8)
    expect_capacity(serving, "training", memoryAllocated=0)
