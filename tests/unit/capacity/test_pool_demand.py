"""Which waiting pods are demand of a pool, and what those that are none change for others."""

from datetime import timedelta
from typing import Any

import pytest

from gpushare import names
from gpushare.api.k8s.pod import Pod
from gpushare.api.k8s.pod_request import parse_pod_request
from gpushare.api.k8s.resources.host import HostResources
from gpushare.api.status import PoolCapacity
from gpushare.core.admission.pool_view import view_pool
from gpushare.core.admission.score import Fit, judge_fit
from gpushare.core.capacity.demand import UNANSWERED_MINUTES, NoDemand, NodeSize, find_no_demand
from gpushare.core.capacity.node_capacity import NodeCapacity, observe_node_capacity
from gpushare.core.capacity.pool_capacity import sum_capacity
from tests.kit.values.manifests import build_pod, build_pool
from tests.kit.values.objects import MEMORY, NOW, a_gpu_pod, a_node

CORE = names.RESOURCE_GPU_CORE
TYPING_ERROR = 10**10
"""`10G`."""
CARDS = NodeSize(2, 15, is_extended=False, compute=200, host=HostResources(7910, 30))
EXTENDED = CARDS._replace(is_extended=True)


def a_waiting(units: int = 4, **more: Any) -> Pod:
    """A pod that selects a pool and has no node."""
    return a_gpu_pod(node="", phase="Pending", requests={MEMORY: units}, **more)


def a_waiting_core(percent: int) -> Pod:
    return a_gpu_pod(node="", phase="Pending", requests={MEMORY: 4, CORE: percent})


def measure(*pods: Pod, cards: int = 2, **node: Any) -> NodeCapacity:
    """A node with cards of 15 GiB on which these pods run."""
    offered = {
        "allocatable": {MEMORY: 15 * cards, CORE: 100 * cards},
        "gpu_count": cards,
        "host": CARDS.host,
    }
    return observe_node_capacity(a_node(**{**offered, **node}), pods)


def sum_up(*waiting: Pod, nodes: tuple[NodeCapacity, ...] = (measure(),)) -> PoolCapacity:
    return sum_capacity(nodes, waiting, NOW)


def fit_of_others(capacity: PoolCapacity) -> Fit:
    """How well somebody else's pod of 8 GiB fits in."""
    status = capacity.model_dump(mode="json", by_alias=True)
    raw = build_pool() | {"status": {"nodes": {"matched": 1}, "capacity": status}}
    view = view_pool(raw)
    assert view is not None
    return judge_fit(parse_pod_request(build_pod("other", gib=8)), view, 0)


NONE = {
    "a typing error": (a_waiting(TYPING_ERROR), NoDemand.TOO_LARGE),
    "larger than any card": (a_waiting(16), NoDemand.TOO_LARGE),
    "more cards than any node has": (a_waiting(30, card_count=3), NoDemand.TOO_LARGE),
    "a typing error over many cards": (
        a_waiting(TYPING_ERROR, card_count=10**9),
        NoDemand.TOO_LARGE,
    ),
    "more compute than any node has": (a_waiting_core(300), NoDemand.TOO_LARGE),
    "a typing error in its CPUs": (
        a_waiting(lacks_gpu=True, host=HostResources(10**8, 1)),
        NoDemand.TOO_LARGE,
    ),
    "more memory than any node has": (a_waiting(host=HostResources(1, 31)), NoDemand.TOO_LARGE),
    "gated": (a_waiting(gates=("team/quota",)), NoDemand.GATED),
    "kept by a finalizer": (a_waiting(deleting=True), NoDemand.DELETING),
    "it waits for a CPU": (a_waiting(lacks_gpu=False), NoDemand.OTHER_CAUSE),
    "no scheduler looks at it": (
        a_waiting(created=NOW - timedelta(minutes=UNANSWERED_MINUTES)),
        NoDemand.UNANSWERED,
    ),
}


@pytest.mark.parametrize(("pod", "why"), NONE.values(), ids=NONE)
def test_a_pod_that_can_get_nothing_is_no_demand(pod: Pod, why: NoDemand) -> None:
    assert find_no_demand(pod, {CARDS}, NOW) is why


@pytest.mark.parametrize("pod", [pod for pod, _ in NONE.values()], ids=NONE)
def test_what_is_no_demand_changes_nothing_for_others(pod: Pod) -> None:
    # As large a backlog as a queue holds.
    assert sum_up(*[pod] * 1000) == sum_up()
    assert fit_of_others(sum_up(*[pod] * 1000)) is Fit.ROOM


@pytest.mark.parametrize(
    "pod",
    [
        a_waiting(created=NOW - timedelta(minutes=UNANSWERED_MINUTES - 1)),
        a_waiting(15),
        a_waiting(30, card_count=2),
        a_waiting_core(200),
        a_waiting(host=CARDS.host),
        a_waiting(lacks_gpu=True, created=NOW - timedelta(days=1)),
    ],
    ids=[
        "no message yet",
        "a whole card",
        "both cards",
        "all compute",
        "all CPUs",
        "a card is too full",
    ],
)
def test_a_pod_that_may_get_its_memory_is_demand(pod: Pod) -> None:
    assert find_no_demand(pod, {CARDS}, NOW) is None
    assert sum_up(pod).memory_requested == pod.gpu_memory


def test_a_backlog_that_may_get_its_memory_takes_it_from_others() -> None:
    assert fit_of_others(sum_up(*[a_waiting(15)] * 2)) is Fit.CARD


def test_where_an_extender_allocates_the_cards_init_containers_count_for_the_node() -> None:
    pod = a_waiting(20, card_memory=4)
    assert find_no_demand(pod, {EXTENDED}, NOW) is None
    for memory in (31, TYPING_ERROR):
        huge = a_waiting(memory, card_memory=4)
        assert find_no_demand(huge, {EXTENDED}, NOW) is NoDemand.TOO_LARGE


def test_the_label_of_card_counts_does_not_help_where_an_extender_ignores_it() -> None:
    assert find_no_demand(a_waiting(30, card_memory=30, card_count=2), {EXTENDED}, NOW)


def test_one_node_that_is_large_enough_suffices() -> None:
    assert find_no_demand(a_waiting(40), {CARDS, NodeSize(1, 80, is_extended=False)}, NOW) is None


def test_a_node_whose_plugin_restarts_does_not_make_a_typing_error_demand() -> None:
    restarting = measure(allocatable={MEMORY: 0})
    capacity = sum_up(a_waiting(TYPING_ERROR), nodes=(measure(), restarting))
    assert (capacity.largest_card, capacity.memory_requested) == (0, 0)
    assert fit_of_others(capacity) is Fit.ROOM


def test_where_no_card_is_known_everything_is_demand() -> None:
    restarting = measure(allocatable={MEMORY: 0})
    assert sum_up(a_waiting(40), nodes=(restarting,)).memory_requested == 40
    assert sum_up(a_waiting(40), nodes=()).memory_requested == 40


def test_a_pod_is_compared_with_cards_of_its_pool_in_one_unit() -> None:
    in_mib = measure(allocatable={MEMORY: 2 * 24_576})
    nodes = (measure(), measure(), in_mib)
    assert sum_up(a_waiting(20), nodes=nodes).memory_requested == 20
    assert sum_up(a_waiting(25), nodes=nodes).memory_requested == 0


def test_a_pod_that_some_client_bound_where_it_can_not_start_takes_no_room_elsewhere() -> None:
    forged = a_gpu_pod(phase="Pending", requests={MEMORY: TYPING_ERROR}, cards={0: TYPING_ERROR})
    down = measure(forged, ready=False)
    assert (down.requested, down.allocated, down.requests) == (0, 0, ())
    waiting = [a_waiting(15)] * 2
    assert sum_up(*waiting, nodes=(down, measure())) == sum_up(
        *waiting, nodes=(measure(ready=False), measure())
    )


def test_a_pod_that_runs_counts_although_its_node_has_lost_a_card() -> None:
    pod = a_gpu_pod(requests={MEMORY: 30}, cards={0: 15, 1: 15}, card_count=2)
    assert measure(pod, cards=1).requested == 30
