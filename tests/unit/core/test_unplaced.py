"""Pods that were sent to no pool, or have no node."""

from datetime import timedelta
from typing import Any

import pytest

from gpushare import names
from gpushare.api.pod import Pod
from gpushare.core.capacity import Capacity
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
