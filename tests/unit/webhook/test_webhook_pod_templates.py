"""What the webhook says about workloads, from their templates."""

from typing import Any

import pytest

from gpushare.api.k8s.pod_shape import PodShape, parse_pod_shape
from gpushare.webhook.codec import parse_workload_review
from gpushare.webhook.pod_template import NoTemplateError, WorkloadShape
from gpushare.webhook.pod_template import find_template as find_template_in
from tests.kit.values.manifests import Json, build_gpu_pod, build_review, encode

TEMPLATE = {key: build_gpu_pod()[key] for key in ("metadata", "spec")}


def build_workload(resource: str, **metadata: Any) -> Json:
    spec: Json = {"template": TEMPLATE}
    if resource == "batch/v1/cronjobs":
        spec = {"jobTemplate": {"metadata": metadata.pop("job", None), "spec": spec}}
    return {"metadata": {"name": "work", **metadata}, "spec": spec}


def find_template(resource: str, workload: Json) -> PodShape | None:
    group, version, kind = resource.split("/")
    named = {"group": group, "version": version, "resource": kind}
    review = parse_workload_review(encode(build_review(workload, resource=named)))
    return find_template_in(review.resource, review.object or WorkloadShape())


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
    assert template.spec == parse_pod_shape(TEMPLATE).spec
    assert template.metadata is not None
    owners = [(owner.kind, owner.controller) for owner in template.metadata.owner_references or ()]
    expected = {"daemonsets": "DaemonSet", "jobs": "Job", "cronjobs": "Job"}
    owner = expected.get(resource.rpartition("/")[2])
    assert owners == ([(owner, True)] if owner else [])


def test_what_is_no_workload_has_no_template() -> None:
    assert find_template("apps/v1/replicasets", build_workload("apps/v1/replicasets")) is None


@pytest.mark.parametrize("workload", [None, {}, {"spec": None}, {"spec": {"template": None}}])
def test_a_workload_without_a_template_is_malformed(workload: Json) -> None:
    with pytest.raises(NoTemplateError):
        find_template("batch/v1/jobs", workload)
