"""A cluster's folder and processes: what is removed and ended, and what never is."""

import os
import subprocess
from pathlib import Path

import pytest

from devcluster.cluster import Cluster
from devcluster.errors import ClusterError
from devcluster.folder import ClusterFolder, State
from devcluster.processes import kill_processes, observe_processes, spawn

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
