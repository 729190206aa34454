"""A real node for the whole session: kubelet and containerd, with the operator's image on it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.node.cluster import NodeCluster
from devcluster.node.machine import find_obstacle
from devcluster.node.release import provide_image
from tests.kit.bench import Bench


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeCluster]:
    """A control plane with one real node, `node-1`; a machine that can't hold one skips the test,
    with the reason, which CI counts as a failure."""
    if obstacle := find_obstacle():
        pytest.skip(obstacle)
    folder: Path = tmp_path_factory.mktemp("node")
    cluster = NodeCluster(f"node-{os.getpid()}", folder / "cluster")
    cluster.up()
    try:
        provide_image(cluster)
        yield cluster
    finally:
        cluster.down()


@pytest.fixture(scope="session")
def place(cluster: NodeCluster) -> Bench:
    """The same as every test's kit knows it."""
    return Bench(cluster)
