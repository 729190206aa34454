"""Objects of any kind: where their pods are found, and what is said of those that limit pods."""

from typing import Any

import pytest

from gpushare.analysis.migration.cards import Cards
from gpushare.analysis.migration.finding import Migrated, MigrationCode
from gpushare.analysis.migration.live import build_manifest, is_migratable
from gpushare.analysis.migration.manifests import migrate_manifest
from gpushare.analysis.migration.pods import Target
from tests.kit.values.manifests import build_workload
from tests.unit.migration.whole_card_pods import (
    MEMORY,
    WHOLE,
    Json,
    build_gpu_container,
    build_whole_pod,
)


def migrate(raw: Any) -> Migrated:
    return migrate_manifest(raw, Target(Cards(memory_everywhere=15)))


def tell(raw: Any) -> list[tuple[str, MigrationCode]]:
    return [(finding.about, finding.code) for finding in migrate(raw).findings]


def test_a_custom_resource_has_its_templates_migrated() -> None:
    template = {"metadata": {"annotations": {}}, "spec": {"containers": [build_gpu_container()]}}
    spec = {"pytorchReplicaSpecs": {"Master": {"template": template}}}
    migrated = migrate({"kind": "PyTorchJob", "metadata": {"name": "train"}, "spec": spec})
    assert WHOLE not in str(migrated.raw)
    assert migrated.findings == ()


def test_each_object_of_a_list_is_named() -> None:
    pod = build_whole_pod()
    pod["metadata"]["namespace"] = "vision"
    assert tell({"kind": "List", "items": [pod, None]}) == [
        ("Pod vision/trainer", MigrationCode.RECREATE)
    ]


@pytest.mark.parametrize("raw", [None, "text", [1], {"kind": "List", "items": "x"}, {"a": 1}])
def test_what_is_no_object_stays(raw: Any) -> None:
    migrated = migrate(raw)
    assert (migrated.raw, migrated.findings) == (raw, ())


def test_whole_cards_where_no_pod_is_are_named() -> None:
    values = {"kind": "HelmRelease", "spec": {"values": {"limits": {WHOLE: 1}}}}
    assert migrate(values).raw == values
    assert tell(values) == [("HelmRelease (no name)", MigrationCode.UNKNOWN_SHAPE)]


def test_a_finding_of_several_templates_is_told_once() -> None:
    template = {"spec": {"containers": [build_gpu_container("x")]}}
    assert len(tell({"kind": "RayCluster", "spec": {"a": template, "b": template}})) == 1


def test_daemonsets_of_an_edition_are_left_to_it() -> None:
    plugin = build_whole_pod(build_gpu_container(None), nodeSelector={"gpushare": "true"})
    plugin["metadata"]["annotations"] = {}
    raw = build_workload("DaemonSet", "gpushare-device-plugin-ds", pod=plugin)
    assert migrate(raw).raw is raw
    assert tell(raw) == [("DaemonSet gpushare-device-plugin-ds", MigrationCode.OLD_COMPONENT)]


@pytest.mark.parametrize(
    ("hard", "count"),
    [
        ({f"requests.{WHOLE}": "8"}, 1),
        ({f"requests.{WHOLE}": 8, f"requests.{MEMORY}": 10}, 2),
        ({"requests.cpu": 1}, 0),
        (None, 0),
    ],
)
def test_quotas_on_gpus_are_named(hard: Any, count: int) -> None:
    quota = {"kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}
    assert tell(quota) == [("ResourceQuota q", MigrationCode.QUOTA)] * count
    assert migrate(quota).raw is quota


def test_a_quota_is_told_how_much_memory_its_cards_are_if_they_are_of_one_kind() -> None:
    quota = {"kind": "ResourceQuota", "spec": {"hard": {f"requests.{WHOLE}": "8"}}}
    assert '"120" for as many' in migrate(quota).findings[0].message
    unknown = migrate_manifest(quota, Target(Cards()))
    assert "whole cards" not in unknown.findings[0].message


@pytest.mark.parametrize("resource", [WHOLE, MEMORY])
def test_limit_ranges_on_gpus_are_named(resource: str) -> None:
    limits = [{"type": "Container", "max": {resource: 1}, "default": {"cpu": 1}}]
    raw = {"kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": limits}}
    assert tell(raw) == [("LimitRange l", MigrationCode.LIMIT_RANGE)]


# Kinds of other projects.


def test_containers_beside_the_list_of_a_pod_are_migrated_with_its_selectors() -> None:
    resources = {"limits": {WHOLE: 1}}
    model = {"modelFormat": {"name": "onnx"}, "resources": resources}
    predictor: Json = {"model": model, "nodeSelector": {"gpushare": "true"}, "minReplicas": 2}
    api = {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService"}
    raw = {**api, "metadata": {"name": "m"}, "spec": {"predictor": predictor}}
    found = migrate(raw)
    assert found.raw["spec"]["predictor"] == {
        "model": {"modelFormat": {"name": "onnx"}, "resources": {"limits": {MEMORY: 15}}},
        "nodeSelector": {"ack.node.gpu.schedule": "share"},
        "minReplicas": 2,
    }
    assert MigrationCode.UNKNOWN_SHAPE not in [each.code for each in found.findings]
    assert predictor["model"]["resources"] == {"limits": {WHOLE: 1}}


def test_each_step_of_a_workflow_is_migrated() -> None:
    steps = [
        {"name": "all", "dag": {"tasks": []}},
        {"name": "train", "container": {"resources": {"limits": {WHOLE: 1}}}},
        {"name": "many", "container": {"resources": {"limits": {WHOLE: 2}}}},
    ]
    api = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow"}
    found = migrate({**api, "metadata": {"name": "w"}, "spec": {"templates": steps}})
    changed = [{"resources": {"limits": {MEMORY: 15}}}, steps[2]["container"]]
    assert [each.get("container") for each in found.raw["spec"]["templates"]] == [None, *changed]
    assert [each.code for each in found.findings if each.code.is_left] == [
        MigrationCode.UNKNOWN_SHAPE
    ]


# Objects of the API server.


def build_live_job(**status: Any) -> Json:
    labels = {"app": "a", "controller-uid": "1", "batch.kubernetes.io/job-name": "train"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": []}}
    metadata = {"name": "train", "uid": "1", "resourceVersion": "7", "labels": dict(labels)}
    spec = {"selector": {"matchLabels": {"controller-uid": "1"}}, "template": pod}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}
    return {**job, "spec": spec, "status": status}


def test_a_job_is_as_before_the_server_saw_it() -> None:
    assert build_manifest(build_live_job(active=1)) == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "labels": {"app": "a"}},
        "spec": {"template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": []}}},
    }


def test_a_job_with_a_selector_of_its_own_keeps_it() -> None:
    job = build_live_job()
    job["spec"]["manualSelector"] = True
    assert build_manifest(job)["spec"] == job["spec"]


def test_a_job_of_another_project_has_no_template_where_kubernetes_own_has_one() -> None:
    spec = {"tasks": [{"name": "worker", "template": {}}], "selector": {}}
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "spec": spec}
    assert build_manifest({**job, "metadata": {"name": "train"}})["spec"] == spec


def test_the_empty_times_in_templates_of_older_servers_are_left_out() -> None:
    template = {"metadata": {"creationTimestamp": None, "labels": {"app": "a"}}, "spec": {}}
    claim = {"metadata": {"creationTimestamp": None, "name": "data"}}
    spec = {"template": template, "volumeClaimTemplates": [claim]}
    live = {"kind": "StatefulSet", "metadata": {"name": "train"}, "spec": spec}
    assert build_manifest(live)["spec"] == {
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": {}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
    }


def test_a_pod_is_not_bound_any_more() -> None:
    pod = build_whole_pod(nodeName="n1")
    applied = "kubectl.kubernetes.io/last-applied-configuration"
    pod["metadata"] |= {"uid": "1", "annotations": {applied: "{}"}}
    assert build_manifest(pod) == build_whole_pod()


COMPLETE = {"conditions": [{"type": "Complete", "status": "True"}]}
FAILED_NOT = {"conditions": [{"type": "Failed", "status": "False"}]}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, True),
        ({"metadata": {"ownerReferences": [{"kind": "Node", "controller": False}]}}, True),
        ({"metadata": {"ownerReferences": [{"kind": "ReplicaSet", "controller": True}]}}, False),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, False),
        ({"status": {"phase": "Succeeded"}}, False),
        ({"status": {"phase": "Running"}}, True),
        ({"kind": "Job", "status": COMPLETE}, False),
        ({"kind": "Job", "status": FAILED_NOT}, True),
    ],
)
def test_what_others_made_or_what_has_ended_is_left_out(more: Json, expected: bool) -> None:
    assert is_migratable({"kind": "Pod", "metadata": {}, **more}) is expected


@pytest.mark.parametrize("containers", [1, True, "{{ .Values.containers }}", {"a": 1}])
def test_what_is_no_list_of_containers_stays_also_where_a_kind_has_more(containers: Any) -> None:
    spec = {"templates": [{"containers": containers, "container": build_gpu_container()}]}
    raw = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "spec": spec}
    assert migrate(raw).raw == raw
