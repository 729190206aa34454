"""What the webhook says about workloads, from their templates."""

from typing import Any

import pytest

from gpushare.webhook.codec import MalformedReviewError
from gpushare.webhook.template import find_template
from tests.kit.reviews import build_gpu_pod

Json = dict[str, Any]

TEMPLATE = {key: build_gpu_pod()[key] for key in ("metadata", "spec")}
QUEUE = {"kueue.x-k8s.io/queue-name": "team"}


def build_workload(resource: str, **metadata: Any) -> Json:
    spec: Json = {"template": TEMPLATE}
    if resource == "batch/v1/cronjobs":
        spec = {"jobTemplate": {"metadata": metadata.pop("job", None), "spec": spec}}
    return {"metadata": {"name": "work", **metadata}, "spec": spec}


@pytest.mark.parametrize(
    "resource",
    [
        "apps/v1/deployments",
        "apps/v1/statefulsets",
        "apps/v1/daemonsets",
        "batch/v1/jobs",
        "batch/v1/cronjobs",
    ],
)
def test_a_workloads_pods_are_those_of_its_template(resource: str) -> None:
    template = find_template(resource, build_workload(resource))
    assert template is not None
    assert template["spec"] == TEMPLATE["spec"]
    assert template["metadata"].items() >= TEMPLATE["metadata"].items()


def test_a_daemonsets_pods_are_its_own() -> None:
    resource = "apps/v1/daemonsets"
    template = find_template(resource, build_workload(resource))
    assert template is not None
    assert template["metadata"]["ownerReferences"] == [{"kind": "DaemonSet", "controller": True}]


@pytest.mark.parametrize(
    ("resource", "metadata"),
    [
        ("batch/v1/jobs", {"labels": {**QUEUE, "app": "x"}}),
        ("batch/v1/cronjobs", {"job": {"labels": QUEUE}}),
        ("apps/v1/deployments", {"labels": QUEUE}),
    ],
)
def test_the_queue_of_a_workload_holds_for_its_pods(resource: str, metadata: Json) -> None:
    template = find_template(resource, build_workload(resource, **metadata))
    assert template is not None
    assert template["metadata"]["labels"] == QUEUE


def test_what_is_no_workload_has_no_template() -> None:
    assert find_template("apps/v1/replicasets", build_workload("apps/v1/replicasets")) is None


@pytest.mark.parametrize(
    "workload",
    [
        {},
        {"spec": None},
        {"spec": {"template": []}},
        {"metadata": [], "spec": {"template": {}}},
        {"metadata": {"labels": "x"}, "spec": {"template": {}}},
        {"spec": {"template": {"metadata": {"labels": 7}}}},
    ],
)
def test_a_workload_without_a_template_is_malformed(workload: Json) -> None:
    with pytest.raises(MalformedReviewError):
        find_template("batch/v1/jobs", workload)
