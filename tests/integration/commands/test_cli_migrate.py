"""`gpushare migrate workloads` against a real API server: what it reads there, and that the server
takes what it prints."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpushare.cli.exits import Exit
from tests.kit.bench import Bench
from tests.kit.builders import build_whole_card_pod, build_workload
from tests.kit.commandline import Ended, expect_told, run_command
from tests.kit.spaces import a_space

Json = dict[str, Any]
NAMESPACE = "vision"
WHOLE, MEMORY = "nvidia.com/gpu", "aliyun.com/gpu-mem"
GROUPS = {"Deployment": "apis/apps/v1", "StatefulSet": "apis/apps/v1", "DaemonSet": "apis/apps/v1"}
GROUPS |= {"Job": "apis/batch/v1", "CronJob": "apis/batch/v1"}
DIFF = """\
--- a/vision/deployment-deployment.yaml
+++ b/vision/deployment-deployment.yaml
@@ -18,7 +18,7 @@
         image: registry.example/app:1
         resources:
           limits:
-            nvidia.com/gpu: '1'
+            aliyun.com/gpu-mem: '15'
         terminationMessagePath: /dev/termination-log
         terminationMessagePolicy: File
         imagePullPolicy: IfNotPresent
@@ -26,7 +26,7 @@
       terminationGracePeriodSeconds: 30
       dnsPolicy: ClusterFirst
       nodeSelector:
-        gpushare: 'true'
+        ack.node.gpu.schedule: 'share'
       securityContext: {}
       schedulerName: default-scheduler
   strategy:
"""
TOLD = """\
vision/job-job.yaml: Job vision/job: Recreate: what a Job asks for can't be changed: delete it, \
and create it anew
vision/pod-trainer.yaml: Pod vision/trainer: Recreate: what a Pod asks for can't be changed: \
delete it, and create it anew
vision/resourcequota-held.yaml: ResourceQuota vision/held: Quota: its requests.nvidia.com/gpu (8) \
does not count pods that share; put requests.aliyun.com/gpu-mem beside it, for as many whole cards \
"120"
vision/limitrange-held.yaml: LimitRange vision/held: LimitRange: it limits nvidia.com/gpu: a pod \
that asks for none is given its default or max, or refused; limit aliyun.com/gpu-mem in its place, \
before pods share
"""


def build_objects() -> list[Json]:
    """A workload of each kind, each with whole cards, and what limits them."""
    pod = build_whole_card_pod("trainer", selects={"gpushare": "true"})
    kinds = ("Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob")
    workloads = [build_workload(kind, kind.lower(), replicas=0, pod=pod) for kind in kinds]
    quota = {"hard": {f"requests.{WHOLE}": "8"}}
    limits = [{"type": "Container", "max": {WHOLE: "2"}}]
    return [
        *workloads,
        pod,
        {"apiVersion": "v1", "kind": "ResourceQuota", "spec": quota},
        {"apiVersion": "v1", "kind": "LimitRange", "spec": {"limits": limits}},
    ]


def path_of(raw: Json) -> str:
    group = GROUPS.get(raw["kind"], "api/v1")
    return f"/{group}/namespaces/{NAMESPACE}/{raw['kind'].lower()}s"


@pytest.fixture(scope="module")
def cluster(installed: Bench) -> Iterator[Bench]:
    """Two GPU nodes with cards of 15 GiB, and a namespace full of workloads."""
    installed.operators.end_all()
    installed.install("Professional")
    installed.add_nodes("gpu.10.0.0.1", "gpu.10.0.0.2", labels={"card": "T4"})
    with a_space(installed, name=NAMESPACE):
        for raw in build_objects():
            metadata = {"name": "held", **raw.get("metadata", {})}
            installed.call("POST", path_of(raw), {**raw, "metadata": metadata})
        yield installed
    installed.clear()


def run(bench: Bench, *arguments: str) -> Ended:
    return run_command("migrate", "workloads", *arguments, kubeconfig=bench.cluster.kubeconfig)


def kubectl(bench: Bench, *arguments: str, manifest: Json) -> Json:
    """What the API server would store, by a dry run of it."""
    command = [str(bench.cluster.binaries / "kubectl"), *arguments, "--dry-run=server"]
    ended = subprocess.run(
        [*command, "-o", "json", "-f", "-"],
        env={"KUBECONFIG": str(bench.cluster.kubeconfig), "HOME": "/nonexistent"},
        input=json.dumps(manifest),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    stored: Json = json.loads(ended.stdout)
    return stored


def find_pod(raw: Json) -> Json:
    """The spec of its pods."""
    spec: Json = raw["spec"].get("jobTemplate", raw)["spec"]
    return spec.get("template", raw)["spec"]  # type: ignore[no-any-return]


def asks_of(raw: Json) -> Json:
    (container,) = find_pod(raw)["containers"]
    limits: Json = container["resources"]["limits"]
    return limits


def test_each_object_that_changes_is_a_file_of_the_patch(cluster: Bench) -> None:
    ended = run(cluster, "-n", NAMESPACE, "-l", "!app")
    files = [line.split("/")[-1] for line in ended.out.splitlines() if line.startswith("+++")]
    kinds = ("deployment", "statefulset", "daemonset", "cronjob")
    assert files == [*(f"{kind}-{kind}.yaml" for kind in kinds), "pod-trainer.yaml"]
    assert ended.out.startswith(DIFF)


def test_a_person_is_told_what_is_left_to_do(cluster: Bench) -> None:
    assert run(cluster, "-n", NAMESPACE).err == TOLD


def test_the_server_takes_what_is_printed_and_nothing_was_written(cluster: Bench) -> None:
    mark = cluster.audit.mark()
    ended = run(cluster, "-A", "-o", "json")
    printed = {raw["kind"]: raw for raw in json.loads(ended.out)["items"]}

    calls = [call for call in cluster.audit.calls(mark) if call.agent.startswith("gpushare")]
    assert {call.verb for call in calls} == {"list"}
    assert printed.keys() == {*GROUPS, "Pod"}
    for kind, manifest in printed.items():
        verb = "replace"
        if kind in ("Job", "Pod"):
            verb = "create"
            manifest["metadata"]["namespace"] = "default"
        stored = kubectl(cluster, verb, manifest=manifest)
        assert asks_of(stored) == {MEMORY: "15"}, kind
        assert find_pod(stored)["nodeSelector"] == {"ack.node.gpu.schedule": "share"}, kind


def test_an_apply_of_what_is_printed_would_leave_the_old_request(cluster: Bench) -> None:
    ended = run(cluster, "-n", NAMESPACE, "-o", "json")
    manifest = json.loads(ended.out)["items"][0]
    assert asks_of(kubectl(cluster, "apply", manifest=manifest)) == {WHOLE: "1", MEMORY: "15"}


def test_files_are_sized_by_the_nodes_or_by_a_snapshot_of_them(
    cluster: Bench, tmp_path: Path
) -> None:
    file, snapshot = tmp_path / "app.yaml", tmp_path / "cluster.json"
    file.write_text(yaml.safe_dump(build_whole_card_pod("app", cards=2)))
    taken = run_command("snapshot", "-o", str(snapshot), kubeconfig=cluster.cluster.kubeconfig)
    assert taken.code == 0

    live = run(cluster, "-f", str(file))
    offline = run_command("migrate", "workloads", "-f", str(file), "--snapshot", str(snapshot))

    assert "aliyun.com/gpu-mem: '30'" in live.out
    assert offline == live


def test_a_limit_on_whole_cards_gives_them_to_a_pod_that_shares(cluster: Bench) -> None:
    ended = run(cluster, "-n", NAMESPACE, "-o", "json")
    pod = next(raw for raw in json.loads(ended.out)["items"] if raw["kind"] == "Pod")
    pod["metadata"]["name"] = "anew"
    assert asks_of(kubectl(cluster, "create", manifest=pod)) == {WHOLE: "2", MEMORY: "15"}


def test_a_namespace_that_there_is_not(cluster: Bench) -> None:
    expect_told(run(cluster, "-n", "visoin"), Exit.NOT_FOUND, "did you mean vision?")


def test_a_namespace_without_workloads_is_silent(cluster: Bench) -> None:
    assert run(cluster, "-n", "default") == Ended(0, "", "")
