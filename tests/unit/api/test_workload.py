"""Which application a pod is one of."""

from typing import Any

import pytest

from gpushare.api.k8s.pod import parse_pod
from gpushare.api.k8s.pod_owner import Workload
from tests.kit.values.manifests import build_pod

HASH = "7d4b9c6f5"


def parse(owner: tuple[str, str] | None, **labels: str) -> Workload | None:
    pod = build_pod("web-0", gib=2)
    pod["metadata"] |= {"namespace": "team-a", "uid": "1", "labels": labels}
    if owner is not None:
        kind, name = owner
        pod["metadata"]["ownerReferences"] = [
            {"kind": kind, "name": name, "uid": "2", "controller": True}
        ]
    parsed = parse_pod(pod, plugin_namespaces=("kube-system",))
    assert parsed is not None
    return parsed.workload


@pytest.mark.parametrize(
    ("owner", "workload"),
    [
        (("StatefulSet", "web"), ("StatefulSet", "web")),
        (("Job", "train"), ("Job", "train")),
        (("Job", "nightly-29371680"), ("CronJob", "nightly")),
        (("RayCluster", "ray"), ("RayCluster", "ray")),
        (("ReplicaSet", "web-by-hand"), ("ReplicaSet", "web-by-hand")),
        (None, ("Pod", "web-0")),
    ],
    ids=str,
)
def test_a_pod_is_one_of_what_a_person_made(owner: Any, workload: tuple[str, str]) -> None:
    assert parse(owner) == workload


def test_a_deployment_is_known_by_the_label_that_it_gives_to_its_pods() -> None:
    owner = ("ReplicaSet", f"web-{HASH}")
    assert parse(owner, **{"pod-template-hash": HASH}) == ("Deployment", "web")
    assert parse(owner, **{"pod-template-hash": "other"}) == ("ReplicaSet", f"web-{HASH}")


@pytest.mark.parametrize(
    ("label", "kind"),
    [
        ("jobset.sigs.k8s.io/jobset-name", "JobSet"),
        ("leaderworkerset.sigs.k8s.io/name", "LeaderWorkerSet"),
        ("serving.kserve.io/inferenceservice", "InferenceService"),
    ],
)
def test_a_kind_with_controllers_in_between_is_known_by_its_label(label: str, kind: str) -> None:
    assert parse(("Job", "work-workers-0"), **{label: "work"}) == (kind, "work")
    assert parse(("Job", "work-workers-0"), **{label: 'work",pool="x'}) == ("Job", "work-workers-0")
    assert parse(None, **{label: "work"}) == ("Pod", "web-0")


@pytest.mark.parametrize(
    "owner",
    [
        ("A" * 64, "web"),
        ("Deploy ment", "web"),
        ("Deployment\n", "web"),
        ("Deployment", "x" * 254),
        ("Deployment", 'web",pool="other'),
        ("Deployment", "web\n"),
    ],
    ids=["long kind", "two words", "kind ends line", "long name", "quotes", "name ends line"],
)
def test_an_owner_that_nothing_can_be_called_like_is_none(owner: tuple[str, str]) -> None:
    assert parse(owner) == ("Pod", "web-0")


def test_of_pods_that_ask_for_no_gpu_memory_it_is_not_kept() -> None:
    pod = build_pod("whole", gib=None)
    pod["metadata"] |= {"namespace": "team-a", "uid": "1"}
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    parsed = parse_pod(pod, plugin_namespaces=("kube-system",))
    assert parsed is not None
    assert parsed.workload is None
