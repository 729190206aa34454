"""`gpushare explain -f`: what is a manifest, what is skipped, and how the command line fails."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from gpushare.api.cluster import Cluster, Kind, keep_object
from gpushare.cli.exits import Exit
from gpushare.cli.main import app
from gpushare.cli.snapshots import build_snapshot
from tests.kit.cluster.command_line import CommandResult, expect_error, run_command
from tests.kit.values.manifests import build_pod, build_pool, build_workload

Json = dict[str, Any]
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
KINDS = ("Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob")


def build_living_pool(name: str = "training", **spec: Any) -> Json:
    pool = build_pool(name, **spec)
    pool["metadata"] |= {"uid": name, "creationTimestamp": "2026-02-01T00:00:00Z"}
    pool["status"] = {"nodes": {"matched": 0}}
    return pool


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """Of a cluster with one pool, in which no pod can be."""
    pool = keep_object(Kind.POOLS, build_living_pool())
    space = {"metadata": {"name": "default", "uid": "1", "labels": {}}}
    assert pool is not None
    file = tmp_path / "cluster.json"
    file.write_bytes(build_snapshot(Cluster(NOW, pools=(pool,), namespaces=(space,))))
    return file


def explain(snapshot: Path, text: str, *options: str) -> CommandResult:
    file = snapshot.parent / "manifest.yaml"
    file.write_text(text)
    return run_command("explain", "-f", str(file), "--snapshot", str(snapshot), *options)


def explain_all(snapshot: Path, *objects: Json, options: tuple[str, ...] = ()) -> Json:
    ended = explain(snapshot, yaml.safe_dump_all(objects), "-o", "json", *options)
    assert (ended.code, ended.err) == (0, ""), ended
    said: Json = json.loads(ended.out)
    return said


def test_each_kind_of_workload_is_explained_by_its_template(snapshot: Path) -> None:
    workloads = [build_workload(kind, kind.lower(), pod=build_pod("x")) for kind in KINDS]
    objects = explain_all(snapshot, *workloads)["objects"]
    assert [(each["kind"], each["decision"]["reason"]) for each in objects] == [
        ("Deployment", "RoutedWithoutIsolation"),
        ("StatefulSet", "RoutedWithoutIsolation"),
        ("DaemonSet", "NotRouted"),
        ("Job", "RoutedWithoutIsolation"),
        ("CronJob", "RoutedWithoutIsolation"),
    ]


def test_a_pod_that_waits_is_not_counted_against_itself(tmp_path: Path) -> None:
    """Two equal pools, one of which counts the pod that it got."""
    capacity = {
        "gpus": 1,
        "memoryTotal": 15,
        "memoryAllocated": 0,
        "memoryRequested": 0,
        "largestFreeBlock": 15,
        "largestCard": 15,
        "freeBlocks": [{"size": 15, "cards": 1}],
        "strandedMemory": 0,
        "unit": "GiB",
        "summary": "0/15",
        "observedAt": "2026-03-01T11:00:00Z",
    }
    pools = [build_living_pool(name, schedule="cgpu") for name in ("pa", "pb")]
    for pool, requested in zip(pools, (14, 0), strict=True):
        of_pool = {**capacity, "memoryRequested": requested}
        pool["status"] = {"nodes": {"matched": 1}, "capacity": of_pool}
    pod = build_pod("self", gib=14, selects={"gpushare.io/pool": "pa"})
    decided = {"gpushare.io/decision": '{"v":1,"reason":"Routed","pool":"pa"}'}
    pod["metadata"] |= {
        "uid": "self",
        "namespace": "default",
        "creationTimestamp": "2026-03-01T10:59:00Z",
        "annotations": decided,
    }
    pod["status"] = {"phase": "Pending"}
    kept = [keep_object(Kind.POOLS, pool) for pool in pools]
    found = keep_object(Kind.PODS, pod)
    assert found is not None
    cluster = Cluster(NOW, pools=tuple(pool for pool in kept if pool), pods=(found,))
    file = tmp_path / "cluster.json"
    file.write_bytes(build_snapshot(cluster))
    ended = run_command("explain", "pod", "self", "--snapshot", str(file), "-o", "json")
    said = json.loads(ended.out)
    assert said["decision"]["pool"] == "pa"
    assert said["pools"][0]["figures"]["free"] == 15


def test_lists_are_taken_apart(snapshot: Path) -> None:
    pods = {"kind": "List", "items": [{"kind": "PodList", "items": [build_pod("p")]}]}
    assert [each["name"] for each in explain_all(snapshot, pods)["objects"]] == ["p"]


def test_a_folder_is_read_as_kubectl_reads_it(snapshot: Path, tmp_path: Path) -> None:
    folder = tmp_path / "manifests"
    (folder / "more").mkdir(parents=True)
    for place in ("a.yaml", "more/a.yaml"):
        (folder / place).write_text(yaml.safe_dump(build_pod(place)))
    (folder / "empty.yaml").write_text("# Nothing yet.\n")
    for options, names in (((), ["a.yaml"]), (("-R",), ["a.yaml", "more/a.yaml"])):
        ended = run_command(
            "explain", "-f", str(folder), "--snapshot", str(snapshot), "-o", "json", *options
        )
        assert [each["name"] for each in json.loads(ended.out)["objects"]] == names


def test_a_pod_whose_name_is_still_to_be_made(snapshot: Path) -> None:
    pod = build_pod("")
    pod["metadata"] = {"generateName": "train-"}
    assert explain_all(snapshot, pod)["objects"][0]["name"] == "train-"


def test_the_namespace_is_the_objects_own_or_the_one_that_is_given(snapshot: Path) -> None:
    own = build_pod("a")
    own["metadata"]["namespace"] = "default"
    said = explain_all(snapshot, own, build_pod("b"), options=("-n", "vision"))["objects"]
    assert [each["namespace"] for each in said] == ["default", "vision"]
    assert said[0]["notes"] == []
    assert said[1]["notes"] == ["Namespace vision does not exist yet; taken as one without labels."]


def test_standard_input_is_read(snapshot: Path) -> None:
    done = CliRunner().invoke(
        app,
        ["explain", "-f", "-", "--snapshot", str(snapshot)],
        input=yaml.safe_dump(build_pod("piped")),
    )
    assert done.exit_code == 0
    assert done.stdout.startswith("Pod default/piped  asks for 3 aliyun.com/gpu-mem\n")


def test_what_the_installation_says_can_be_told(snapshot: Path) -> None:
    pod = build_pod("p", annotations={"gpushare.io/pool": "none"})
    deny = explain_all(snapshot, pod, options=("--on-no-pool", "deny"))["objects"][0]
    assert deny["decision"]["refused"].startswith("RequestedPoolUnavailable: ")
    assert deny["patch"] == []
    volcano = build_pod("p", schedulerName="volcano")
    (left,) = explain_all(snapshot, volcano)["objects"]
    (sent,) = explain_all(snapshot, volcano, options=("--scheduler", "volcano"))["objects"]
    assert left["decision"]["reason"] == "OtherScheduler"
    assert sent["decision"]["pool"] == "training"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "nothing is in it"),
        ("- a\n- b\n", "no object with a kind"),
        ("kind: [", "is no manifest"),
        ("kind: Pod\napiVersion: v1\nspec: []\n", "Pod/?: no pod of the API"),
        ("kind: Job\napiVersion: batch/v1\nmetadata: {name: x}\nspec: {}\n", "Job/x: the workload"),
        ("kind: Job\napiVersion: batch/v1\nmetadata: {labels: {a: 1}}\n", "Job/?: Expected `str"),
    ],
)
def test_what_is_no_manifest_is_a_sentence(snapshot: Path, text: str, says: str) -> None:
    expect_error(explain(snapshot, text), Exit.MANIFEST, says)
