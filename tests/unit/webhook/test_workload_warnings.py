"""What the webhook says where an object of another project's kind is applied."""

import time
from itertools import count
from typing import Any

import orjson
import pytest

from gpushare.core.admission.request import Rules
from gpushare.webhook.cache import UndecidedError
from gpushare.webhook.codec import MalformedReviewError
from gpushare.webhook.handler import AdmissionHandler
from gpushare.webhook.workload_warnings import MAX_WARNINGS
from gpushare.workload_kinds import WorkloadKind
from tests.kit.values.manifests import Json, build_review, encode
from tests.kit.values.webhook_server import build_handler, build_memory

RAY = {"group": "ray.io", "version": "v1", "resource": "rayclusters"}
TO_TRAINING = "will be assigned to pool training (cgpu)"


def build_template(gib: Any = 4, **spec: Any) -> Json:
    resources = {"limits": {"aliyun.com/gpu-mem": gib}} if gib else {}
    return {"spec": {"containers": [{"name": "main", "resources": resources}], **spec}}


def build_ray_cluster(*templates: Json, head: Json | None = None) -> Json:
    groups = [
        {"groupName": f"group-{index}", "template": each} for index, each in enumerate(templates)
    ]
    return {
        "metadata": {"name": "ray"},
        "spec": {
            "headGroupSpec": {"template": head or build_template(0)},
            "workerGroupSpecs": groups,
        },
    }


def ask(handler: AdmissionHandler, workload: Any, **resource: str) -> list[str]:
    """The warnings about an object, which is always allowed."""
    review = build_review(workload, resource={**RAY, **resource})
    response = orjson.loads(handler.warn_of_workload(encode(review)).body)["response"]
    assert response["allowed"]
    assert "patch" not in response
    return list(response.get("warnings", []))


def warn(workload: Any, **resource: str) -> list[str]:
    return ask(build_handler(), workload, **resource)


def test_the_group_whose_pods_share_a_gpu_is_named_and_the_head_is_not() -> None:
    assigned, room = warn(build_ray_cluster(build_template()))
    assert assigned == f"Pods of workerGroupSpecs[group-0] {TO_TRAINING}"
    assert room.startswith("workerGroupSpecs[group-0]: The pod may stay pending")


def test_equal_answers_are_told_once_with_the_groups_that_they_are_about() -> None:
    selecting = build_template(nodeSelector={"gpushare.io/pool": "inference"})
    elsewhere = build_template(schedulerName="volcano")
    workload = build_ray_cluster(*[build_template()] * 3, selecting, elsewhere, elsewhere)
    assigned, _, scheduled = warn(workload)
    named = "workerGroupSpecs[group-0], workerGroupSpecs[group-1] and 1 more"
    assert assigned == f"Pods of {named} {TO_TRAINING}"
    assert scheduled.startswith("workerGroupSpecs[group-4], workerGroupSpecs[group-5]: ")
    assert "scheduler volcano chooses the node" in scheduled


def test_pods_that_will_be_refused_are_said_by_group() -> None:
    handler = build_handler(build_memory(pools=()), rules=Rules(denies=True))
    (warning,) = ask(handler, build_ray_cluster(build_template()))
    assert warning.startswith("Pods of workerGroupSpecs[group-0] will be refused: NoEligiblePool")


@pytest.mark.parametrize("version", ["v1", "v1alpha1", "v2"])
def test_every_version_of_a_kind_is_read(version: str) -> None:
    assert warn(build_ray_cluster(build_template()), version=version)


@pytest.mark.parametrize("resource", ["raycronjobs", "pods", ""])
def test_of_an_unknown_kind_nothing_is_said(resource: str) -> None:
    assert warn(build_ray_cluster(build_template()), resource=resource) == []


def test_nothing_is_said_of_what_has_no_word_about_shared_gpus() -> None:
    job = {"spec": {"runtimeRef": {"name": "torch"}}}
    trainjobs = {"group": "trainer.kubeflow.org", "resource": "trainjobs"}
    assert warn(job, **trainjobs) == []
    resources = {"limits": {"aliyun.com/gpu-mem": "8"}}
    (warning,) = warn(
        {"spec": {"trainer": {"resourcesPerNode": resources}, **job["spec"]}}, **trainjobs
    )
    assert warning == "Pods of this workload are not known here: it names object torch"


@pytest.mark.parametrize("gib", ["{{inputs.parameters.gib}}", "0.5", -1, {"a": 1}])
def test_a_request_that_no_pod_can_have_is_said(gib: Any) -> None:
    (warning,) = warn(build_ray_cluster(build_template(gib)))
    assert warning.startswith("Pods of workerGroupSpecs[group-0] are not known here: ")


def test_kueue_chooses_within_the_flavor_of_a_cluster_whose_queue_is_named() -> None:
    workload = build_ray_cluster(build_template())
    workload["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "gpus"}
    assigned, _, advice = warn(workload)
    assert TO_TRAINING in assigned
    assert "If the Kueue flavor has node labels" in advice


def test_an_added_kind_is_read_and_one_without_templates_is_not() -> None:
    added = tuple(
        WorkloadKind.model_validate(each)
        for each in (
            {"group": "ray.io", "resource": "rayclusters", "kind": "RayCluster", "templates": []},
            {
                "group": "example.com",
                "resource": "works",
                "kind": "Work",
                "templates": [{"path": "spec.parts[*].pod", "shape": "PodSpec"}],
            },
        )
    )
    handler = build_handler(added_kinds=added)
    assert ask(handler, build_ray_cluster(build_template())) == []
    parts = {"spec": {"parts": {"a": {"pod": build_template()["spec"]}}}}
    works = {"group": "example.com", "resource": "works"}
    assert ask(handler, parts, **works)[0] == f"Pods of parts[a].pod {TO_TRAINING}"


@pytest.mark.parametrize("workload", [build_ray_cluster(build_template(0)), None])
def test_an_object_of_no_concern_waits_for_neither_namespace_nor_pools(workload: Any) -> None:
    handler = build_handler(build_memory(namespaces=(), clock=count(step=1e6).__next__))
    assert ask(handler, workload) == []
    with pytest.raises(UndecidedError):
        ask(handler, build_ray_cluster(build_template()))


def test_warnings_about_thousands_of_templates_are_few_and_short() -> None:
    templates = [build_template(f"{index}\n{'x' * 300}") for index in range(3000)]
    warnings = warn(build_ray_cluster(*templates))
    assert len(warnings) == MAX_WARNINGS
    assert all(len(each.encode()) <= 256 and each.isprintable() for each in warnings)
    assert warnings[-1].endswith("more warnings about this workload")


def test_more_templates_than_are_looked_at_are_said() -> None:
    warnings = warn(build_ray_cluster(*[build_template()] * 150))
    assert "and 97 more" in warnings[0]
    assert warnings[-1] == "Only the first 100 templates of this workload were checked"


@pytest.mark.parametrize(
    "spec",
    [
        None,
        [],
        "x",
        {"workerGroupSpecs": "x"},
        {"workerGroupSpecs": {"a": {"template": 1}}},
        {"workerGroupSpecs": [None, 1, "x", [], {"template": []}, {"template": {"spec": 1}}]},
        {"headGroupSpec": {"template": {"metadata": 1, "spec": {"containers": [1]}}}},
        {"headGroupSpec": {"template": {"spec": {"containers": [{"resources": "x"}]}}}},
    ],
)
def test_an_object_of_any_shape_is_allowed(spec: Any) -> None:
    warnings = warn({"metadata": {"annotations": {"gpushare.io/pool": "x"}}, "spec": spec})
    assert all(" are not known here: " in each for each in warnings)


def test_an_object_that_is_nested_too_deeply_is_no_review_that_can_be_answered() -> None:
    nested = b"[" * 100_000 + b"]" * 100_000
    review = encode(build_review({"spec": "NESTED", "a": "aliyun.com/gpu-mem"}, resource=RAY))
    with pytest.raises(MalformedReviewError):
        build_handler().warn_of_workload(review.replace(b'"NESTED"', nested))


def test_a_long_object_is_answered_in_a_fraction_of_the_second_that_is_waited() -> None:
    empty: list[Json] = [{}] * 400_000
    body = encode(
        build_review({"spec": {"workerGroupSpecs": empty, "a": "aliyun.com/gpu-mem"}}, resource=RAY)
    )
    handler = build_handler()
    started = time.process_time()
    handler.warn_of_workload(body)
    assert time.process_time() - started < 0.5
