"""`gpushare migrate workloads` against a real API server: what it reads there, and that the server
takes what it prints."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.kit.bench import Bench, Json
from tests.kit.cluster.command_line import run_command
from tests.kit.cluster.namespaces import temporary_namespace

NAMESPACE = "vision"
MANIFESTS = Path(__file__).parents[2] / "golden/manifests/whole-cards.yaml"
"""A workload of each kind, each with whole cards, and what limits them."""
MEMORY = "aliyun.com/gpu-mem"
GROUPS = {"Deployment": "apis/apps/v1", "StatefulSet": "apis/apps/v1", "DaemonSet": "apis/apps/v1"}
GROUPS |= {"Job": "apis/batch/v1", "CronJob": "apis/batch/v1"}


@pytest.fixture(scope="module")
def cluster(installed: Bench) -> Iterator[Bench]:
    """Two GPU nodes with cards of 15 GiB, and a namespace full of workloads."""
    installed.operators.end_all()
    installed.install("Professional")
    installed.add_nodes("gpu.10.0.0.1", "gpu.10.0.0.2", labels={"card": "T4"})
    with temporary_namespace(installed, name=NAMESPACE):
        for raw in yaml.safe_load_all(MANIFESTS.read_text()):
            raw["spec"] |= {"replicas": 0} if "replicas" in raw["spec"] else {}
            group, kind = GROUPS.get(raw["kind"], "api/v1"), raw["kind"].lower()
            installed.call("POST", f"/{group}/namespaces/{NAMESPACE}/{kind}s", raw)
        yield installed
    installed.clear()


def find_pod(raw: Json) -> Json:
    """The spec of its pods."""
    spec: Json = raw["spec"].get("jobTemplate", raw)["spec"]
    found: Json = spec.get("template", raw)["spec"]
    return found


def test_the_server_takes_what_is_printed_and_nothing_was_written(cluster: Bench) -> None:
    mark = cluster.audit.mark()
    command = ("migrate", "workloads", "-A", "-o", "json")
    ended = run_command(*command, kubeconfig=cluster.cluster.kubeconfig)
    calls = [call for call in cluster.audit.calls(mark) if call.agent.startswith("gpushare")]
    assert {call.verb for call in calls} == {"list"}
    printed = {raw["kind"]: raw for raw in json.loads(ended.out)["items"]}
    assert printed.keys() == {*GROUPS, "Pod"}
    for kind, manifest in printed.items():
        verb = "replace"
        if kind in ("Job", "Pod"):
            verb = "create"
            manifest["metadata"]["namespace"] = "default"
        stored = json.loads(
            cluster.cluster.kubectl(
                verb, "--dry-run=server", "-o", "json", "-f", "-", stdin=json.dumps(manifest)
            )
        )
        pod = find_pod(stored)
        assert pod["containers"][0]["resources"]["limits"] == {MEMORY: "15"}, kind
        assert pod["nodeSelector"] == {"ack.node.gpu.schedule": "share"}, kind
