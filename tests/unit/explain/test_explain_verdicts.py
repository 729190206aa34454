"""By which sentence and number each pool lost a pod."""

from collections.abc import Mapping
from typing import Any

import pytest

from gpushare.api.namespace import Namespace
from gpushare.api.podrequest import parse_pod_request
from gpushare.core.admission import PoolView, Rules, decide
from gpushare.core.admission.case import NO_BOOKINGS, Case
from gpushare.core.explain.verdicts import Standing, Verdict, judge_pools
from gpushare.names import Reason
from tests.kit.values.manifests import build_pod
from tests.kit.values.pool_views import HERE, a_room, a_view

ROOMY = a_view("roomy", room=a_room([(16, 8)]))
BUSY = a_view("busy", room=a_room([(16, 2)]))
FULL = a_view("full", room=a_room([(3, 1)]))


def judge(
    pod: Mapping[str, Any], *pools: PoolView, namespace: Namespace = HERE
) -> dict[str, Verdict]:
    request = parse_pod_request(pod)
    decision = decide(request, namespace, pools)
    case = Case(request, namespace, pools, Rules(), NO_BOOKINGS)
    return {verdict.pool: verdict for verdict in judge_pools(case, decision)}


def test_the_pool_that_gets_it_stands_first_and_says_what_room_it_has() -> None:
    verdicts = judge(build_pod("p", gib=4), ROOMY, BUSY)
    first, second = verdicts.values()
    assert (first.pool, first.standing, first.reason) == ("busy", Standing.CHOSEN, None)
    assert first.message == (
        "it is ranked first; there is room for 4 GiB: the largest free block is 16 GiB"
    )
    assert (second.standing, second.reason) == (Standing.LOST, Reason.LESS_FULL)
    assert second.message == (
        "100% of its memory is free, of that of busy 25%; the fullest with room is filled first"
    )


def test_a_pool_without_room_says_how_much_it_has() -> None:
    full = judge(build_pod("p", gib=4), ROOMY, FULL)["full"]
    assert full.reason is Reason.NO_ROOM
    assert full.message.startswith("no room for 4 GiB now: the largest free block is 3 GiB; of ")
    assert full.figures is not None
    assert (full.figures.asked, full.figures.largest_free) == (4, 3)


def test_a_pool_whose_cards_are_too_small_names_the_largest() -> None:
    (only,) = judge(build_pod("p", gib=40), ROOMY).values()
    assert only.message == (
        "no other takes it; no card is large enough for 40 GiB: the largest has 16"
    )


@pytest.mark.parametrize(
    ("pool", "reason", "says"),
    [
        (a_view("other", priority=50), Reason.LOWER_PRIORITY, "its priority is 50, that of roomy"),
        (a_view("z"), Reason.LATER_NAME, "equal to roomy in room, priority and fill"),
        (a_view("other", "share"), Reason.NOT_ISOLATED, "keeps no container to its share"),
        (a_view("other", on_request=True), Reason.ON_REQUEST_ONLY, "only pods that ask for it"),
        (a_view("other", "default"), Reason.OTHER_MODE, "does not serve aliyun.com/gpu-mem"),
        (a_view("other", is_leaving=True), Reason.POOL_LEAVING, "it is being deleted"),
        (a_view("other", observes=True), Reason.POOL_OBSERVES, "reconcile is Observe"),
        (a_view("other", nodes=0), Reason.NO_ROOM, "it has no nodes yet"),
        (a_view("other", room=None), Reason.CAPACITY_UNKNOWN, "what room it has is not known yet"),
    ],
    ids=lambda value: value.name if isinstance(value, Reason) else "",
)
def test_each_loss_has_its_sentence(pool: PoolView, reason: Reason, says: str) -> None:
    lost = judge(build_pod("p"), ROOMY, pool)[pool.name]
    assert lost.reason is reason
    assert says in lost.message


def test_where_room_is_in_doubt_the_emptiest_is_first() -> None:
    crowded = a_room([(16, 2)], pending=100)
    pools = (a_view("a", room=crowded), a_view("b", room=a_room([(16, 4)], pending=100)))
    lost = judge(build_pod("p"), *pools)["a"]
    assert lost.reason is Reason.FULLER
    assert "others may come first, the emptiest is chosen" in lost.message


def test_an_isolated_pool_loses_a_pod_that_switches_it_off() -> None:
    pod = build_pod("p", env={"CGPU_DISABLE": "true"})
    lost = judge(pod, ROOMY, a_view("plain", "share"))["roomy"]
    assert lost.reason is Reason.ISOLATED
    assert "the pod switches that off, and plain (share) does not isolate" in lost.message


def test_who_asks_for_one_pool_has_no_other_looked_at() -> None:
    verdicts = judge(build_pod("p", annotations={"gpushare.io/pool": "busy"}), ROOMY, BUSY)
    assert verdicts["busy"].message.startswith("the pod's annotation gpushare.io/pool asks for it")
    assert verdicts["roomy"].standing is Standing.ASIDE
    assert verdicts["roomy"].message == "not looked at: the pod asks for busy"


def test_a_namespaces_pool_is_told_as_its() -> None:
    space = Namespace("vision", {"gpushare.io/default-pool": "busy"})
    verdicts = judge(build_pod("p"), ROOMY, BUSY, namespace=space)
    assert verdicts["busy"].message.startswith("namespace vision sends its pods there")
    assert verdicts["roomy"].message == "not looked at: busy is its namespace's"


@pytest.mark.parametrize(
    "pod",
    [
        build_pod("p", annotations={"gpushare.io/pool": "rommy"}),
        build_pod("p", selects={"gpushare.io/pool": "rommy"}),
    ],
    ids=["annotation", "node selector"],
)
def test_a_pool_that_there_is_not_is_told_with_one_that_looks_alike(pod: Mapping[str, Any]) -> None:
    lost = judge(pod, ROOMY)["rommy"]
    assert (lost.standing, lost.reason) == (Standing.LOST, Reason.POOL_NOT_FOUND)
    assert lost.message == "there is no such pool; did you mean roomy?"


def test_pools_that_the_owner_selects_are_told_apart_from_the_others() -> None:
    pod = build_pod("p", selects={"ack.node.gpu.schedule": "share"})
    pools = (ROOMY, a_view("plain", "share"), a_view("late", "share", is_leaving=True))
    verdicts = judge(pod, *pools)
    assert verdicts["plain"].standing is Standing.SELECTED
    assert verdicts["roomy"].reason is Reason.EXCLUDED_BY_POD
    assert verdicts["late"].reason is Reason.POOL_LEAVING


def test_a_pod_that_opts_out_has_no_pool_looked_at() -> None:
    (verdict,) = judge(
        build_pod("p", annotations={"gpushare.io/inject": "disabled"}), BUSY
    ).values()
    assert verdict.message == "not looked at (OptedOut)"
