"""What the simulator plays of NVIDIA's device plugin has been watched on the real one."""

from collections.abc import Iterator

import pytest

from devcluster import names
from devcluster.cluster import Cluster
from devcluster.node.cluster import NodeCluster
from devcluster.node.nvidia import import_nvidia, install_plugin, remove_plugin
from devcluster.node.release import NodeRelease
from devcluster.nodes import add_nodes, build_gpu_node
from devcluster.nvidia import install_nvidia
from tests.kit.bench import Bench
from tests.kit.cluster.nvidia_stack import CARDS
from tests.kit.nodebench import NodeBench
from tests.node.behaviours import Behaviour, observe_each
from tests.node.nvidia_behaviours import BEHAVIOURS
from tests.node.nvidia_node import RealStage, SimulatedStage, Stage

pytestmark = pytest.mark.long

Stages = tuple[Stage, Stage]
ON = {names.GPU_PRESENT: "true"}


@pytest.fixture(scope="module")
def stages(cluster: NodeCluster, simulated: Cluster) -> Iterator[Stages]:
    """The real node and the simulated one, with the same cards."""
    import_nvidia(cluster)
    bench = NodeBench(cluster, NodeRelease(cluster))
    real, played = RealStage(bench, bench.host.name), SimulatedStage(Bench(simulated), "played")
    # Of the other editions a static plugin would serve the same cards.
    played.bench.install("Professional")
    add_nodes(simulated, [build_gpu_node(played.node, cards=CARDS, labels=ON)])
    install_nvidia(simulated)
    install_plugin(cluster)
    bench.label(real.node, ON)
    yield real, played
    bench.clear_pods()
    bench.label(real.node, dict.fromkeys((*ON, names.DEVICE_PLUGIN_CONFIG)))
    remove_plugin(cluster)


@pytest.mark.parametrize("behaviour", [pytest.param(each, id=each.when) for each in BEHAVIOURS])
def test_nvidias_plugin_does_what_the_table_says_and_the_simulated_one_the_same(
    stages: Stages, behaviour: Behaviour[Stage]
) -> None:
    assert observe_each(stages, behaviour) == [behaviour.seen, behaviour.seen]
