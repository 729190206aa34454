"""A cluster's folder and processes: what is removed and ended, and what never is."""

from pathlib import Path

import pytest

from devcluster.cluster import Cluster
from devcluster.errors import ClusterError
from devcluster.folder import ClusterFolder, State

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


def test_a_start_that_fails_is_cleared_and_tried_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, begun = ClusterFolder("demo", tmp_path), []

    def start(self: Cluster, binaries: Path, report: object) -> None:
        begun.append(folder.path.exists() and folder.kubeconfig.exists())
        folder.record(STATE)
        folder.kubeconfig.touch()
        if len(begun) < 3:
            raise ClusterError("a component ended while starting")

    monkeypatch.setattr("devcluster.cluster.ensure_binaries", lambda *_, **__: tmp_path)
    monkeypatch.setattr(Cluster, "_start", start)
    with pytest.raises(ClusterError):
        Cluster("demo", tmp_path).up()
    Cluster("demo", tmp_path).up()
    assert begun == [False, False, False]
