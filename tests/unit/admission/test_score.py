"""Which of the pools that can take a pod gets it."""

from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from gpushare.api.k8s.pod_request import parse_pod_request
from gpushare.core.admission.score import Fit, judge_fit
from gpushare.core.capacity.room import Room
from gpushare.names import Reason
from tests.kit.values.manifests import MEMORY, build_pod, build_preference
from tests.kit.values.pool_views import CARD, Json, a_labelled_view, a_room, a_view, admit


def _pod(gib: int = 8, **labels: str) -> Json:
    named = {key.replace("_", "/"): value for key, value in labels.items()}
    return build_pod("a", gib=gib, labels=named)


SCHEDULE = "ack.node.gpu.schedule"


def _preferring(*wishes: tuple[int, str, str, str]) -> Json:
    return build_pod("a", gib=8, affinity=build_preference(*wishes))


def _lost(name: str, reason: str, pod: Json, *pools: Any, **more: Any) -> bool:
    decision = admit(pod, *pools, **more)
    return decision.pool != name and f'"{reason}":["{name}"]' in decision.annotation


def test_isolation_goes_before_room_and_priority() -> None:
    full = a_view("full", "cgpu", room=a_room([]), priority=1)
    roomy = a_view("roomy", "share", priority=1000)
    assert _lost("roomy", "NotIsolated", _pod(), full, roomy)


def test_room_goes_before_priority() -> None:
    full = a_view("full", room=a_room([(4, 8)]), priority=1000)
    assert _lost("full", "NoRoom", _pod(), full, a_view("roomy"))


def test_a_pool_without_nodes_comes_after_one_that_is_full() -> None:
    elastic = a_view("elastic", nodes=0, room=None, priority=1000)
    assert _lost("elastic", "NoRoom", _pod(), elastic, a_view("full", room=a_room([])))


def test_room_that_others_were_promised_is_not_called_missing() -> None:
    promised = a_view("promised", room=a_room([(8, 4)], pending=40), priority=1000)
    assert _lost("promised", "Reserved", _pod(), promised, a_view("roomy"))
    unseen = a_view("unseen", room=None, priority=1000)
    assert _lost("unseen", "CapacityUnknown", _pod(), unseen, a_view("roomy"))


def test_priority_goes_before_fullness() -> None:
    fuller = a_view("fuller", room=a_room([(8, 1)]))
    assert _lost("fuller", "LowerPriority", _pod(), fuller, a_view("better", priority=101))


def test_a_preferred_mode_goes_before_priority_and_after_room_and_isolation() -> None:
    pod = _preferring((1, SCHEDULE, "In", "cgpu"))
    old = a_view("old", edition="Basic", priority=1000)
    assert _lost("old", "LessPreferred", pod, a_view("new"), old)
    assert _lost("new", "NoRoom", pod, a_view("new", room=a_room([])), old)
    share = a_view("share", "share")
    assert _lost("share", "NotIsolated", _preferring((1, SCHEDULE, "In", "share")), share, old)


@pytest.mark.parametrize(
    ("wishes", "best"),
    [
        ([(60, SCHEDULE, "In", "cgpu"), (50, "cgpu", "Exists", "")], "cgpu"),
        ([(60, SCHEDULE, "In", "cgpu"), (70, "gpushare.io/pool", "In", "z-cgpu")], "z-cgpu"),
        ([(10, SCHEDULE, "NotIn", "cgpu")], "old"),
        ([(10, "zone", "In", "b")], "z-cgpu"),
        ([(10, "zone", "In", "c"), (0, "cgpu", "In", "true")], "cgpu"),
        ([(10, "gpushare.io/pool", "NotIn", f"no-{i}") for i in range(50)], "cgpu"),
        ([(10, "gpushare.io/pool", "In", "old") for _ in range(51)], "cgpu"),
    ],
    ids=["weights", "sum", "avoid", "published", "none matches", "all match", "too many to read"],
)
def test_the_weights_of_the_preferences_that_a_pool_meets_are_added_up(
    wishes: list[tuple[int, str, str, str]], best: str
) -> None:
    old = a_labelled_view("old", {"zone": "a"}, edition="Basic")
    pools = a_labelled_view("cgpu", {"zone": "a"}), a_labelled_view("z-cgpu", {"zone": "b"}), old
    for order in permutations(pools):
        assert admit(_preferring(*wishes), *order).pool == best


@pytest.mark.parametrize(
    ("pool", "fit"),
    [
        (a_view(room=a_room([(16, 1)])), Fit.ROOM),
        (a_view(room=a_room([(8, 1)])), Fit.ROOM),
        (a_view(room=a_room([(8, 1)], pending=1)), Fit.CARD),
        (a_view(room=a_room([(8, 1), (7, 5)], pending=5)), Fit.CARD),
        (a_view(room=a_room([(16, 1)], pending=8)), Fit.ROOM),
        (a_view(room=a_room([(15, 2)], pending=8)), Fit.ROOM),
        (a_view(room=a_room([(15, 2)], pending=9)), Fit.CARD),
        (a_view(room=None), Fit.UNKNOWN),
        (a_view(room=None, nodes=None), Fit.UNKNOWN),
        (a_view(room=a_room([(7, 8)])), Fit.FULL),
        (a_view(room=a_room([])), Fit.FULL),
        (a_view(nodes=0), Fit.TOO_LARGE),
        (a_view(nodes=0, room=None), Fit.TOO_LARGE),
    ],
)
def test_fit_counts_whole_places_on_cards_for_those_who_came_before(pool: Any, fit: Fit) -> None:
    assert admit(_pod(), pool).pool == "training"
    assert _fit(_pod(), pool) is fit


def _fit(pod: Json, pool: Any) -> Fit:
    return judge_fit(parse_pod_request(pod), pool, 0)


def test_a_promise_of_part_of_a_card_counts() -> None:
    room = a_view(room=a_room([(8, 1)]))
    assert judge_fit(parse_pod_request(_pod()), room, 1) is Fit.CARD


def test_a_pod_larger_than_any_card_waits_in_vain() -> None:
    assert _fit(_pod(CARD + 1), a_view()) is Fit.TOO_LARGE
    unknown = a_view(room=Room(((CARD, 1),), total=CARD))
    assert _fit(_pod(CARD + 1), unknown) is Fit.FULL


def test_a_pod_over_several_cards_needs_as_many_with_its_part_free() -> None:
    pod = _pod(16, **{"aliyun.com_gpu-count": "2"})
    assert _fit(pod, a_view(room=a_room([(8, 2)]))) is Fit.ROOM
    assert _fit(pod, a_view(room=a_room([(15, 1)]))) is Fit.FULL
    assert _fit(pod, a_view(room=a_room([(8, 2)]), edition="Basic")) is Fit.FULL


def test_a_pod_that_shares_its_card_with_nobody_needs_one_that_is_free_as_a_whole() -> None:
    pod = _pod(4, **{"ack.gpushare.placement": "require-whole-device"})
    assert _fit(pod, a_view(room=a_room([(15, 8)]))) is Fit.FULL
    assert _fit(pod, a_view(room=a_room([(CARD, 1)]))) is Fit.ROOM
    assert _fit(pod, a_view(room=a_room([(15, 8)]), edition="Basic")) is Fit.ROOM


@pytest.mark.parametrize(
    ("pool", "words"),
    [
        (a_view(room=None), "not known yet"),
        (a_view(room=a_room([(4, 8)])), "no card has 8 GiB free"),
        (a_view(nodes=0), "no node with usable cards yet"),
        (a_view(room=Room(largest_card=4, total=4)), "the largest card has 4"),
    ],
)
def test_fit_never_excludes_and_who_must_wait_learns_why(pool: Any, words: str) -> None:
    decision = admit(_pod(), pool)
    assert (decision.reason, decision.pool) == (Reason.ROUTED, "training")
    assert words in decision.warnings[0]
    assert decision.reserved == 0


def test_a_pod_for_which_there_may_be_room_is_not_told_to_wait() -> None:
    assert admit(_pod(), a_view(room=a_room([(8, 1)], pending=50))).warnings == ()


def test_cards_that_take_few_more_pods_have_less_room_than_their_memory() -> None:
    pod = parse_pod_request(_pod(1))
    room = a_room([(8, 1)], pending=3)
    fits = {
        left: judge_fit(pod, a_view(room=replace(room, free_pods=left)), 0)
        for left in (None, 20, 4, 3)
    }
    assert fits == {None: Fit.ROOM, 20: Fit.ROOM, 4: Fit.ROOM, 3: Fit.CARD}


def test_a_sidecar_needs_no_memory_of_a_card_where_the_extender_leaves_it_out() -> None:
    sidecar = {"name": "s", "restartPolicy": "Always", "resources": {"limits": {MEMORY: "90"}}}
    pod = parse_pod_request(build_pod("a", gib=8, initContainers=[sidecar]))
    assert judge_fit(pod, a_view(edition="Basic"), 0) is Fit.ROOM
    assert judge_fit(pod, a_view(), 0) is Fit.TOO_LARGE
