"""What the simulator plays has been watched on a real node, and is the same on both."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from devcluster.cluster import Cluster
from devcluster.node.cluster import NodeCluster
from devcluster.node.plugins import import_plugin
from devcluster.node.release import NodeRelease
from devcluster.nodes import add_nodes, build_gpu_node
from tests.kit.bench import Bench
from tests.kit.nodebench import CARD_GIB, CARDS, NodeBench
from tests.node.behaviours import BEHAVIOURS, Behaviour
from tests.node.gpu_node import RealStage, SimulatedStage, Stage

Stages = tuple[Stage, Stage]


@pytest.fixture(scope="module")
def stages(cluster: NodeCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stages]:
    """The real node and the simulated one, each in a cluster of its own, with the same cards."""
    simulated = Cluster(f"simulated-{os.getpid()}", tmp_path_factory.mktemp("simulated"))
    simulated.up()
    try:
        import_plugin(cluster)
        bench = NodeBench(cluster, NodeRelease(cluster))
        real, played = RealStage(bench, bench.host.name), SimulatedStage(Bench(simulated))
        node = build_gpu_node(played.node, cards=CARDS, card_memory_gib=CARD_GIB)
        add_nodes(simulated, [node])
        for stage in (real, played):
            stage.bench.install("Basic")
        yield real, played
        real.bench.clear_pods()
    finally:
        simulated.down()


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
    def observe(stage: Stage) -> object:
        stage.begin()
        return behaviour.observe(stage)

    with ThreadPoolExecutor(len(stages)) as observers:
        real, simulated = observers.map(observe, stages)
    assert (real, simulated) == (behaviour.seen, behaviour.seen)
