"""Who applies a workload reads at once where its pods will go, or why they will not."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.kit.bench import Bench
from tests.kit.cluster.expect import expect
from tests.kit.cluster.pod_admission import ISOLATION, POOL, given_pools, kubectl_create
from tests.kit.values.manifests import build_pod, build_workload

Json = dict[str, Any]

KINDS = ["Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob"]


@pytest.fixture
def pools(bench: Bench) -> Bench:
    bench.operators.standard()
    given_pools(bench, training={"schedule": "share"}, isolated={"schedule": "cgpu"})
    return bench


def warnings_about(bench: Bench, kind: str, pod: Json, **metadata: Mapping[str, str]) -> list[str]:
    """What kubectl prints when a workload of such pods is created."""
    workload = build_workload(kind, "work", pod=pod)
    workload["metadata"] |= metadata
    answer = kubectl_create(bench, workload)
    assert answer.succeeded, answer.text
    return answer.warnings


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "DaemonSet"])
def test_a_workload_is_told_which_pool_its_pods_go_to(pools: Bench, kind: str) -> None:
    first, *_ = warnings_about(pools, kind, build_pod("p"))
    assert first == "its pods go to pool isolated (cgpu)"


def test_a_daemonset_is_told_that_it_chooses_the_nodes_itself(pools: Bench) -> None:
    (warning,) = warnings_about(pools, "DaemonSet", build_pod("p"))
    assert "its DaemonSet decides where it runs" in warning
    assert POOL in warning


@pytest.mark.parametrize("kind", KINDS)
def test_a_workload_without_gpu_is_told_nothing(pools: Bench, kind: str) -> None:
    assert warnings_about(pools, kind, build_pod("p", gib=None)) == []


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "DaemonSet"])
def test_a_workload_whose_pods_no_pool_takes_is_told_why(pools: Bench, kind: str) -> None:
    text = "\n".join(warnings_about(pools, kind, build_pod("p", core=30)))
    assert "no" in text
    assert "core_mem" in text


def test_a_workload_whose_pods_would_be_refused_is_created_and_told(pools: Bench) -> None:
    pools.delete_pool("isolated")
    pod = build_pod("p", annotations={ISOLATION: "required", POOL: "training"})

    def refusal() -> str:
        # Until the webhook has heard that the pool is gone, pods would still be sent there.
        text = "\n".join(warnings_about(pools, "Deployment", pod))
        return text if "refused" in text else ""

    assert "isolation" in expect(pools, "it is told of the refusal", refusal)


def test_the_queue_of_a_workload_counts_for_its_pods(pools: Bench) -> None:
    labels = {"kueue.x-k8s.io/queue-name": "team-a"}
    (warning,) = warnings_about(pools, "Job", build_pod("p"), labels=labels)
    assert "its Kueue queue decides where it runs" in warning


def test_a_workload_itself_is_never_changed(pools: Bench) -> None:
    workload = build_workload("Deployment", "work", pod=build_pod("p"))
    path = "/apis/apps/v1/namespaces/default/deployments?dryRun=All"
    template = pools.call("POST", path, workload)["spec"]["template"]
    assert "nodeSelector" not in template["spec"]
    assert "annotations" not in template["metadata"]
