"""A cluster's folder and processes: what is removed and ended, and what never is; and that nothing
acts on a cluster that is not a devcluster."""

import json
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from devcluster.apiserver import ApiServer
from devcluster.client import Client
from devcluster.cluster import Cluster
from devcluster.errors import ClusterError, ForeignContextError
from devcluster.folder import ClusterFolder, State
from devcluster.kubeconfig import expect_own_context
from devcluster.processes import is_alive, kill_processes
from devcluster.startup import expect_ready

_GAVE_UP = "apiserver: timed out waiting for the condition"
STATE = State("demo", binaries="/b", first_port=21000)


def test_down_removes_what_the_cluster_left_and_nothing_else(tmp_path: Path) -> None:
    folder = ClusterFolder("demo", tmp_path)
    folder.record(STATE)
    folder.logs.mkdir()
    folder.kubeconfig.touch()
    (tmp_path / "notes").touch()
    Cluster("demo", tmp_path).down()
    assert [entry.name for entry in tmp_path.iterdir()] == ["notes"]


@pytest.mark.parametrize("theirs", ["kubeconfig", "control-plane/src"])
def test_a_folder_that_someone_else_filled_is_left_alone(tmp_path: Path, theirs: str) -> None:
    (tmp_path / theirs).mkdir(parents=True)
    with pytest.raises(ClusterError, match="no devcluster made"):
        Cluster("demo", tmp_path).down()
    assert (tmp_path / theirs).exists()


def test_a_folder_holds_one_cluster(tmp_path: Path) -> None:
    ClusterFolder("demo", tmp_path).record(STATE)
    with pytest.raises(ClusterError, match="holds cluster 'demo', not 'tests'"):
        Cluster("tests", tmp_path).down()


def test_a_start_that_fails_is_cleared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ClusterFolder("demo", tmp_path)

    def start(self: Cluster, binaries: Path, report: object) -> None:
        folder.record(STATE)
        folder.kubeconfig.touch()
        raise ClusterError("a component ended while starting")

    monkeypatch.setattr("devcluster.cluster.ensure_binaries", lambda *_, **__: tmp_path)
    monkeypatch.setattr(Cluster, "_start", start)
    with pytest.raises(ClusterError):
        Cluster("demo", tmp_path).up()
    assert not folder.kubeconfig.exists()


def test_a_component_that_gave_up_on_a_slow_api_server_is_started_again(tmp_path: Path) -> None:
    manager = "kube-controller-manager"
    folder = _have_ended(tmp_path, manager, _GAVE_UP)
    try:
        expect_ready(folder, _a_server(is_ready=True))
        assert is_alive(int((folder.components / "pids" / f"{manager}.pid").read_text()))
    finally:
        kill_processes(folder.path)


@pytest.mark.parametrize(
    ("component", "said", "told"),
    [
        ("etcd", "no space left on device", r"(?s)etcd.*no space left"),
        ("kwok-controller", _GAVE_UP, "kwok-controller ended"),
    ],
    ids=["for another reason", "at once when it is started again"],
)
def test_a_component_that_ends_is_told(
    tmp_path: Path, component: str, said: str, told: str
) -> None:
    folder = _have_ended(tmp_path, component, said, program="false")
    with pytest.raises(ClusterError, match=told):
        expect_ready(folder, _a_server(is_ready=said != _GAVE_UP))


def _a_server(*, is_ready: bool) -> Any:
    return SimpleNamespace(is_ready=lambda: is_ready)


def _have_ended(path: Path, component: str, said: str, *, program: str = "sleep") -> ClusterFolder:
    """A folder of a cluster of which a component ended; it is `program`, where it is started."""
    folder, ended = ClusterFolder("demo", path), subprocess.Popen(["true"])
    ended.wait()
    folder.record(STATE)
    for name in ("pids", "logs"):
        (folder.components / name).mkdir(parents=True)
    (folder.components / "pids" / f"{component}.pid").write_text(str(ended.pid))
    (folder.components / "logs" / f"{component}.log").write_text(said)
    noted = {"components": [{"name": component, "binary": program, "args": ["60"]}]}
    (folder.components / "kwok.yaml").write_text(f"---\n{json.dumps(noted)}\n")
    return folder


OWN = "kwok-devcluster-demo"


def kubeconfig(
    *, context: str = OWN, current: str = OWN, server: str = "https://127.0.0.1:21002"
) -> dict[str, Any]:
    return {
        "current-context": current,
        "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
        "clusters": [{"name": context, "cluster": {"server": server}}],
        "users": [{"name": context, "user": {"client-key": "/k"}}],
    }


@pytest.mark.parametrize(
    "foreign",
    [
        kubeconfig(current="prod"),
        kubeconfig(context="prod"),
        kubeconfig(current="kwok-mine", context="kwok-mine"),
        kubeconfig(server="https://10.0.0.1:6443"),
        kubeconfig(server="https://127.0.0.1.example.com:6443"),
        {},
    ],
    ids=["current", "another context", "someone's kwok", "remote", "remote lookalike", "empty"],
)
def test_a_kubeconfig_that_leads_elsewhere_is_refused(foreign: dict[str, Any]) -> None:
    with pytest.raises(ForeignContextError, match="Nothing was sent"):
        expect_own_context(foreign, where=Path("k"))


@pytest.mark.parametrize("connect", [ApiServer, partial(Client, user_agent="t")])
def test_no_client_is_made_for_another_cluster(
    tmp_path: Path, connect: Callable[[Path], object]
) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(kubeconfig(current="prod")))
    with pytest.raises(ForeignContextError):
        connect(file)


def test_kubectl_is_not_even_started_for_another_cluster(tmp_path: Path) -> None:
    cluster = Cluster("demo", tmp_path)
    cluster._folder.record(State("demo", binaries=str(tmp_path), first_port=21000))
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    kubectl.chmod(0o755)
    cluster.kubeconfig.write_text(yaml.safe_dump(kubeconfig(current="prod")))
    with pytest.raises(ForeignContextError, match="prod"):
        cluster.kubectl("get", "nodes")
    assert not (tmp_path / "started").exists()
