"""The development cluster itself: several at once, and nothing left behind."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.cluster import Cluster
from devcluster.processes import observe_processes
from tests.kit.bench import NODES, Bench


@pytest.fixture
def another(tmp_path: Path) -> Iterator[Cluster]:
    """A second cluster beside the run's own."""
    cluster = Cluster(f"other-{os.getpid()}", tmp_path / "other")
    cluster.up()
    yield cluster
    cluster.down()


def test_two_clusters_run_side_by_side_and_know_nothing_of_each_other(
    bench: Bench, another: Cluster
) -> None:
    bench.add_nodes("n1")
    assert another.api.call("GET", NODES)["items"] == []
    assert set(range(another.ports.first, another.ports.spare.stop)).isdisjoint(
        range(bench.cluster.ports.first, bench.cluster.ports.spare.stop)
    )

    another.down()

    assert bench.cluster.is_running()
    assert bench.node("n1")


def test_down_leaves_no_process_and_no_file_whatever_was_killed_before(another: Cluster) -> None:
    for component in ("etcd", "kube-apiserver"):
        os.kill(another.pid(component), signal.SIGKILL)

    another.down()

    assert observe_processes(another.folder) == []
    assert not another.folder.exists()
