"""Only what concerns GPU sharing leaves the API server: counted by the API server itself."""

import copy
from typing import Any

import pytest

from devcluster.installation import NAMESPACE
from tests.kit.bench import POOL, Bench
from tests.kit.cluster.namespaces import Namespace, default_namespace, temporary_namespace
from tests.kit.cluster.pod_admission import count_calls
from tests.kit.values.manifests import (
    Json,
    build_container,
    build_pod,
    build_whole_card_pod,
    build_workload,
)

PODS, OTHERS = "pods.gpushare.io", "pods-of-the-other-policy.gpushare.io"
WORKLOADS = "workloads.gpushare.io"
VISIBLE = "NVIDIA_VISIBLE_DEVICES"

pytestmark = pytest.mark.usefixtures("operator")


def calls_for(space: Namespace, *pods: Json) -> dict[str, int]:
    """How often each webhook is called for these pods, each of which is admitted."""
    before = count_calls(space.bench)
    for pod in pods:
        space.send(pod)
    return dict(count_calls(space.bench) - before)


def starting(**container: Any) -> Json:
    """A pod whose one init container asks for GPU memory, and nothing else does."""
    asking = build_container("starting", memory="3") | {"image": "app:1"} | container
    return build_pod("p", gib=None, initContainers=[asking])


def from_elsewhere() -> Json:
    """A pod that reads from its own labels which cards it sees."""
    pod = build_pod("p", gib=None)
    source = {"fieldRef": {"fieldPath": "metadata.labels['cards']"}}
    pod["spec"]["containers"][0]["env"] = [{"name": VISIBLE, "valueFrom": source}]
    return pod


def of_a(kind: str, pod: Json, *, controls: bool = True, others: int = 0) -> Json:
    """`pod`, as a workload's controller makes it, or as anybody may write it."""
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "x", "uid": "x", "controller": controls}
    no_owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "controller": False}
    pod["metadata"]["ownerReferences"] = [
        *({**no_owner, "uid": str(number)} for number in range(others)),
        owner,
    ]
    return pod


def seeing_all(**env: str) -> Json:
    """A pod that asks for no GPU, and sees every card."""
    return build_pod("p", gib=None, env={VISIBLE: "all", **env})


UNCONCERNED = {
    "nothing": build_pod("p", gib=None),
    "whole cards": build_whole_card_pod("p"),
    "no memory of a GPU": build_pod("p", gib=0),
    "a base image's variable": build_pod("p", gib=None, env={VISIBLE: "none"}),
    "a variable without a value": build_pod("p", gib=None, env={VISIBLE: ""}),
    "more variables than are looked at": build_pod(
        "p", gib=None, env={VISIBLE: "all", **{f"V{index}": "x" for index in range(1000)}}
    ),
    "other annotations": build_pod("p", gib=None, annotations={"example.com/pool": "x"}),
    "every card, of a DaemonSet": of_a("DaemonSet", seeing_all()),
    "a claim": build_pod("p", gib=None, resourceClaims=[{"name": "c", "resourceClaimName": "c"}]),
}
CONCERNED = {
    "memory": build_pod("p"),
    "compute": build_pod("p", gib=None, core=30),
    "memory at the start": starting(),
    "memory of a sidecar": starting(restartPolicy="Always"),
    "a pool": build_whole_card_pod("p", annotations={POOL: "training"}),
    "a pool, as a label": build_whole_card_pod("p", labels={POOL: "training"}),
    "CGPU_DISABLE": build_pod("p", gib=None, env={"CGPU_DISABLE": "true"}),
    "every card": build_pod("p", gib=None, env={VISIBLE: "all"}),
    "cards from elsewhere": from_elsewhere(),
    "every card, of a ReplicaSet": of_a("ReplicaSet", seeing_all()),
    "every card, of no DaemonSet's control": of_a("DaemonSet", seeing_all(), controls=False),
    "more owners than are looked at": of_a("DaemonSet", seeing_all(), others=1000),
    "memory, of a DaemonSet": of_a("DaemonSet", build_pod("p")),
    "a pool, of a DaemonSet": of_a(
        "DaemonSet", build_pod("p", gib=None, annotations={POOL: "training"})
    ),
    "CGPU_DISABLE, of a DaemonSet": of_a("DaemonSet", seeing_all(CGPU_DISABLE="true")),
}


@pytest.mark.parametrize("pod", UNCONCERNED.values(), ids=list(UNCONCERNED))
def test_a_pod_that_asks_for_no_shared_gpu_is_never_sent(bench: Bench, pod: Json) -> None:
    assert calls_for(default_namespace(bench), pod) == {}


@pytest.mark.parametrize("pod", CONCERNED.values(), ids=list(CONCERNED))
def test_a_pod_that_has_to_do_with_shared_gpus_is_sent_once(bench: Bench, pod: Json) -> None:
    assert calls_for(default_namespace(bench), pod) == {PODS: 1}


@pytest.mark.parametrize("name", ["kube-system", NAMESPACE])
def test_the_clusters_own_pods_and_ours_are_never_sent(bench: Bench, name: str) -> None:
    assert calls_for(Namespace(bench, name), build_pod("p")) == {}


@pytest.mark.parametrize(
    ("labels", "called"),
    [
        ({"gpushare.io/inject": "disabled"}, {}),
        ({"gpushare.io/inject": "enabled"}, {PODS: 1}),
        ({"gpushare.io/failure-policy": "fail"}, {OTHERS: 1}),
        ({"gpushare.io/failure-policy": "ignore"}, {PODS: 1}),
    ],
    ids=str,
)
def test_a_namespaces_labels_say_whether_and_how_its_pods_are_sent(
    bench: Bench, labels: dict[str, str], called: dict[str, int]
) -> None:
    with temporary_namespace(bench, labels) as space:
        assert calls_for(space, build_pod("p")) == called


def test_very_large_pods_are_judged_within_the_api_servers_budget(bench: Bench) -> None:
    containers = [
        build_container(f"c{number}", env={f"V{index}": "x" for index in range(20)})
        | {"image": "app:1"}
        for number in range(200)
    ]
    large = build_pod("p", gib=None)
    large["spec"]["containers"] = containers
    verbose = build_pod("p", gib=None, env={f"V{index}": "x" for index in range(5000)})
    owned = of_a("DaemonSet", copy.deepcopy(large), others=999)
    pods = (large, verbose, owned)

    # What goes over the budget is refused here.
    with temporary_namespace(bench, {"gpushare.io/failure-policy": "fail"}) as space:
        assert calls_for(space, *pods) == {}
        for pod in pods:
            pod["spec"]["containers"][-1]["resources"] = {"limits": {"aliyun.com/gpu-mem": "3"}}
        assert calls_for(space, *pods) == {OTHERS: 3}


@pytest.mark.parametrize("gib", [None, 3], ids=["without GPU", "with GPU"])
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob"])
def test_a_workload_is_sent_where_its_template_asks_for_shared_gpu(
    bench: Bench, kind: str, gib: int | None
) -> None:
    workload = build_workload(kind, "work", pod=build_pod("work", gib=gib))
    before = count_calls(bench)
    create_workload(bench, kind, workload)
    assert count_calls(bench) - before == ({WORKLOADS: 1} if gib else {})


def create_workload(bench: Bench, kind: str, workload: Json, query: str = "?dryRun=All") -> str:
    """Where the workload is, or would be."""
    group = "batch" if kind in ("Job", "CronJob") else "apps"
    path = f"/apis/{group}/v1/namespaces/default/{kind.lower()}s"
    bench.call("POST", f"{path}{query}", workload)
    return f"{path}/work"


def test_a_workload_is_sent_again_only_when_its_template_changes(bench: Bench) -> None:
    workload = build_workload("Deployment", "work", replicas=0, pod=build_pod("work"))
    path = create_workload(bench, "Deployment", workload, query="")

    before = count_calls(bench)
    bench.call("PATCH", path, {"spec": {"replicas": 1}})
    bench.call("PATCH", path, {"metadata": {"labels": {"example.com/team": "a"}}})
    assert (count_calls(bench) - before)[WORKLOADS] == 0

    # Where others write it meanwhile, the API server tries a patch anew, and asks again.
    template = {"metadata": {"labels": {"v": "2"}}}
    bench.call("PATCH", f"{path}?dryRun=All", {"spec": {"template": template}})
    assert (count_calls(bench) - before)[WORKLOADS] == 1
