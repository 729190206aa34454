"""A cluster's folder and processes: what is removed and ended, and what never is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from devcluster.cluster import Cluster
from devcluster.errors import ClusterError
from devcluster.folder import ClusterFolder, State
from devcluster.processes import kill_processes, observe_processes, runs_module, spawn
from devcluster.waiting import wait_until

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


@pytest.mark.parametrize("name", ["", "Demo", "a_b", "-a", "x" * 33])
def test_a_name_that_no_context_could_carry_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ClusterError, match="Cluster name"):
        Cluster(name, tmp_path)


def test_a_process_that_ignores_sigterm_ends_with_its_cluster_and_another_does_not(
    tmp_path: Path,
) -> None:
    command = ["/bin/sh", "-c", "trap '' TERM INT; sleep 60"]

    def start(folder: str) -> subprocess.Popen[bytes]:
        log = tmp_path / f"{folder}.log"
        return spawn(
            command, folder=tmp_path / folder, working_folder=tmp_path, log=log, env=os.environ
        )

    with start("a") as mine, start("b") as other:
        try:
            kill_processes(tmp_path / "a")
            assert mine.wait(timeout=1) == -9
            assert observe_processes(tmp_path / "a") == []
            assert other.pid in observe_processes(tmp_path / "b")
        finally:
            kill_processes(tmp_path / "b")


def test_a_module_runs_for_as_long_as_its_process_and_for_its_own_cluster(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    command = [sys.executable, "-m", "http.server", "--bind=127.0.0.1", "0"]
    log = tmp_path / "log"
    with spawn(command, folder=folder, working_folder=tmp_path, log=log, env=os.environ) as child:
        try:
            wait_until(
                # The kernel shows a program's arguments a moment after it has begun.
                lambda: runs_module(folder, "http.server"),
                expectation="the module runs",
                timeout_seconds=10,
            )
            assert not runs_module(folder, "http")
            assert not runs_module(tmp_path / "b", "http.server")
        finally:
            child.kill()
    assert not runs_module(folder, "http.server")
