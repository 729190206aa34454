"""Pods that select nodes by labels of the platform get a pool only if one of its nodes matches."""

import json
from collections.abc import Iterator

import pytest

from tests.kit.bench import Bench
from tests.kit.cluster.command_line import run_command
from tests.kit.cluster.expect import (
    expect,
    expect_bound,
    expect_gone,
    expect_pool_ready,
    expect_running,
)
from tests.kit.cluster.namespaces import default_namespace
from tests.kit.cluster.pod_admission import decision_of, expect_sent, kubectl_create, pool_of
from tests.kit.cluster.sharing_pools import given_sharing_pool
from tests.kit.values.manifests import Json, build_pod, build_pool, build_workload

MODEL, ZONE = "aliyun.accelerator/nvidia_name", "topology.kubernetes.io/zone"
QUEUE = {"kueue.x-k8s.io/queue-name": "team"}
JOBS = "/apis/batch/v1/namespaces/default/jobs"
VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


@pytest.fixture
def pools(bench: Bench) -> Bench:
    """`training` ranks first and has n1 with a V100 in zone a; `inference` has n2, an A10 in b."""
    given_sharing_pool(bench, "Professional", "n1", priority=500)
    bench.label("n1", {MODEL: "V100", ZONE: "a"})
    bench.add_nodes("n2", node_pool="np2", labels={MODEL: "A10", ZONE: "b"})
    bench.create_pool(build_pool("inference", node_pool="np2"))
    expect_pool_ready(bench, "inference", nodes=1)
    for model, pool in (("V100", "training"), ("A10", "inference")):
        expect_sent(default_namespace(bench), build_pod("probe", selects={MODEL: model}), pool)
    return bench


def test_a_pod_that_selects_a_card_model_goes_where_a_node_has_it_and_runs(pools: Bench) -> None:
    pools.create_pod(build_pod("free", gib=1))
    assert pool_of(pools.pod("free")) == "training"
    pools.create_pod(build_pod("picky", selects={MODEL: "A10"}))
    assert decision_of(pools.pod("picky"))["lost"] == {"ExcludedByPod": ["training"]}
    assert expect_bound(pools, "picky") == "n2"
    expect_running(pools, "picky")


def test_a_zone_that_no_node_has_draws_a_warning_and_no_pool_until_one_has_it(pools: Bench) -> None:
    pod = build_pod("far", selects={ZONE: "z"})
    answer = kubectl_create(pools, pod)
    assert answer.succeeded
    assert "ExcludedByPod" in decision_of(default_namespace(pools).send(pod))["lost"]
    (warning,) = answer.warnings
    for word in (ZONE, "not z", "spec.nodes.scaling"):
        assert word in warning
    assert pool_of(default_namespace(pools).send(pod)) is None

    pools.change_pool("inference", nodes={"scaling": "Autoscaled"})
    expect_sent(default_namespace(pools), pod, "inference")
    pools.label("n1", {ZONE: "z"})
    expect_sent(default_namespace(pools), pod, "training")
    pools.create_pod(pod)
    assert expect_bound(pools, "far") == "n1"


def test_other_labels_of_nodes_change_no_status(pools: Bench) -> None:
    before = {name: pools.pool(name)["metadata"]["resourceVersion"] for name in ("inference",)}
    pools.label("n2", {"team": "x"})
    pools.label("n1", {ZONE: "c"})
    expect_sent(default_namespace(pools), build_pod("probe", selects={ZONE: "c"}), "training")
    assert {name: pools.pool(name)["metadata"]["resourceVersion"] for name in before} == before


@pytest.fixture
def job(pools: Bench) -> Iterator[Json]:
    """A Job in a queue of Kueue, as Kueue lets it go: with the node label of its flavor."""
    job = build_workload("Job", "train", pod=build_pod("train", selects={MODEL: "A10"}))
    job["metadata"]["labels"] = QUEUE
    yield job
    pools.call("DELETE", f"{JOBS}/train?propagationPolicy=Background")


def test_a_job_of_kueue_and_its_pods_get_the_pool_that_has_the_flavors_label(
    pools: Bench, job: Json
) -> None:
    warnings = kubectl_create(pools, job).warnings
    assert "assigned to pool inference" in warnings[0]
    assert any("ResourceFlavor" in warning for warning in warnings)
    pools.call("POST", JOBS, job)
    pod = expect(pools, "the Job's pod", lambda: next(iter(pools.pods()), None))
    assert pool_of(pod) == "inference"
    assert expect_bound(pools, pod["metadata"]["name"]) == "n2"


@pytest.fixture
def volume(pools: Bench) -> Iterator[str]:
    """A claim of a volume that is only in zone b."""
    required = {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["b"]}]}
        ]
    }
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    volume = {
        **spec,
        "capacity": {"storage": "1Gi"},
        "hostPath": {"path": "/data"},
        "nodeAffinity": {"required": required},
    }
    claim = {**spec, "volumeName": "data", "resources": {"requests": {"storage": "1Gi"}}}
    pools.call("POST", VOLUMES, {"metadata": {"name": "data"}, "spec": volume})
    pools.call("POST", CLAIMS, {"metadata": {"name": "data"}, "spec": claim})
    yield "data"
    pools.delete_pod("reader")
    for path in (f"{CLAIMS}/data", f"{VOLUMES}/data"):
        pools.call("DELETE", path)
        expect_gone(pools, path)


def test_the_zone_of_a_bound_volume_is_told_by_explain(pools: Bench, volume: str) -> None:
    mounted = [{"name": "data", "persistentVolumeClaim": {"claimName": volume}}]
    pools.create_pod(build_pod("reader", volumes=mounted))
    assert pool_of(pools.pod("reader")) == "training"

    def find_reason() -> str:
        ended = run_command(
            "explain", "pod", "reader", "-o", "json", kubeconfig=pools.cluster.kubeconfig
        )
        found: Json = json.loads(ended.out)
        return str((found["waits"] or {}).get("reason"))

    expect(pools, "explain names the volume", lambda: find_reason() == "VolumeConflict")
