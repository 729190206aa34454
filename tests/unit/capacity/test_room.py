"""The room of a pool, as admission sees it."""

from hypothesis import given
from hypothesis import strategies as st

from gpushare.api.k8s.pod import Pod
from gpushare.core.admission.pool_view import view_room
from gpushare.core.capacity.node_capacity import NodeCapacity, observe_node_capacity
from gpushare.core.capacity.pool_capacity import CapacitySums
from tests.kit.values.objects import MEMORY, NOW, a_gpu_pod, a_node


@st.composite
def _nodes(draw: st.DrawFn) -> NodeCapacity:
    card = draw(st.sampled_from([15, 31, 15_360, 31_744, 0]))
    cards = draw(st.integers(0, 3))
    labels = {"ack.node.gpu.schedule": draw(st.sampled_from(["share", "cgpu"]))}
    offered = {MEMORY: card * cards}
    node = a_node(labels=labels, allocatable=offered, capacity=offered, gpu_count=cards)
    held = draw(st.integers(0, card))
    pods = [a_gpu_pod(requests={MEMORY: held}, card_memory=held, cards={0: held})] if held else []
    return observe_node_capacity(node, pods)


_waiting = st.integers(1, 40_000).map(
    lambda units: a_gpu_pod(node="", phase="Pending", requests={MEMORY: units})
)


@given(st.lists(_nodes(), max_size=30), st.lists(_waiting, max_size=4))
def test_the_room_of_a_pool_is_that_of_its_published_capacity(
    nodes: list[NodeCapacity], waiting: list[Pod]
) -> None:
    sums = CapacitySums()
    for node in nodes:
        sums.count(node)
    for pod in waiting:
        sums.count_waiting(pod)
    assert sums.measure_room(NOW) == view_room(sums.sum_up(NOW))
