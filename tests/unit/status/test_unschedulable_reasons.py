"""Pods that were sent to no pool, or have no node."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpushare import names
from gpushare.api.k8s.pod import Pod
from gpushare.api.status import FreeBlock, PoolCapacity
from gpushare.core.capacity.node_capacity import NodeCapacity
from gpushare.core.status.unschedulable_pods import (
    GRACE,
    PoolRoom,
    UnschedulablePod,
    group_by_pool,
    judge_pod,
)
from gpushare.names import Reason
from tests.kit.values.objects import MEMORY, NOW, a_gpu_pod

Pools = dict[str, PoolRoom | None]
SAYS = "0/3 nodes are available: 3 Insufficient aliyun.com/gpu-mem."
OLD = NOW - timedelta(minutes=1)


def a_capacity(free: int = 0, **more: Any) -> PoolCapacity:
    """With one card that has so much free, if any has."""
    blocks = (FreeBlock(size=free, cards=1),) if free else ()
    return PoolCapacity(observed_at=NOW, free_blocks=blocks, **more)


A_CAPACITY = a_capacity(memory_total=80, largest_card=40, free=10)
ROOM = PoolRoom(nodes=2, ready=2, capacity=A_CAPACITY)
ONE: Pools = {"training": ROOM}


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


def _judge(pod: Pod, **pools: PoolRoom | None) -> UnschedulablePod:
    unschedulable = judge_pod(pod, pools, NOW)
    assert unschedulable is not None
    return unschedulable


def _reason(pod: Pod, **pools: PoolRoom | None) -> str | None:
    unschedulable = judge_pod(pod, pools, NOW)
    return unschedulable.reason if unschedulable is not None else None


TO_TRAINING = frozenset({(names.LABEL_POOL, "training")})
WHOLE = _waiting(requests={names.RESOURCE_WHOLE_GPU: 1})
FINE: dict[str, tuple[Pod, Pools]] = {
    "runs where sent": (a_gpu_pod(selects=TO_TRAINING, created=OLD), ONE),
    "without any pool": (_unrouted(), {}),
    "ended": (_unrouted(phase="Failed"), ONE),
    "goes": (_unrouted(deleting=True), ONE),
    "waits and goes": (_waiting(deleting=True), ONE),
    "is only new": (_waiting(unschedulable=""), ONE),
    "whole cards, and not ours": (replace(WHOLE, selects=frozenset()), {}),
}


@pytest.mark.parametrize(("pod", "pools"), FINE.values(), ids=FINE)
def test_a_pod_that_nothing_is_wrong_with_is_no_case(pod: Pod, pools: Pools) -> None:
    assert _reason(pod, **pools) is None


def test_a_pod_that_nobody_routed_is_one_whether_it_runs_or_waits() -> None:
    for pod in (_unrouted(), _unrouted(node="", phase="Pending", unschedulable=SAYS)):
        assert _reason(pod, training=ROOM) is Reason.UNROUTED
    assert judge_pod(_unrouted(), ONE, NOW, opted_out=True) is None


@pytest.mark.parametrize(
    ("named", "told"),
    [
        (("training",), "training"),
        (("training", "nowhere"), "training"),
        (("nowhere",), ""),
        (("inference", "training"), ""),
    ],
)
def test_it_is_told_of_the_pool_that_it_is_for_where_there_is_such_a_one(
    named: tuple[str, ...], told: str
) -> None:
    assert _judge(_waiting(pools=named), training=ROOM, inference=ROOM).pool == told


@pytest.mark.parametrize(("cards", "told"), [({}, True), ({0: 4}, False)], ids=["by hand", "not"])
def test_a_pod_without_a_card_on_its_node_is_told_so(cards: dict[int, int], told: bool) -> None:
    message = _judge(_unrouted(cards=cards), training=ROOM).message
    assert ("without a card" in message) is told


def test_a_pod_without_a_pool_is_told_to_check_the_webhook_before_it_is_recreated() -> None:
    pod = _unrouted(owner="replicaset")
    message = _judge(pod, training=ROOM).message
    recreate = f"recreate the pod: kubectl -n {pod.namespace} delete pod {pod.name}"
    assert message.endswith(f"`kubectl gpushare doctor`. If it answers, {recreate}")


def test_a_pod_that_is_young_is_not_judged_yet() -> None:
    for age, reason in ((GRACE - timedelta(seconds=1), None), (GRACE, Reason.UNROUTED)):
        pod = a_gpu_pod(unrouted=True, created=NOW - age)
        assert _reason(pod, training=ROOM) is reason


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        ("1 node(s) had volume node affinity conflict", Reason.VOLUME_CONFLICT),
        ("1 node(s) didn't match PersistentVolume's node affinity", Reason.VOLUME_CONFLICT),
        (
            "2 node(s) were unschedulable, 1 node(s) had no available volume zone",
            Reason.VOLUME_CONFLICT,
        ),
        # That node may be where the volume is.
        ("1 node(s) had volume node affinity conflict, 1 Insufficient cpu", Reason.UNSCHEDULABLE),
    ],
)
def test_a_pod_whose_volume_is_elsewhere_learns_that_and_what_to_do(
    says: str, reason: Reason
) -> None:
    pod = _waiting(unschedulable=f"0/3 nodes are available: {says}.")
    unschedulable = _judge(pod, training=ROOM)
    assert unschedulable.reason is reason
    assert "1 node(s)" in unschedulable.message
    assert ("kubectl describe pv" in unschedulable.message) is (reason is Reason.VOLUME_CONFLICT)


NO_NODES = PoolRoom(nodes=0, ready=0, capacity=a_capacity())
DOWN: Pools = {"training": PoolRoom(nodes=2, ready=0, capacity=A_CAPACITY)}
RESTARTING = PoolRoom(nodes=2, ready=1, capacity=a_capacity(memory_total=40, free=10))
CARDS: Pools = {"training": PoolRoom(nodes=2, ready=2, capacity=a_capacity(gpus=8))}
UNREACHED = 'Post "http://10.0.0.9:32766/gpushare-scheduler/filter": dial tcp: connection refused'


def _failed(message: str, asks: int = 4, **more: Any) -> Pod:
    return _waiting(asks, unschedulable=message, unscheduled=("SchedulerError", message), **more)


BOTH: dict[str, Any] = {"pools": ("inference", "training")}
LARGER = PoolRoom(2, 2, a_capacity(memory_total=160, largest_card=80))
PLACES: dict[str, tuple[Pod, Pools, Reason]] = {
    "no nodes": (_waiting(4), {"training": NO_NODES}, Reason.POOL_HAS_NO_NODES),
    "larger than a card": (_waiting(41), ONE, Reason.LARGER_THAN_ANY_CARD),
    "also of nodes that are down": (_waiting(41), DOWN, Reason.LARGER_THAN_ANY_CARD),
    "nodes that are down": (_waiting(40), DOWN, Reason.POOL_NOT_READY),
    "no card is free": (_waiting(40), ONE, Reason.NO_FREE_BLOCK),
    "a little too large": (_waiting(11), ONE, Reason.NO_FREE_BLOCK),
    "it fits": (_waiting(10), ONE, Reason.UNSCHEDULABLE),
    "a card may come back": (_waiting(41), {"training": RESTARTING}, Reason.NO_FREE_BLOCK),
    "a pool of whole cards": (_waiting(4), CARDS, Reason.UNSCHEDULABLE),
    "a pool of which nothing is known": (_waiting(4), {"training": None}, Reason.UNSCHEDULABLE),
    "one pool of two": (_waiting(11, **BOTH), ONE, Reason.NO_FREE_BLOCK),
    "the better pool": (_waiting(11, **BOTH), {**ONE, "inference": NO_NODES}, Reason.NO_FREE_BLOCK),
    "larger cards": (_waiting(41, **BOTH), {**ONE, "inference": LARGER}, Reason.NO_FREE_BLOCK),
    "on two cards": (_waiting(80, card_count=2), ONE, Reason.NO_FREE_BLOCK),
    "on eight": (_waiting(80, card_count=8), ONE, Reason.UNSCHEDULABLE),
    "whole cards of no pool": (WHOLE, {}, Reason.POOL_NOT_FOUND),
    "whole cards of a pool": (WHOLE, CARDS, Reason.UNSCHEDULABLE),
    "no extender, no pool": (_failed(UNREACHED), {}, Reason.POOL_NOT_FOUND),
    "no extender, too large": (_failed(UNREACHED, 41), ONE, Reason.LARGER_THAN_ANY_CARD),
    "no extender": (_failed(UNREACHED, 40), ONE, Reason.SCHEDULER_UNAVAILABLE),
}


@pytest.mark.parametrize(("pod", "pools", "reason"), PLACES.values(), ids=PLACES)
def test_each_pod_that_waits_has_its_reason(pod: Pod, pools: Pools, reason: Reason) -> None:
    assert _reason(pod, **pools) is reason


def test_a_pod_that_selects_two_pools_is_pending_for_both() -> None:
    one, both = _waiting(), _waiting(pools=("training", "inference"))
    assert dict(group_by_pool([one, both, _unrouted()])) == {
        "training": [one, both],
        "inference": [both],
    }


BY_API_SERVER = (
    'running Bind plugin "DefaultBinder": Post "https://10.0.0.1:6443/api/v1/namespaces/default/'
    'pods/p/binding": net/http: TLS handshake timeout'
)
BY_WEBHOOK = (
    'running Bind plugin "DefaultBinder": Internal error occurred: failed calling webhook '
    '"v.e": failed to call webhook: Post "https://policy.e.svc:443/v?timeout=10s": EOF'
)
REFUSED = "failed bind with extender at URL http://10.0.0.9:32766/gpushare-scheduler/bind, code 500"


@pytest.mark.parametrize("selects", [[(names.LABEL_POOL, "training")], []], ids=["pool", "none"])
def test_a_scheduler_whose_extender_is_away_is_named_with_the_extenders_address(
    selects: list[tuple[str, str]],
) -> None:
    unschedulable = _judge(_failed(UNREACHED, selects=frozenset(selects)), training=ROOM)
    assert unschedulable.reason is Reason.SCHEDULER_UNAVAILABLE
    assert "http://10.0.0.9:32766/gpushare-scheduler" in unschedulable.message


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (REFUSED, Reason.UNSCHEDULABLE),
        ("Operation cannot be fulfilled on pods/binding", Reason.UNSCHEDULABLE),
        (BY_API_SERVER, Reason.UNSCHEDULABLE),
        (BY_WEBHOOK, Reason.UNSCHEDULABLE),
        (REFUSED.replace("500", "502"), Reason.SCHEDULER_UNAVAILABLE),
        (f"binding rejected: {UNREACHED}", Reason.SCHEDULER_UNAVAILABLE),
    ],
    ids=["refused", "a conflict", "the API server", "a webhook", "a gateway", "at the binding"],
)
def test_an_extender_that_answers_is_not_said_to_be_away(message: str, reason: Reason) -> None:
    assert _reason(_failed(message), training=ROOM) is reason


def _says(refused: int) -> str:
    return (
        f"0/9 nodes are available: {refused} Insufficient GPU Memory in one device, "
        "7 node(s) didn't match Pod's node affinity/selector."
    )


def _room(*free: int, is_extended: bool = True) -> PoolRoom:
    """Of nodes with so much free on their only card."""
    nodes = {
        f"n{number}": NodeCapacity(
            gpus=1, total=40, free_blocks=(units,), card_total=40, is_extended=is_extended
        )
        for number, units in enumerate(free)
    }
    return PoolRoom(len(free), len(free), A_CAPACITY, nodes)


def test_an_extender_that_refuses_a_node_with_room_is_stale_and_the_remedy_is_told() -> None:
    unschedulable = _judge(_waiting(unschedulable=_says(2)), training=_room(3, 10))
    assert unschedulable.reason is Reason.EXTENDER_STALE
    assert "node n1 has room" in unschedulable.message
    assert "rollout restart deployment/gpushare-schd-extender" in unschedulable.message


def test_of_several_nodes_with_room_that_were_refused_one_is_named() -> None:
    message = _judge(_waiting(unschedulable=_says(3)), training=_room(3, 10, 12)).message
    assert "2 nodes have room, such as n2 (12 GiB on one card)" in message


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


def test_no_extender_is_called_stale_where_there_is_none() -> None:
    """The Professional scheduler may refuse a card for its computing power."""
    room = _room(3, 10, is_extended=False)
    assert _reason(_waiting(unschedulable=_says(2)), training=room) is Reason.UNSCHEDULABLE


@pytest.mark.parametrize(
    "why",
    ["had untolerated taint(s)", "had untolerated taint {node-role: }", "were unschedulable"],
    ids=["Kubernetes 1.35", "before", "cordoned"],
)
def test_nodes_that_take_no_pods_do_not_hide_that_the_extender_is_stale(why: str) -> None:
    """As each node of a control plane, which the scheduler refuses by its taint."""
    says = (
        f"0/9 nodes are available: 2 Insufficient GPU Memory in one device, 3 node(s) {why}, "
        "4 node(s) didn't match Pod's node affinity/selector."
    )
    assert _reason(_waiting(unschedulable=says), training=_room(3, 10)) is Reason.EXTENDER_STALE


def test_a_label_that_the_extender_does_not_read_never_calls_it_stale() -> None:
    """A tenant may write `aliyun.com/gpu-count: 2` on a pod of any edition."""
    pod = _waiting(14, card_count=2, unschedulable=_says(2))
    assert _reason(pod, training=_room(8, 8)) is Reason.NO_FREE_BLOCK


ROOMY = PoolRoom(2, 2, a_capacity(memory_total=80, largest_card=40, free=30))


@pytest.mark.parametrize(("owner", "by_hand"), [("replicaset", False), ("", True)])
def test_a_pod_that_another_pool_would_take_now_is_told_so_with_the_command(
    owner: str, by_hand: bool
) -> None:
    pod = _waiting(20, ranked_pools=("gone", "full", "roomy"), owner=owner)
    unschedulable = _judge(pod, training=ROOM, full=ROOM, roomy=ROOMY)
    assert unschedulable.reason is Reason.NO_FREE_BLOCK
    assert "Pool roomy" in unschedulable.message
    assert f"kubectl -n {pod.namespace} delete pod {pod.name}" in unschedulable.message
    assert ("from its manifest" in unschedulable.message) is by_hand


def test_a_pod_whose_pool_has_lost_its_nodes_is_told_of_the_one_with_room() -> None:
    unschedulable = _judge(_waiting(20, ranked_pools=("roomy",)), training=NO_NODES, roomy=ROOMY)
    assert unschedulable.reason is Reason.POOL_HAS_NO_NODES
    assert "Pool roomy" in unschedulable.message


def test_a_pod_that_no_other_pool_could_take_is_offered_none() -> None:
    assert "roomy" not in _judge(_waiting(20), training=ROOM, roomy=ROOMY).message
