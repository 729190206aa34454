"""A real node for the whole session: kubelet and containerd, with the operator's image on it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from devcluster.cluster import Cluster
from devcluster.node.cluster import NodeCluster
from devcluster.node.machine import find_problem
from devcluster.node.release import NodeRelease, provide_image
from tests.kit.bench import Bench
from tests.kit.cluster.dry_run_pods import expect_routed
from tests.kit.cluster.expect import expect_pool_ready
from tests.kit.cluster.replicas import Replicas
from tests.kit.values.manifests import build_pool


@contextmanager
def start_nodes(folder: Path, *names: str) -> Iterator[NodeCluster]:
    """A control plane with real nodes; a machine that can't hold one skips the test, with the
    reason, which CI counts as a failure."""
    if rejection := find_problem():
        pytest.skip(rejection)
    cluster = NodeCluster(f"{folder.name}-{os.getpid()}", folder / "cluster", names)
    cluster.up()
    try:
        provide_image(cluster)
        yield cluster
    finally:
        cluster.down()


def given_release(place: Bench, release: NodeRelease) -> Replicas:
    """The release, whole, and a pool without nodes, so that pods are sent there."""
    release.install()
    found = Replicas(place, release)
    found.expect_whole()
    place.create_pool(build_pool(node_pool="none"))
    expect_pool_ready(place, nodes=0)
    expect_routed(place)
    return found


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeCluster]:
    """One real node, `node-1`."""
    with start_nodes(tmp_path_factory.mktemp("node"), "node-1") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane of its own, for nodes that are simulated."""
    cluster = Cluster(f"simulated-{os.getpid()}", tmp_path_factory.mktemp("simulated"))
    cluster.up()
    try:
        yield cluster
    finally:
        cluster.down()


@pytest.fixture(scope="session")
def place(cluster: NodeCluster) -> Bench:
    """The same as every test's kit knows it."""
    return Bench(cluster)
