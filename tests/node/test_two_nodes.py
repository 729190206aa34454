"""Two real nodes: replicas are on both, and a drain of either costs no call."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.node.cluster import NodeCluster
from devcluster.node.machine import find_obstacle
from devcluster.node.release import NodeRelease, provide_image
from devcluster.release import COMPONENTS
from tests.kit.bench import Bench
from tests.kit.cluster.dry_run_pods import DryRuns, count_lost, expect_routed
from tests.kit.cluster.expect import expect_pool_ready
from tests.kit.cluster.replicas import Replicas
from tests.kit.values.manifests import build_pod, build_pool

pytestmark = pytest.mark.long

NODES = ("node-1", "node-2")
PODS_PER_SECOND = 20


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    if obstacle := find_obstacle():
        pytest.skip(obstacle)
    folder: Path = tmp_path_factory.mktemp("nodes") / "cluster"
    cluster = NodeCluster(f"nodes-{os.getpid()}", folder, NODES)
    cluster.up()
    try:
        provide_image(cluster)
        bench, release = Bench(cluster), NodeRelease(cluster)
        release.install()
        found = Replicas(bench, release)
        found.expect_whole()
        bench.create_pool(build_pool(node_pool="none"))
        expect_pool_ready(bench, nodes=0)
        expect_routed(bench)
        yield found
    finally:
        cluster.down()


def find_nodes(replicas: Replicas, component: str) -> set[str]:
    return {pod["spec"]["nodeName"] for pod in replicas.release.pods(component)}


def test_two_of_a_kind_are_on_different_nodes(replicas: Replicas) -> None:
    for component in COMPONENTS:
        assert find_nodes(replicas, component) == set(NODES)


@pytest.mark.parametrize("node", NODES)
def test_a_drained_node_costs_no_call_and_leaves_no_gap_in_the_lease(
    replicas: Replicas, node: str
) -> None:
    bench = replicas.bench
    lost = count_lost(bench)
    (other,) = set(NODES) - {node}
    with DryRuns(bench, build_pod("p"), per_second=PODS_PER_SECOND) as pods:
        bench.cluster.kubectl("drain", node, "--delete-emptydir-data", "--timeout=120s")
        replicas.expect_whole()
    print(f"drained {node} pods={pods.sent} seconds={pods.seconds:.1f}")
    assert pods.failures == []
    assert count_lost(bench) == lost
    for component in COMPONENTS:
        assert find_nodes(replicas, component) == {other}
    bench.cordon(node, on=False)
