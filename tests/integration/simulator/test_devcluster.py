"""The development cluster itself: several at once, and nothing left behind."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.cluster import Cluster
from devcluster.processes import observe_processes
from devcluster.waiting import wait_until
from tests.kit.bench import NODES, PODS, Bench
from tests.kit.cluster.expect import expect_gone, expect_running
from tests.kit.values.manifests import build_pod


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

    wait_until(bench.cluster.is_running, expectation="it runs on", timeout_seconds=30)
    assert bench.node("n1")


def test_down_leaves_no_process_and_no_file_whatever_was_killed_before(another: Cluster) -> None:
    for component in ("etcd", "kube-apiserver"):
        os.kill(another.pid(component), signal.SIGKILL)

    another.down()

    assert observe_processes(another.folder) == []
    assert not another.folder.exists()


def test_a_node_that_comes_back_under_its_name_at_once_is_played_on(bench: Bench) -> None:
    bench.add_nodes("n1")
    bench.create_pod(build_pod("on-the-former", gib=None, nodeName="n1"))
    expect_running(bench, "on-the-former")

    bench.call("DELETE", f"{NODES}/n1")
    bench.add_nodes("n1")

    bench.call("DELETE", f"{PODS}/on-the-former")
    expect_gone(bench, f"{PODS}/on-the-former")
    bench.create_pod(build_pod("on-the-new", gib=None, nodeName="n1"))
    expect_running(bench, "on-the-new")
