"""Pods that ask for shared GPU are sent to a pool when they are created."""

from typing import Any

import pytest

from devcluster.apiserver import ApiError
from devcluster.installation import NAMESPACE, OperatorProcess
from tests.kit.bench import PODS, Bench
from tests.kit.cluster.expect import (
    expect,
    expect_bound,
    expect_isolated,
    expect_pool_ready,
    expect_running,
)
from tests.kit.cluster.operator_processes import wait_ready
from tests.kit.cluster.pod_admission import CONFIGURATION, DECISION, decision_of, kubectl_create
from tests.kit.cluster.sharing_pools import POOL, given_sharing_pool
from tests.kit.values.manifests import build_pod, build_pool, build_workload

Json = dict[str, Any]

SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/gpushare-webhook-tls"


@pytest.fixture
def pools(bench: Bench, operator: OperatorProcess) -> OperatorProcess:
    """`training` shares n1, `isolated` isolates n2, and a node in no pool offers nothing better."""
    given_sharing_pool(bench, "Professional", "n1")
    bench.add_nodes("n2", node_pool="np2")
    bench.create_pool(build_pool("isolated", schedule="cgpu", node_pool="np2"))
    expect_pool_ready(bench, "isolated", nodes=1)
    return operator


def selector_of(bench: Bench, pod: Json) -> Json:
    """The node selector that the pod has once it is created."""
    selector: Json = bench.pod(bench.create_pod(pod))["spec"].get("nodeSelector", {})
    return selector


@pytest.mark.usefixtures("pools")
def test_a_pod_that_chose_no_pool_is_sent_to_one_and_scheduled_there(bench: Bench) -> None:
    assert selector_of(bench, build_pod("p")) == {POOL: "isolated"}
    assert expect_bound(bench, "p") == "n2"
    expect_isolated(expect_running(bench, "p"))


@pytest.mark.usefixtures("pools")
def test_a_pod_that_switches_isolation_off_goes_to_the_share_pool(bench: Bench) -> None:
    assert selector_of(bench, build_pod("p", env={"CGPU_DISABLE": "true"})) == {POOL: "training"}
    assert expect_bound(bench, "p") == "n1"


@pytest.mark.usefixtures("pools")
@pytest.mark.parametrize(
    "selects",
    [{POOL: "training"}, {"ack.node.gpu.schedule": "share"}],
    ids=["by pool", "by mode"],
)
def test_a_pod_that_selects_is_left_as_it_is(bench: Bench, selects: dict[str, str]) -> None:
    assert selector_of(bench, build_pod("p", selects=selects)) == selects
    assert expect_bound(bench, "p") == "n1"


@pytest.mark.usefixtures("pools")
def test_another_selector_is_kept_beside_the_pools(bench: Bench) -> None:
    selects = {"kubernetes.io/arch": "amd64"}
    assert selector_of(bench, build_pod("p", selects=selects)) == {**selects, POOL: "isolated"}
    assert expect_bound(bench, "p") == "n2"


@pytest.mark.usefixtures("pools")
def test_the_pool_of_higher_priority_is_preferred(bench: Bench) -> None:
    bench.add_nodes("n3", node_pool="np3")
    bench.create_pool(build_pool("first", schedule="cgpu", node_pool="np3", priority=500))

    def sent() -> bool:
        bench.create_pod(build_pod("p"))
        selector = bench.pod("p")["spec"]["nodeSelector"]
        bench.delete_pod("p")
        return bool(selector == {POOL: "first"})

    expect(bench, "pods go to the pool of higher priority", sent)


@pytest.mark.usefixtures("pools")
def test_a_pod_that_no_pool_takes_is_created_with_a_warning(bench: Bench) -> None:
    pod = build_pod("p", core=30)
    (warning,) = kubectl_create(bench, pod).warnings
    assert "not sent to a pool" in warning
    assert selector_of(bench, pod) == {}


@pytest.mark.usefixtures("pools")
def test_a_pod_that_requires_isolation_is_sent_to_it_or_refused(bench: Bench) -> None:
    pod = build_pod("p", annotations={"gpushare.io/isolation": "required"})
    assert selector_of(bench, pod)[POOL] == "isolated"
    bench.delete_pool("isolated")

    def refusal() -> str:
        # Until the webhook has heard that the pool is gone, pods are still sent there.
        bench.delete_pod("p")
        try:
            bench.create_pod(pod)
        except ApiError as error:
            return str(error)
        return ""

    assert "IsolationUnavailable: isolation is required" in expect(bench, "it is refused", refusal)


@pytest.mark.usefixtures("pools")
def test_fields_that_the_operator_does_not_know_survive(bench: Bench) -> None:
    pod = build_pod(
        "p",
        annotations={"example.com/note": "keep/~me"},
        topologySpreadConstraints=[
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": "p"}},
                "nodeTaintsPolicy": "Honor",
            }
        ],
        resourceClaims=[{"name": "claim", "resourceClaimName": "claim"}],
        schedulingGates=[{"name": "example.com/gate"}],
    )
    by_hand = build_pod("q")
    by_hand["spec"] = {**pod["spec"], "nodeSelector": {POOL: "training"}}
    bench.create_pod(pod)
    bench.create_pod(by_hand)

    sent, left = (bench.pod(name) for name in ("p", "q"))
    # The names of the token's volume are made up for each pod.
    for each in (sent, left):
        each["spec"].pop("nodeSelector")
        each["spec"].pop("volumes")
        each["spec"]["containers"][0].pop("volumeMounts")
    assert sent["spec"] == left["spec"]
    assert decision_of(sent)["pool"] == "isolated"
    del sent["metadata"]["annotations"][DECISION]
    assert sent["metadata"]["annotations"] == {"example.com/note": "keep/~me"}


@pytest.mark.usefixtures("pools")
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_the_pods_of_a_workload_are_sent_to_a_pool(bench: Bench, kind: str) -> None:
    workload = build_workload(kind, "work", replicas=3, pod=build_pod("work", gib=3))
    bench.call("POST", f"/apis/apps/v1/namespaces/default/{kind.lower()}s", workload)

    def all_run() -> bool:
        pods = bench.pods()
        return len(pods) == 3 and all(pod["status"].get("phase") == "Running" for pod in pods)

    expect(bench, f"the {kind}'s pods run", all_run)
    for pod in bench.pods():
        assert pod["spec"]["nodeSelector"] == {POOL: "isolated"}
        assert pod["spec"]["nodeName"] == "n2"
        expect_isolated(pod)
    template = bench.call("GET", f"/apis/apps/v1/namespaces/default/{kind.lower()}s/work")
    assert "nodeSelector" not in template["spec"]["template"]["spec"]


def test_pods_are_created_while_no_webhook_answers(bench: Bench, pools: OperatorProcess) -> None:
    pools.kill()
    for name, pod in (("shared", build_pod("shared")), ("plain", build_pod("plain", gib=None))):
        bench.create_pod(pod)
        assert "nodeSelector" not in bench.pod(name)["spec"]


def test_a_lost_certificate_is_made_anew_and_trusted_by_the_api_server(bench: Bench) -> None:
    bench.operators.end_all()
    bench.install("Professional")
    bench.create_pool(build_pool(schedule="cgpu"))
    if bench.cluster.api.exists(SECRET):
        bench.call("DELETE", SECRET)
    before = read_ca_bundle(bench)

    bench.operators.standard()

    expect(bench, "the pod is sent to the pool", lambda: is_routed(bench))
    assert read_ca_bundle(bench) != before


def test_the_webhook_alone_serves_beside_a_controller(bench: Bench) -> None:
    bench.operators.start("controller", identity="only-controller")
    webhook = bench.operators.start("webhook", identity="only-webhook", wait=False)
    wait_ready(webhook)
    bench.install("Professional")
    bench.create_pool(build_pool(schedule="cgpu"))

    expect(bench, "the pod is sent to the pool", lambda: is_routed(bench))

    webhook.stop()
    assert webhook.process.returncode == 0


def read_ca_bundle(bench: Bench) -> str:
    client = bench.call("GET", CONFIGURATION)["webhooks"][0]["clientConfig"]
    bundle: str = client.get("caBundle", "")
    return bundle


def is_routed(bench: Bench) -> bool:
    """Whether a pod that is created now is sent to the pool."""
    try:
        bench.create_pod(build_pod("probe"))
        return bool(bench.pod("probe")["spec"].get("nodeSelector") == {POOL: "training"})
    except ApiError as error:
        if error.status != 500:
            raise
        return False
    finally:
        if bench.cluster.api.exists(f"{PODS}/probe"):
            bench.delete_pod("probe")
