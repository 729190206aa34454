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
from tests.kit.cluster.command_line import expect_error, run_command
from tests.kit.cluster.namespaces import temporary_namespace

Json = dict[str, Any]
NAMESPACE = "vision"
MANIFESTS = Path(__file__).parents[2] / "golden/manifests/whole-cards.yaml"
"""A workload of each kind, each with whole cards, and what limits them."""
WHOLE, MEMORY = "nvidia.com/gpu", "aliyun.com/gpu-mem"
GROUPS = {"Deployment": "apis/apps/v1", "StatefulSet": "apis/apps/v1", "DaemonSet": "apis/apps/v1"}
GROUPS |= {"Job": "apis/batch/v1", "CronJob": "apis/batch/v1"}


def path_of(raw: Json) -> str:
    group = GROUPS.get(raw["kind"], "api/v1")
    return f"/{group}/namespaces/{NAMESPACE}/{raw['kind'].lower()}s"


@pytest.fixture(scope="module")
def cluster(installed: Bench) -> Iterator[Bench]:
    """Two GPU nodes with cards of 15 GiB, and a namespace full of workloads."""
    installed.operators.end_all()
    installed.install("Professional")
    installed.add_nodes("gpu.10.0.0.1", "gpu.10.0.0.2", labels={"card": "T4"})
    with temporary_namespace(installed, name=NAMESPACE):
        for raw in yaml.safe_load_all(MANIFESTS.read_text()):
            raw["spec"] |= {"replicas": 0} if "replicas" in raw["spec"] else {}
            installed.call("POST", path_of(raw), raw)
        yield installed
    installed.clear()


def migrate(bench: Bench) -> dict[str, Json]:
    """By kind, what is printed."""
    command = ("migrate", "workloads", "-A", "-o", "json")
    ended = run_command(*command, kubeconfig=bench.cluster.kubeconfig)
    return {raw["kind"]: raw for raw in json.loads(ended.out)["items"]}


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
    found: Json = spec.get("template", raw)["spec"]
    return found


def asks_of(raw: Json) -> Json:
    (container,) = find_pod(raw)["containers"]
    limits: Json = container["resources"]["limits"]
    return limits


def test_the_server_takes_what_is_printed_and_nothing_was_written(cluster: Bench) -> None:
    mark = cluster.audit.mark()
    printed = migrate(cluster)
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
    manifest = migrate(cluster)["Deployment"]
    assert asks_of(kubectl(cluster, "apply", manifest=manifest)) == {WHOLE: "1", MEMORY: "15"}


def test_a_limit_on_whole_cards_gives_them_to_a_pod_that_shares(cluster: Bench) -> None:
    pod = migrate(cluster)["Pod"]
    pod["metadata"]["name"] = "anew"
    assert asks_of(kubectl(cluster, "create", manifest=pod)) == {WHOLE: "2", MEMORY: "15"}


def test_a_namespace_that_there_is_not(cluster: Bench) -> None:
    command = ("migrate", "workloads", "-n", "visoin")
    ended = run_command(*command, kubeconfig=cluster.cluster.kubeconfig)
    expect_error(ended, Exit.NOT_FOUND, "did you mean vision?")
