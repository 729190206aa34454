"""The development cluster itself: nothing of it is left behind."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.cluster import Cluster
from devcluster.processes import observe_processes


@pytest.fixture
def another(tmp_path: Path) -> Iterator[Cluster]:
    """A second cluster beside the run's own."""
    cluster = Cluster(f"other-{os.getpid()}", tmp_path / "other")
    cluster.up()
    yield cluster
    cluster.down()


def test_down_leaves_no_process_and_no_file_whatever_was_killed_before(another: Cluster) -> None:
    for component in ("etcd", "kube-apiserver"):
        os.kill(another.pid(component), signal.SIGKILL)

    another.down()

    assert observe_processes(another.folder) == []
    assert not another.folder.exists()
