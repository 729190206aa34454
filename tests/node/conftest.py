"""One cluster with a real node for all tests of this folder, the chart installed by Helm."""

import os
from collections.abc import Iterator

import pytest

from devcluster.node.cluster import NodeCluster
from devcluster.node.machine import find_obstacle
from devcluster.node.plugins import import_plugin
from devcluster.node.release import NodeRelease, provide_image
from tests.kit.nodebench import NodeBench


@pytest.fixture(scope="session")
def installed_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeBench]:
    """The release with one process for both roles, whole; the node has the plugin's image."""
    if obstacle := find_obstacle():
        pytest.skip(obstacle)
    cluster = NodeCluster(f"node-{os.getpid()}", tmp_path_factory.mktemp("node"))
    cluster.up()
    try:
        provide_image(cluster)
        import_plugin(cluster)
        release = NodeRelease(cluster, {"allInOne": True, "controller": {"replicas": 1}})
        release.install()
        yield NodeBench(cluster, release)
    finally:
        cluster.down()


@pytest.fixture
def bench(installed_node: NodeBench) -> Iterator[NodeBench]:
    """The cluster without GPU pods; a pool that another test has left is there, and Ready."""
    yield installed_node
    installed_node.clear_pods()
