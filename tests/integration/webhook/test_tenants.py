"""What tenants may try, who may create pods or label their namespace, and the API server decides.

docs/admission.md lists all of it; what the webhook decides alone is tried in tests/unit/admission.
"""

import json

import pytest

from devcluster.apiserver import ApiError
from tests.kit.bench import POOL, Bench
from tests.kit.cluster.namespaces import Namespace, default_namespace, temporary_namespace
from tests.kit.cluster.pod_admission import count_calls, given_pools, kubectl_create, pool_of
from tests.kit.values.manifests import build_pod

INJECT = "gpushare.io/inject"
FOR_TEAM_A = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "team-a"}},
    "tolerations": [{"key": "example.com/team", "operator": "Exists"}],
}
GATED = [{"name": "example.com/wait"}]


@pytest.fixture
def space(bench: Bench) -> Namespace:
    """`default`, beside the pools `training` (share), `isolated` (cgpu) and another team's."""
    bench.operators.standard()
    given_pools(
        bench,
        training={"schedule": "share"},
        isolated={"schedule": "cgpu"},
        **{"team-a": {"schedule": "cgpu", "priority": 900, "workloads": FOR_TEAM_A}},
    )
    return default_namespace(bench)


def test_a_pod_cannot_ask_for_a_pool_that_is_not_for_its_namespace(space: Namespace) -> None:
    pod = build_pod("p", annotations={POOL: "team-a"})
    (warning,) = [each for each in kubectl_create(space.bench, pod).warnings if "team-a" in each]
    assert "its namespaceSelector does not select namespace default" in warning
    assert pool_of(space.send(pod)) is None


def test_labels_of_a_pod_exempt_nobody(space: Namespace) -> None:
    pod = build_pod("p")
    pod["metadata"]["labels"] = {
        INJECT: "disabled",
        "kubernetes.io/metadata.name": "kube-system",
        "gpushare.io/failure-policy": "ignore",
    }
    assert pool_of(space.send(pod)) == "isolated"


def test_a_pod_of_more_than_a_mebibyte_is_sent_to_a_pool(space: Namespace) -> None:
    pod = build_pod("p", env={f"V{index}": "x" * 10_000 for index in range(120)})
    assert len(json.dumps(pod)) > 2**20
    assert pool_of(space.send(pod)) == "isolated"


def test_a_gated_pod_that_was_sent_to_a_pool_cannot_leave_it(space: Namespace) -> None:
    created = space.create(build_pod("p", schedulingGates=GATED))
    assert pool_of(created) == "isolated"
    path = f"{space.pods}/p"
    for change in ({POOL: None}, {POOL: "team-a"}):
        with pytest.raises(ApiError, match="nodeSelector"):
            space.bench.call("PATCH", path, {"spec": {"nodeSelector": change}})
    narrower = {"spec": {"nodeSelector": {"kubernetes.io/arch": "amd64"}}}
    assert pool_of(space.bench.call("PATCH", path, narrower)) == "isolated"


def test_an_ephemeral_container_can_ask_for_no_gpu_and_is_not_looked_at(space: Namespace) -> None:
    space.create(build_pod("p", gib=None))
    before = count_calls(space.bench)
    path = f"{space.pods}/p/ephemeralcontainers"
    debugger = {"name": "debug", "image": "app:1"}
    asking = debugger | {"resources": {"limits": {"aliyun.com/gpu-mem": "3"}}}
    with pytest.raises(ApiError, match="Forbidden: cannot be set for an Ephemeral Container"):
        space.bench.call("PATCH", path, {"spec": {"ephemeralContainers": [asking]}})
    seeing = debugger | {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
    space.bench.call("PATCH", path, {"spec": {"ephemeralContainers": [seeing]}})
    assert count_calls(space.bench) == before


def test_a_namespace_cannot_pass_for_kube_system(space: Namespace) -> None:
    with temporary_namespace(space.bench) as own:
        own.label({"kubernetes.io/metadata.name": "kube-system"})
        labels = space.bench.call("GET", own.path)["metadata"]["labels"]
        assert labels["kubernetes.io/metadata.name"] == own.name
        assert pool_of(own.send(build_pod("p"))) == "isolated"
