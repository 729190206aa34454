"""Pods that were sent to no pool, or have no node."""

from datetime import timedelta
from typing import Any

import pytest

from gpushare import names
from gpushare.api.pod import Pod
from gpushare.core.capacity import Capacity, NodeCapacity
from gpushare.core.unplaced import GRACE, PoolRoom, group_by_pool, judge_pod
from gpushare.names import Reason
from tests.kit.values import MEMORY, NOW, a_gpu_pod

SAYS = "0/3 nodes are available: 3 Insufficient aliyun.com/gpu-mem."
OLD = NOW - timedelta(minutes=1)
A_CAPACITY = Capacity(memory_total=80, largest_card=40, free_blocks=((10, 1),))
ROOM = PoolRoom(nodes=2, ready=2, capacity=A_CAPACITY)


def _waiting(asks: int = 4, *, pools: tuple[str, ...] = ("training",), **more: Any) -> Pod:
    values: dict[str, Any] = {
        "node": "",
        "phase": "Pending",
        "created": OLD,
        "requests": {MEMORY: asks},
        "selects": frozenset((names.LABEL_POOL, pool) for pool in pools),
        "unschedulable": SAYS,
        **more,
    }
    return a_gpu_pod(**values)


def _unrouted(**more: Any) -> Pod:
    return a_gpu_pod(unrouted=True, created=OLD, **more)


def _reason(pod: Pod, **pools: PoolRoom | None) -> Reason | None:
    unplaced = judge_pod(pod, pools, NOW)
    return unplaced.reason if unplaced is not None else None


def test_a_pod_that_runs_where_it_was_sent_is_no_case() -> None:
    sent = a_gpu_pod(selects=frozenset({(names.LABEL_POOL, "training")}), created=OLD)
    assert _reason(sent, training=ROOM) is None


def test_a_pod_that_nobody_routed_is_one_whether_it_runs_or_waits() -> None:
    for pod in (_unrouted(), _unrouted(node="", phase="Pending", unschedulable=SAYS)):
        assert _reason(pod, training=ROOM) is Reason.UNROUTED


def test_it_is_told_of_the_pool_that_it_is_for_where_there_is_such_a_one() -> None:
    pools = {"training": ROOM, "inference": ROOM}
    for named, told in (
        (("training",), "training"),
        (("training", "nowhere"), "training"),
        (("nowhere",), ""),
        (("inference", "training"), ""),
    ):
        unplaced = judge_pod(_waiting(pools=named), pools, NOW)
        assert unplaced is not None
        assert unplaced.pool == told


def test_without_any_pool_nobody_could_have_routed_it() -> None:
    assert _reason(_unrouted()) is None


def test_a_pod_of_a_namespace_that_opts_out_is_sent_nowhere_on_purpose() -> None:
    assert judge_pod(_unrouted(), {"training": ROOM}, NOW, opted_out=True) is None


def test_a_pod_without_a_card_on_its_node_is_told_so() -> None:
    by_hand = judge_pod(_unrouted(), {"training": ROOM}, NOW)
    by_scheduler = judge_pod(_unrouted(cards={0: 4}), {"training": ROOM}, NOW)
    assert by_hand is not None
    assert by_scheduler is not None
    assert "without a card" in by_hand.message
    assert "without a card" not in by_scheduler.message


def test_a_pod_that_is_young_is_not_judged_yet() -> None:
    for age, reason in ((GRACE - timedelta(seconds=1), None), (GRACE, Reason.UNROUTED)):
        pod = a_gpu_pod(unrouted=True, created=NOW - age)
        assert _reason(pod, training=ROOM) is reason


def test_a_pod_that_ended_or_is_being_deleted_is_nobodys_care() -> None:
    for pod in (_unrouted(phase="Failed"), _unrouted(deleting=True), _waiting(deleting=True)):
        assert _reason(pod, other=ROOM) is None


def test_a_pod_that_the_scheduler_has_not_tried_is_only_new() -> None:
    assert _reason(_waiting(unschedulable="")) is None


NO_NODES = PoolRoom(nodes=0, ready=0, capacity=Capacity())
NOT_READY = PoolRoom(nodes=2, ready=0, capacity=A_CAPACITY)
RESTARTING = PoolRoom(nodes=2, ready=1, capacity=Capacity(memory_total=40, free_blocks=((10, 1),)))
WHOLE_CARDS = PoolRoom(nodes=2, ready=2, capacity=Capacity(gpus=8))


@pytest.mark.parametrize(
    ("asks", "room", "reason"),
    [
        (4, NO_NODES, Reason.POOL_HAS_NO_NODES),
        (41, ROOM, Reason.LARGER_THAN_ANY_CARD),
        (41, NOT_READY, Reason.LARGER_THAN_ANY_CARD),
        (40, NOT_READY, Reason.POOL_NOT_READY),
        (40, ROOM, Reason.NO_FREE_BLOCK),
        (11, ROOM, Reason.NO_FREE_BLOCK),
        (10, ROOM, Reason.UNSCHEDULABLE),
        (41, RESTARTING, Reason.NO_FREE_BLOCK),
        (4, WHOLE_CARDS, Reason.UNSCHEDULABLE),
        (4, None, Reason.UNSCHEDULABLE),
    ],
)
def test_each_pod_that_waits_has_its_reason(
    asks: int, room: PoolRoom | None, reason: Reason
) -> None:
    assert _reason(_waiting(asks), training=room) is reason


def test_a_pool_that_does_not_exist_is_named() -> None:
    unplaced = judge_pod(_waiting(), {"inference": ROOM}, NOW)
    assert unplaced is not None
    assert unplaced.reason is Reason.POOL_NOT_FOUND
    assert "pool training" in unplaced.message


def test_of_several_pools_that_a_pod_allows_the_best_counts() -> None:
    pod = _waiting(11, pools=("inference", "training"))
    larger = PoolRoom(2, 2, Capacity(memory_total=160, largest_card=80))
    assert _reason(pod, training=ROOM) is Reason.NO_FREE_BLOCK
    assert _reason(pod, training=ROOM, inference=NO_NODES) is Reason.NO_FREE_BLOCK
    assert _reason(_waiting(41, pools=pod.pools), training=ROOM, inference=larger) is (
        Reason.NO_FREE_BLOCK
    )


def test_a_pod_on_several_cards_needs_its_share_free_on_each() -> None:
    assert _reason(_waiting(80, card_count=2), training=ROOM) is Reason.NO_FREE_BLOCK
    assert _reason(_waiting(80, card_count=8), training=ROOM) is Reason.UNSCHEDULABLE


def test_a_pod_that_selects_a_mode_is_told_what_the_scheduler_says() -> None:
    pod = _waiting(selects=frozenset({("cgpu", "true")}))
    unplaced = judge_pod(pod, {"training": ROOM}, NOW)
    assert unplaced is not None
    assert unplaced.reason is Reason.UNSCHEDULABLE
    assert SAYS in unplaced.message


def test_a_pod_of_whole_cards_is_ours_only_where_it_selects_a_pool() -> None:
    whole = {names.RESOURCE_WHOLE_GPU: 1}
    assert _reason(_waiting(requests=whole, selects=frozenset())) is None
    assert _reason(_waiting(requests=whole)) is Reason.POOL_NOT_FOUND
    assert _reason(_waiting(requests=whole), training=WHOLE_CARDS) is Reason.UNSCHEDULABLE


def test_a_message_names_the_unit_in_which_the_pod_asks() -> None:
    capacity = Capacity(memory_total=31, unit="MiB", largest_card=16_130)
    unplaced = judge_pod(_waiting(20_000), {"training": PoolRoom(2, 2, capacity)}, NOW)
    assert unplaced is not None
    assert "20000 MiB" in unplaced.message


def test_a_pod_that_selects_two_pools_is_pending_for_both() -> None:
    one, both = _waiting(), _waiting(pools=("training", "inference"))
    assert dict(group_by_pool([one, both, _unrouted()])) == {
        "training": [one, both],
        "inference": [both],
    }


UNREACHED = 'Post "http://10.0.0.9:32766/gpushare-scheduler/filter": dial tcp: connection refused'
REFUSED = "failed bind with extender at URL http://10.0.0.9:32766/gpushare-scheduler/bind, code 500"


def _failed(message: str, asks: int = 4, **more: Any) -> Pod:
    return _waiting(asks, unschedulable=message, unscheduled=("SchedulerError", message), **more)


def test_a_scheduler_whose_extender_is_away_is_named_with_the_extenders_address() -> None:
    for selects in (frozenset({(names.LABEL_POOL, "training")}), frozenset()):
        unplaced = judge_pod(_failed(UNREACHED, selects=selects), {"training": ROOM}, NOW)
        assert unplaced is not None
        assert unplaced.reason is Reason.SCHEDULER_UNAVAILABLE
        assert "http://10.0.0.9:32766/gpushare-scheduler" in unplaced.message


def test_an_extender_that_is_away_hides_nothing_that_its_return_does_not_mend() -> None:
    assert _reason(_failed(UNREACHED)) is Reason.POOL_NOT_FOUND
    assert _reason(_failed(UNREACHED, 41), training=ROOM) is Reason.LARGER_THAN_ANY_CARD
    assert _reason(_failed(UNREACHED, 40), training=ROOM) is Reason.SCHEDULER_UNAVAILABLE


def test_an_extender_that_answers_is_not_said_to_be_away() -> None:
    for message in (REFUSED, "Operation cannot be fulfilled on pods/binding"):
        unplaced = judge_pod(_failed(message), {"training": ROOM}, NOW)
        assert unplaced is not None
        assert unplaced.reason is Reason.UNSCHEDULABLE
    assert _reason(_failed(REFUSED.replace("500", "502")), training=ROOM) is (
        Reason.SCHEDULER_UNAVAILABLE
    )


@pytest.mark.parametrize(
    "message",
    [
        'running Bind plugin "DefaultBinder": Post "https://10.0.0.1:6443/api/v1/namespaces/default/'
        'pods/p/binding": net/http: TLS handshake timeout',
        'running Bind plugin "DefaultBinder": Internal error occurred: failed calling webhook '
        '"v.e": failed to call webhook: Post "https://policy.e.svc:443/v?timeout=10s": EOF',
    ],
    ids=["the API server", "a webhook"],
)
def test_what_else_a_scheduler_could_not_reach_is_not_taken_for_its_extender(message: str) -> None:
    unplaced = judge_pod(_failed(message), {"training": ROOM}, NOW)
    assert unplaced is not None
    assert unplaced.reason is Reason.UNSCHEDULABLE
    assert message in unplaced.message
    away = f"binding rejected: {UNREACHED}"
    assert _reason(_failed(away), training=ROOM) is Reason.SCHEDULER_UNAVAILABLE


def _says(refused: int) -> str:
    return (
        f"0/9 nodes are available: {refused} Insufficient GPU Memory in one device, "
        "7 node(s) didn't match Pod's node affinity/selector."
    )


def _room(*free: int) -> PoolRoom:
    """Of nodes with so much free on their only card."""
    nodes = {
        f"n{number}": NodeCapacity(gpus=1, total=40, free_blocks=(units,), card_total=40)
        for number, units in enumerate(free)
    }
    return PoolRoom(len(free), len(free), A_CAPACITY, nodes)


def test_an_extender_that_refuses_a_node_with_room_is_stale_and_the_remedy_is_told() -> None:
    unplaced = judge_pod(_waiting(unschedulable=_says(2)), {"training": _room(3, 10)}, NOW)
    assert unplaced is not None
    assert unplaced.reason is Reason.EXTENDER_STALE
    assert "n1" in unplaced.message
    assert "rollout restart deployment/gpushare-schd-extender" in unplaced.message


@pytest.mark.parametrize(
    ("refused", "free"),
    [(1, (3, 10)), (2, (3, 3, 10)), (0, (10, 10)), (3, ())],
    ids=["only the full one", "both full ones", "none", "nodes that nobody knows"],
)
def test_an_extender_that_may_have_refused_full_nodes_alone_is_not_called_stale(
    refused: int, free: tuple[int, ...]
) -> None:
    pod = _waiting(unschedulable=_says(refused))
    room = _room(*free) if free else ROOM
    assert _reason(pod, training=room) is Reason.UNSCHEDULABLE


def test_a_roomy_node_that_something_else_refused_says_nothing_of_the_extender() -> None:
    """The refused one may be a node that left the pool and kept its label."""
    says = "0/2 nodes are available: 1 Insufficient GPU Memory in one device, 1 Insufficient cpu."
    assert _reason(_waiting(unschedulable=says), training=_room(10)) is Reason.UNSCHEDULABLE


def test_a_pod_that_another_pool_would_take_now_is_told_so_with_the_command() -> None:
    for owner, by_hand in (("replicaset", False), ("", True)):
        pod = _waiting(20, ranked_pools=("gone", "full", "roomy"), owner=owner)
        roomy = PoolRoom(2, 2, Capacity(memory_total=80, largest_card=40, free_blocks=((30, 1),)))
        pools = {"training": ROOM, "full": ROOM, "roomy": roomy}
        unplaced = judge_pod(pod, pools, NOW)
        assert unplaced is not None
        assert unplaced.reason is Reason.NO_FREE_BLOCK
        assert "Pool roomy" in unplaced.message
        assert f"kubectl -n {pod.namespace} delete pod {pod.name}" in unplaced.message
        assert ("from its manifest" in unplaced.message) is by_hand


def test_a_pod_that_no_other_pool_could_take_is_offered_none() -> None:
    roomy = PoolRoom(2, 2, Capacity(memory_total=80, largest_card=40, free_blocks=((30, 1),)))
    unplaced = judge_pod(_waiting(20), {"training": ROOM, "roomy": roomy}, NOW)
    assert unplaced is not None
    assert "roomy" not in unplaced.message
