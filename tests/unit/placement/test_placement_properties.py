"""What holds for any queue on any cluster."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gpushare import names
from gpushare.analysis.placement.cluster import PlacementCluster
from gpushare.analysis.placement.pending import judge
from gpushare.analysis.placement.place import FillingCluster, PlacementResult, QueuedPod, place_pods
from gpushare.api.k8s.pod import Pod
from gpushare.api.k8s.pod_request import read_pod_info
from gpushare.api.pool import Pool
from gpushare.core.capacity.cards import count_used, measure_cards
from gpushare.core.placement.node_info import find_cards
from tests.kit.values.objects import a_gpu_pod, a_pool
from tests.kit.values.placements import a_member, a_placement_cluster, a_queued

_POOLS = (
    a_pool("train", nodes={"selector": {"match_labels": {"group": "t"}}}),
    a_pool("infer", "share", edition="Basic", nodes={"selector": {"match_labels": {"group": "i"}}}),
    a_pool(
        "wide", "share", placement="spread", nodes={"selector": {"match_labels": {"group": "w"}}}
    ),
)
_GROUPS = {"train": "t", "infer": "i", "wide": "w"}
_CARD = 8


@st.composite
def _clusters(draw: st.DrawFn) -> PlacementCluster:
    nodes, pods = [], []
    for pool in _POOLS:
        for number in range(draw(st.integers(0, 3))):
            name, cards = f"{pool.name}-{number}", draw(st.integers(1, 2))
            is_closed = draw(st.integers(0, 5)) == 0
            group = _GROUPS[pool.name]
            nodes.append(
                a_member(name, pool, cards=cards, card=_CARD, group=group, unschedulable=is_closed)
            )
            pods += draw(st.lists(_running(name, cards), max_size=2))
    return a_placement_cluster(nodes, *_POOLS, pods=pods)


@st.composite
def _running(draw: st.DrawFn, node: str, cards: int) -> Pod:
    units = draw(st.integers(1, 4))
    asked = {names.RESOURCE_GPU_MEMORY: units}
    held = {draw(st.integers(0, cards - 1)): units}
    return a_gpu_pod("running", node=node, requests=asked, card_memory=units, cards=held)


@st.composite
def _queued(draw: st.DrawFn) -> QueuedPod:
    annotations = draw(st.sampled_from([{}, {names.ANNOTATION_ISOLATION: "none"}]))
    selects = draw(st.sampled_from([None, None, {names.LABEL_POOL: "infer"}]))
    labels = draw(
        st.sampled_from(
            [
                None,
                None,
                {names.LABEL_CARD_COUNT: "2"},
                {names.LABEL_CARD_PLACEMENT: names.REQUIRE_WHOLE_DEVICE},
            ]
        )
    )
    gib = draw(st.integers(1, _CARD + 1))
    return a_queued(gib=gib, annotations=annotations, selects=selects, labels=labels)


queues = st.lists(_queued(), max_size=12)


def _sum_free(result: PlacementResult) -> int:
    blocks = (block for pool in result.pools for block in pool.capacity.free_blocks)
    return sum(block.size * block.cards for block in blocks)


@given(_clusters(), queues)
def test_equal_inputs_give_equal_answers(cluster: PlacementCluster, queue: list[QueuedPod]) -> None:
    assert place_pods(cluster, queue) == place_pods(cluster, queue)


@given(_clusters(), queues, _queued())
def test_a_pod_more_never_frees_room(
    cluster: PlacementCluster, queue: list[QueuedPod], another: QueuedPod
) -> None:
    before, after = place_pods(cluster, queue), place_pods(cluster, [*queue, another])
    assert after.pods[:-1] == before.pods
    assert _sum_free(after) <= _sum_free(before)


@given(_clusters(), queues)
def test_the_units_that_are_placed_are_those_of_the_ledger(
    cluster: PlacementCluster, queue: list[QueuedPod]
) -> None:
    result = place_pods(cluster, queue)
    for pool in result.pools:
        ran = [each for each in result.pods if each.pool == pool.name and each.node]
        before = next(each for each in place_pods(cluster, []).pools if each.name == pool.name)
        placed = sum(sum(each.cards.values()) for each in ran)
        assert placed == pool.capacity.memory_allocated - before.capacity.memory_allocated


@given(_clusters(), queues)
def test_no_card_is_allocated_twice(cluster: PlacementCluster, queue: list[QueuedPod]) -> None:
    before, after = place_pods(cluster, []).nodes, place_pods(cluster, queue).nodes
    for name, info in after.items():
        most = max(count_used(before[name].pods).values(), default=0)
        assert max(count_used(info.pods).values(), default=0) <= max(most, _CARD)


@given(_clusters(), queues)
def test_a_node_that_fills_is_counted_as_one_that_is_measured_anew(
    cluster: PlacementCluster, queue: list[QueuedPod]
) -> None:
    for info in place_pods(cluster, queue).nodes.values():
        assert info.cards == measure_cards(info.node, info.pods, info.unhealthy)


@given(_clusters(), queues, queues)
def test_what_is_taken_back_leaves_no_trace(
    cluster: PlacementCluster, before: list[QueuedPod], queue: list[QueuedPod]
) -> None:
    filling = FillingCluster(cluster)
    for pod in before:
        filling.place(pod)
    filling.take_back()
    assert tuple(map(filling.place, queue)) == place_pods(cluster, queue).pods


@given(_clusters(), queues, _queued())
def test_a_node_takes_a_pod_just_where_explain_says_so(
    cluster: PlacementCluster, queue: list[QueuedPod], another: QueuedPod
) -> None:
    pod = read_pod_info(another.shape)
    for info in place_pods(cluster, queue).nodes.values():
        assert (find_cards(info, pod) is not None) == judge(pod, info, "GiB").fits


@given(st.lists(st.just(4), max_size=12), st.integers(1, 3))
def test_a_node_more_never_lets_fewer_equal_pods_run(sizes: Sequence[int], nodes: int) -> None:
    """Where pods are equal the packing is exact."""
    assert _fill(_POOLS[0], nodes, sizes).placed <= _fill(_POOLS[0], nodes + 1, sizes).placed


def _fill(pool: Pool, nodes: int, sizes: Sequence[int]) -> PlacementResult:
    members = [a_member(f"n{number}", pool, card=_CARD, group="t") for number in range(nodes)]
    queue = [replace(a_queued(gib=gib), name=f"p{number}") for number, gib in enumerate(sizes)]
    return place_pods(a_placement_cluster(members, pool), queue)
