"""Two real nodes: replicas are on both, and a drain of either costs no call."""

from collections.abc import Iterator

import pytest

from devcluster.node.release import NodeRelease
from devcluster.release import COMPONENTS
from tests.kit.bench import Bench
from tests.kit.cluster.dry_run_pods import no_call_lost
from tests.kit.cluster.replicas import Replicas
from tests.node.conftest import given_release, start_nodes

pytestmark = pytest.mark.long

NODES = ("node-1", "node-2")
PODS_PER_SECOND = 20


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    with start_nodes(tmp_path_factory.mktemp("nodes"), *NODES) as cluster:
        yield given_release(Bench(cluster), NodeRelease(cluster))


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
    (other,) = set(NODES) - {node}
    with no_call_lost(bench, per_second=PODS_PER_SECOND):
        bench.cluster.kubectl("drain", node, "--delete-emptydir-data", "--timeout=120s")
        replicas.expect_whole()
    for component in COMPONENTS:
        assert find_nodes(replicas, component) == {other}
    bench.cordon(node, on=False)
