"""The device plugin on a real node, beside a release of one process for both roles."""

from collections.abc import Iterator

import pytest

from devcluster.installation import NAMESPACE
from devcluster.node.cluster import NodeCluster
from devcluster.node.plugins import import_plugin
from devcluster.node.release import NodeRelease
from tests.kit.nodebench import NodeBench


@pytest.fixture(scope="module")
def with_release(cluster: NodeCluster) -> Iterator[NodeBench]:
    """The release, whole, for all tests of a file; nothing of it stays."""
    import_plugin(cluster)
    values = {"allInOne": True, "controller": {"replicas": 1}, "crds": {"keep": False}}
    release = NodeRelease(cluster, values)
    release.install()
    bench = NodeBench(cluster, release)
    try:
        yield bench
    finally:
        bench.clear()
        release.uninstall()
        cluster.kubectl("delete", "namespace", NAMESPACE)


@pytest.fixture
def bench(with_release: NodeBench) -> Iterator[NodeBench]:
    """The cluster without GPU pods; a pool that another test has left is there, and Ready."""
    yield with_release
    with_release.take_cards(away=False)
    with_release.clear_pods()
