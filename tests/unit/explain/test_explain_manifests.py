"""`gpushare explain -f`: what is a manifest, what is skipped, and how the command line fails."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from gpushare.api.pruned.cluster import Cluster
from gpushare.cli.cluster.snapshot_file import build_snapshot
from gpushare.cli.exit_codes import Exit
from tests.kit.cluster.command_line import expect_error, run_command
from tests.kit.values.found_clusters import (
    Asked,
    build_found_cluster,
    build_found_pool,
    build_found_webhook,
)
from tests.kit.values.manifests import Json, build_pod

SPACE = {"metadata": {"name": "default", "uid": "1", "labels": {}}}
CLUSTER = build_found_cluster(
    pools=[build_found_pool() | {"status": {"nodes": {"matched": 0}}}], namespaces=[SPACE]
)
"""One pool, in which no pod can be."""


def explain_all(
    folder: Path, *objects: Json, cluster: Cluster = CLUSTER, options: tuple[str, ...] = ()
) -> list[Json]:
    file = folder / "manifest.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    said: list[Json] = Asked(folder, "explain", "-f", str(file)).tell(cluster, *options)["objects"]
    return said


def test_a_pod_that_waits_is_not_counted_against_itself(tmp_path: Path) -> None:
    """Two equal pools, one of which counts the pod that it got."""
    pools = []
    for name, requested in (("pa", 14), ("pb", 0)):
        capacity = {
            "gpus": 1, "memoryTotal": 15, "memoryAllocated": 0, "memoryRequested": requested,
            "largestFreeBlock": 15, "largestCard": 15, "freeBlocks": [{"size": 15, "cards": 1}],
            "strandedMemory": 0, "unit": "GiB", "summary": "0/15",
            "observedAt": "2026-03-01T11:00:00Z",
        }  # fmt: skip
        status = {"nodes": {"matched": 1}, "capacity": capacity}
        pools.append(build_found_pool(name, schedule="cgpu") | {"status": status})
    decided = {"gpushare.io/decision": '{"v":1,"reason":"Routed","pool":"pa"}'}
    pod = build_pod("self", gib=14, selects={"gpushare.io/pool": "pa"}, annotations=decided)
    created = {"uid": "self", "namespace": "default", "creationTimestamp": "2026-03-01T10:59:00Z"}
    pod |= {"metadata": pod["metadata"] | created, "status": {"phase": "Pending"}}
    cluster = build_found_cluster(pools=pools, pods=[pod])
    said = Asked(tmp_path, "explain", "pod", "self").tell(cluster)
    assert said["decision"]["pool"] == "pa"
    assert said["pools"][0]["figures"]["free"] == 15


def test_kinds_that_the_installation_adds_are_known(tmp_path: Path) -> None:
    spec = build_pod("p")["spec"]
    work: Json = {"apiVersion": "example.com/v2", "kind": "Work", "metadata": {"name": "w"}}
    work["spec"] = {"parts": [{"name": "a", "pod": spec}, {"name": "b", "pod": []}]}
    file = tmp_path / "manifest.yaml"
    file.write_text(yaml.safe_dump(work))
    explain = Asked(tmp_path, "explain", "-f", str(file))
    assert explain.tell(CLUSTER)["skipped"] == ["Work/w"]

    row: Json = {"group": "example.com", "resource": "works", "kind": "Work"}
    row |= {"templates": [{"path": "spec.parts[*].pod", "shape": "PodSpec"}]}
    adds = build_found_webhook(WORKLOAD_KINDS=json.dumps([row]))
    told = explain.tell(replace(CLUSTER, deployments=(adds,)))
    assert [(each["kind"], each["template"]) for each in told["objects"]] == [
        ("Work", "parts[a].pod")
    ]
    assert [(each["object"], each["template"]) for each in told["unknown"]] == [
        ("Work/w", "parts[b].pod")
    ]
    assert told["setup"]["GPUSHARE_WORKLOAD_KINDS"]["value"] == [row]


def test_each_of_many_templates_is_told(tmp_path: Path) -> None:
    pod = build_pod("p")
    job: Json = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}
    job |= {"metadata": {"name": "many"}, "spec": {"tasks": [{"template": pod}] * 101}}
    assert len(explain_all(tmp_path, job)) == 101


def test_lists_are_taken_apart(tmp_path: Path) -> None:
    pods = {"kind": "List", "items": [{"kind": "PodList", "items": [build_pod("p")]}]}
    assert [each["name"] for each in explain_all(tmp_path, pods)] == ["p"]


def test_a_folder_is_read_as_kubectl_reads_it(tmp_path: Path) -> None:
    folder = tmp_path / "manifests"
    (folder / "more").mkdir(parents=True)
    for place in ("a.yaml", "more/a.yaml"):
        (folder / place).write_text(yaml.safe_dump(build_pod(place)))
    (folder / "empty.yaml").write_text("# Nothing yet.\n")
    explain = Asked(tmp_path, "explain", "-f", str(folder))
    for options, names in (((), ["a.yaml"]), (("-R",), ["a.yaml", "more/a.yaml"])):
        assert [each["name"] for each in explain.tell(CLUSTER, *options)["objects"]] == names


def test_a_pod_whose_name_is_still_to_be_made(tmp_path: Path) -> None:
    pod = build_pod("") | {"metadata": {"generateName": "train-"}}
    assert explain_all(tmp_path, pod)[0]["name"] == "train-"


def test_the_namespace_is_the_objects_own_or_the_one_that_is_given(tmp_path: Path) -> None:
    own = build_pod("a")
    own["metadata"]["namespace"] = "default"
    said = explain_all(tmp_path, own, build_pod("b"), options=("-n", "vision"))
    assert [each["namespace"] for each in said] == ["default", "vision"]
    assert said[0]["notes"] == []
    assert "vision does not exist yet" in said[1]["notes"][0]


def test_pods_of_the_schedulers_that_the_installation_serves_are_sent(tmp_path: Path) -> None:
    volcano = build_pod("p", schedulerName="volcano")
    (left,) = explain_all(tmp_path, volcano)
    serves = replace(CLUSTER, deployments=(build_found_webhook(SCHEDULERS='["volcano"]'),))
    (sent,) = explain_all(tmp_path, volcano, cluster=serves)
    assert left["decision"]["reason"] == "OtherScheduler"
    assert sent["decision"]["pool"] == "training"


INVALID = """\
kind: Pod
apiVersion: v1
metadata: {{name: p}}
spec: {{containers: [{{name: main, resources: {{limits: {{aliyun.com/gpu-mem: {}}}}}}}]}}
"""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it is empty"),
        ("- a\n- b\n", "not an object with a kind"),
        ("kind: [", "is not a manifest"),
        ("kind: Pod\napiVersion: v1\nspec: []\n", "Pod/?: not a valid Pod"),
        (INVALID.format("0.5"), "Pod/p: container main: aliyun.com/gpu-mem is 0.5, but must be"),
        (INVALID.format("-1"), "Pod/p: container main: aliyun.com/gpu-mem is -1, but must be"),
        ("kind: Job\napiVersion: batch/v1\nmetadata: {name: x}\nspec: {}\n", "Job/x: the workload"),
        ("kind: Job\napiVersion: batch/v1\nmetadata: {labels: {a: 1}}\n", "Job/?: the workload"),
    ],
)
def test_what_is_no_manifest_is_a_sentence(tmp_path: Path, text: str, says: str) -> None:
    cluster, file = tmp_path / "cluster.json", tmp_path / "manifest.yaml"
    cluster.write_bytes(build_snapshot(CLUSTER))
    file.write_text(text)
    ended = run_command("explain", "-f", str(file), "--snapshot", str(cluster))
    expect_error(ended, Exit.MANIFEST, says)
