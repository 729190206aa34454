"""What the simulator plays has been watched on a real node, and is the same on both."""

from collections.abc import Iterator

import pytest

from devcluster.cluster import Cluster
from devcluster.node.cluster import NodeCluster
from devcluster.node.plugins import import_plugin
from devcluster.node.release import NodeRelease
from devcluster.nodes import add_nodes, build_gpu_node
from tests.kit.bench import Bench
from tests.kit.nodebench import CARD_GIB, CARDS, NodeBench
from tests.node.behaviours import BEHAVIOURS, Behaviour, observe_each
from tests.node.gpu_node import RealStage, SimulatedStage, Stage

Stages = tuple[Stage, Stage]


@pytest.fixture(scope="module")
def stages(cluster: NodeCluster, simulated: Cluster) -> Iterator[Stages]:
    """The real node and the simulated one, with the same cards."""
    import_plugin(cluster)
    bench = NodeBench(cluster, NodeRelease(cluster))
    real, played = RealStage(bench, bench.host.name), SimulatedStage(Bench(simulated))
    node = build_gpu_node(played.node, cards=CARDS, card_memory_gib=CARD_GIB)
    add_nodes(simulated, [node])
    for stage in (real, played):
        stage.bench.install("Basic")
    yield real, played
    real.bench.clear_pods()


@pytest.mark.parametrize(
    "behaviour",
    [
        pytest.param(each, id=each.when, marks=pytest.mark.long if each.is_long else ())
        for each in BEHAVIOURS
    ],
)
def test_a_real_kubelet_does_what_the_table_says_and_the_simulated_one_the_same(
    stages: Stages, behaviour: Behaviour[Stage]
) -> None:
    assert observe_each(stages, behaviour) == [behaviour.seen, behaviour.seen]
