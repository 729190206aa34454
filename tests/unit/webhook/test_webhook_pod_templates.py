"""The pods that the webhook expects of an object, from where its kind describes them."""

from typing import Any

import pytest

from gpushare.api.k8s.pod_request import Placer, read_pod_request
from gpushare.api.k8s.pod_shape import PodShape, parse_pod_shape
from gpushare.webhook.pod_template import PodsFound
from gpushare.webhook.pod_template import find_pods as find_pods_of
from gpushare.workload_kinds import (
    EACH,
    WORKLOAD_KINDS,
    WorkloadKind,
    find_values,
    merge_kinds,
)
from tests.kit.values.manifests import Json, build_gpu_pod

TEMPLATE = {key: build_gpu_pod()[key] for key in ("metadata", "spec")}
CONTAINER: Json = {"name": "main", "resources": {"limits": {"aliyun.com/gpu-mem": "4"}}}
KINDS = merge_kinds()
QUEUE = {"kueue.x-k8s.io/queue-name": "gpus"}


def find_pods(key: str, workload: Json) -> list[PodsFound]:
    return list(find_pods_of(KINDS[key], workload))


def find_pod(key: str, workload: Json) -> PodShape:
    (found,) = find_pods(key, workload)
    assert found.pod is not None, found.problem
    return found.pod


def build_workload(key: str, **metadata: Any) -> Json:
    spec: Json = {"template": TEMPLATE}
    if key == "cronjobs.batch":
        spec = {"jobTemplate": {"metadata": metadata.pop("job", None), "spec": spec}}
    return {"metadata": {"name": "work", **metadata}, "spec": spec}


@pytest.mark.parametrize("kind", [each for each in WORKLOAD_KINDS if each.is_built_in], ids=str)
def test_a_workloads_pods_are_those_of_its_template(kind: WorkloadKind) -> None:
    template = find_pod(kind.key, build_workload(kind.key))
    assert template.spec == parse_pod_shape(TEMPLATE).spec
    assert template.metadata is not None
    owners = [(owner.kind, owner.controller) for owner in template.metadata.owner_references or ()]
    expected = {"DaemonSet": "DaemonSet", "Job": "Job", "CronJob": "Job"}
    owner = expected.get(kind.kind)
    assert owners == ([(owner, True)] if owner else [])


@pytest.mark.parametrize(
    "workload",
    [
        {},
        {"spec": None},
        {"spec": {"template": None}},
        {"spec": []},
        {"spec": {"template": {}}},
        {"spec": {"template": {"spec": {"containers": []}}}},
    ],
)
def test_what_is_not_there_is_left_out(workload: Json) -> None:
    assert find_pods("jobs.batch", workload) == []


def build_template(**spec: Any) -> Json:
    return {"spec": {"containers": [CONTAINER], **spec}}


def build_ray_cluster(*workers: str, **metadata: Any) -> Json:
    groups = [{"groupName": name, "replicas": 2, "template": build_template()} for name in workers]
    head = {"template": {"spec": {"containers": [{"name": "head"}]}}}
    spec = {"headGroupSpec": head, "workerGroupSpecs": groups}
    return {"metadata": {"name": "ray", **metadata}, "spec": spec}


def test_each_template_is_named_by_its_group() -> None:
    found = find_pods("rayclusters.ray.io", build_ray_cluster("small", "large"))
    assert [each.where for each in found] == [
        *("headGroupSpec", "workerGroupSpecs[small]", "workerGroupSpecs[large]")
    ]
    requests = [read_pod_request(each.pod or PodShape()).memory for each in found]
    assert requests == [0, 4, 4]
    assert found[2].replicas == (
        ("spec.workerGroupSpecs.1.replicas", 2),
        ("spec.workerGroupSpecs.1.numOfHosts", None),
    )


def test_templates_in_a_map_are_named_by_their_key() -> None:
    replicas = {"Master": {"template": build_template()}, "Worker": {"template": build_template()}}
    found = find_pods("pytorchjobs.kubeflow.org", {"spec": {"pytorchReplicaSpecs": replicas}})
    assert [each.where for each in found] == [
        *("pytorchReplicaSpecs[Master]", "pytorchReplicaSpecs[Worker]")
    ]


@pytest.mark.parametrize(
    ("key", "labels"),
    [("rayclusters.ray.io", QUEUE), ("rayclusters.ray.io", {})],
)
def test_kueue_holds_back_the_owner_whose_label_names_a_queue(key: str, labels: Json) -> None:
    found = find_pods(key, build_ray_cluster("gpu", labels=labels))[1]
    request = read_pod_request(found.pod or PodShape())
    assert request.is_of_queued_job == bool(labels)
    assert request.placer is None


def test_kueue_gates_the_pods_of_a_kind_that_it_can_not_hold_back() -> None:
    groups = {"workerTemplate": build_template()}
    workload = {"metadata": {"labels": QUEUE}, "spec": {"leaderWorkerTemplate": groups}}
    pod = find_pod("leaderworkersets.leaderworkerset.x-k8s.io", workload)
    assert read_pod_request(pod).placer is Placer.KUEUE


def test_a_queue_may_be_named_by_what_the_object_creates() -> None:
    job = {"metadata": {"labels": QUEUE}, "spec": {"template": build_template()}}
    workload = {"spec": {"replicatedJobs": [{"name": "a", "template": job}]}}
    assert read_pod_request(find_pod("jobsets.jobset.x-k8s.io", workload)).is_of_queued_job


def test_a_predictors_model_is_a_container_beside_its_list() -> None:
    predictor = {
        "model": {"modelFormat": {"name": "onnx"}, "resources": CONTAINER["resources"]},
        "nodeSelector": {"zone": "a"},
        "annotations": {"gpushare.io/pool": "second"},
    }
    annotations = {"gpushare.io/pool": "first", "gpushare.io/isolation": "required"}
    workload = {"metadata": {"annotations": annotations}, "spec": {"predictor": predictor}}
    request = read_pod_request(find_pod("inferenceservices.serving.kserve.io", workload))
    assert (request.memory, request.pool, request.isolation) == (4, "second", "required")
    assert request.selection.labels == {"zone": "a"}


def test_a_step_of_a_workflow_has_the_selectors_of_the_workflow_unless_it_has_its_own() -> None:
    spec = {
        "nodeSelector": {"zone": "a"},
        "podMetadata": {"annotations": {"gpushare.io/pool": "training"}},
        "templates": [
            {"name": "all", "dag": {"tasks": []}},
            {"name": "train", "container": CONTAINER},
            {"name": "test", "script": CONTAINER, "nodeSelector": {"zone": "b"}},
        ],
    }
    for key, workload in (
        ("workflows.argoproj.io", {"spec": spec}),
        ("cronworkflows.argoproj.io", {"spec": {"workflowSpec": spec}}),
    ):
        found = [
            (each.where.rpartition("templates")[2], read_pod_request(each.pod or PodShape()))
            for each in find_pods(key, workload)
        ]
        assert [
            (where, request.memory, request.pool, request.selection.labels["zone"])
            for where, request in found
        ] == [("[train]", 4, "training", "a"), ("[test]", 4, "training", "b")]


@pytest.mark.parametrize(
    ("job", "template", "scheduler"),
    [
        ({}, {}, "volcano"),
        ({"schedulerName": "other"}, {}, "other"),
        ({"schedulerName": "other"}, {"schedulerName": "default-scheduler"}, "default-scheduler"),
    ],
)
def test_volcano_schedules_the_pods_of_its_job_unless_another_is_named(
    job: Json, template: Json, scheduler: str
) -> None:
    spec = {**job, "tasks": [{"name": "worker", "template": build_template(**template)}]}
    pod = find_pod("jobs.batch.volcano.sh", {"spec": spec})
    assert read_pod_request(pod).scheduler == scheduler


@pytest.mark.parametrize(
    ("key", "spec", "problem"),
    [
        (
            "trainjobs.trainer.kubeflow.org",
            {"runtimeRef": {"name": "torch", "kind": "TrainingRuntime"}},
            "it names TrainingRuntime torch",
        ),
        (
            "workflows.argoproj.io",
            {"podSpecPatch": "containers: []"},
            "it changes them in ways that are not read",
        ),
        ("rayclusters.ray.io", {"headGroupSpec": {"template": "x"}}, "an object is expected"),
        (
            "rayclusters.ray.io",
            {"headGroupSpec": {"template": {"spec": {"containers": {"a": 1}}}}},
            "its containers are no list",
        ),
        (
            "rayclusters.ray.io",
            {"headGroupSpec": {"template": build_template(nodeSelector={"a": 1})}},
            "not a valid Pod",
        ),
        (
            "rayclusters.ray.io",
            {"headGroupSpec": {"template": build_template(nodeSelector={1: "a"})}},
            "not a valid Pod",
        ),
    ],
)
def test_what_can_not_be_read_is_said_and_never_guessed(key: str, spec: Json, problem: str) -> None:
    (found,) = find_pods(key, {"spec": spec})
    assert found.pod is None
    assert problem in found.problem


def test_a_quantity_that_is_filled_in_later_is_not_known() -> None:
    limits = {"aliyun.com/gpu-mem": "{{inputs.parameters.memory}}"}
    steps = [{"name": "train", "container": {"resources": {"limits": limits}}}]
    (found,) = find_pods("workflows.argoproj.io", {"spec": {"templates": steps}})
    assert found.pod is None
    assert "aliyun.com/gpu-mem" in found.problem


def test_of_a_huge_list_the_first_thousand_are_looked_at() -> None:
    groups: list[Json] = [{}] * 1500
    groups[999] = groups[1000] = {"template": build_template()}
    found = find_pods("rayclusters.ray.io", {"spec": {"workerGroupSpecs": groups}})
    assert [each.where for each in found] == ["workerGroupSpecs[999]"]


@pytest.mark.parametrize("depth", [2, 3, 40])
def test_of_lists_in_lists_no_more_is_looked_at_than_of_one_list(depth: int) -> None:
    raw: Any = [[{}] * 700] * 700
    for _ in range(depth - 2):
        raw = [raw]
    assert len(list(find_values({"spec": raw}, ("spec", *[EACH] * depth)))) == 1000
    assert list(find_values([[]] * 2000 + [[1]], (EACH, EACH))) == []
