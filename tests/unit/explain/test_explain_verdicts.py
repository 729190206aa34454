"""By which sentence and number each pool lost a pod."""

from collections.abc import Mapping
from typing import Any

import pytest

from gpushare.analysis.explain.verdicts import PoolOutcome, PoolVerdict, list_verdicts
from gpushare.api.k8s.namespace import Namespace
from gpushare.api.k8s.pod_request import parse_pod_request
from gpushare.core.admission.decide import decide
from gpushare.core.admission.pool_view import PoolView
from gpushare.core.admission.request import NO_RESERVATIONS, AdmissionRequest, Rules
from gpushare.names import Reason
from tests.kit.values.manifests import build_pod, build_preference
from tests.kit.values.pool_views import HERE, a_labelled_view, a_room, a_view

ROOMY = a_view("roomy", room=a_room([(16, 8)]))
BUSY = a_view("busy", room=a_room([(16, 2)]))


def judge(
    pod: Mapping[str, Any], *pools: PoolView, namespace: Namespace = HERE
) -> dict[str, PoolVerdict]:
    request = parse_pod_request(pod)
    decision = decide(request, namespace, pools)
    case = AdmissionRequest(request, namespace, pools, Rules(), NO_RESERVATIONS)
    return {verdict.pool: verdict for verdict in list_verdicts(case, decision)}


def test_the_pool_that_gets_it_stands_first_and_says_what_room_it_has() -> None:
    verdicts = judge(build_pod("p", gib=4), ROOMY, BUSY)
    first, second = verdicts.values()
    assert (first.pool, first.outcome, first.reason) == ("busy", PoolOutcome.CHOSEN, None)
    assert first.message == "ranked first: it has room for 4 GiB (largest free block 16 GiB)"
    assert (second.outcome, second.reason) == (PoolOutcome.LOST, Reason.LESS_FULL)
    assert "100% of its memory is free, 25% in busy" in second.message


POD, IN_A = build_pod("p"), build_pod("p", selects={"zone": "a"})
ZONE_A = a_labelled_view("roomy", {"zone": "a"})
PLAIN = a_view("plain", "share")
PREFERRING = build_pod("p", affinity=build_preference((7, "gpushare.io/pool", "In", "roomy")))
CROWDED, EMPTIER = (
    a_view(name, room=a_room([(16, cards)], pending=100)) for name, cards in (("a", 2), ("b", 4))
)
DELETING = a_view("x", closed=Reason.POOL_DELETING)
OBSERVING = a_view("x", closed=Reason.POOL_OBSERVES)


@pytest.mark.parametrize(
    ("pod", "pool", "other", "reason", "says"),
    [
        (POD, a_view("x", priority=50), ROOMY, Reason.LOWER_PRIORITY, "is 50, roomy has 100"),
        (PREFERRING, a_view("a"), ROOMY, Reason.LESS_PREFERRED, "weights add up to 0, 7 in roomy"),
        (POD, a_view("z"), ROOMY, Reason.LATER_NAME, "equal to roomy in room, priority and fill"),
        (POD, CROWDED, EMPTIER, Reason.FULLER, "the emptiest pool"),
        (POD, a_view("x", on_request=True), ROOMY, Reason.ON_REQUEST_ONLY, "that request it"),
        (POD, DELETING, ROOMY, Reason.POOL_DELETING, "it is being deleted"),
        (POD, OBSERVING, ROOMY, Reason.POOL_OBSERVES, "reconcile is Observe"),
        (POD, a_view("x", nodes=0), ROOMY, Reason.NO_ROOM, "it has no node with usable cards yet"),
        (POD, a_view("x", room=None), ROOMY, Reason.CAPACITY_UNKNOWN, "is not known yet"),
        (IN_A, a_view("x"), ZONE_A, Reason.NODE_LABELS_UNKNOWN, "no node is known to have"),
        (IN_A, a_labelled_view("x", {"zone": "b"}), ZONE_A, Reason.EXCLUDED_BY_POD, "b, not a"),
    ],
    ids=lambda value: value.name if isinstance(value, Reason) else "",
)
def test_each_loss_has_its_sentence(
    pod: Mapping[str, Any], pool: PoolView, other: PoolView, reason: Reason, says: str
) -> None:
    lost = judge(pod, other, pool)[pool.name]
    assert lost.reason is reason
    assert says in lost.message


def test_where_no_pool_takes_it_the_first_is_told_with_its_largest_card() -> None:
    (only,) = judge(build_pod("p", gib=40), ROOMY).values()
    assert only.message.startswith("no other pool")
    assert "40 GiB (largest card 16" in only.message


def test_who_asks_for_one_pool_has_no_other_looked_at() -> None:
    verdicts = judge(build_pod("p", annotations={"gpushare.io/pool": "busy"}), ROOMY, BUSY)
    assert verdicts["busy"].message.startswith("requested by the pod's annotation")
    assert verdicts["roomy"].outcome is PoolOutcome.ASIDE
    assert verdicts["roomy"].message == "not considered: the pod requests pool busy"


def test_a_namespaces_pool_is_told_as_its() -> None:
    space = Namespace("vision", {"gpushare.io/default-pool": "busy"})
    verdicts = judge(build_pod("p"), ROOMY, BUSY, namespace=space)
    assert verdicts["busy"].message.startswith("default pool of namespace vision")
    assert verdicts["roomy"].message == "not considered: busy is the default of its namespace"


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
    assert (lost.outcome, lost.reason) == (PoolOutcome.LOST, Reason.POOL_NOT_FOUND)
    assert "did you mean roomy?" in lost.message


def test_pools_that_the_owner_selects_are_told_apart_from_the_others() -> None:
    pod = build_pod("p", selects={"ack.node.gpu.schedule": "share"})
    pools = (ROOMY, a_view("plain", "share"), a_view("late", "share", closed=Reason.POOL_DELETING))
    verdicts = judge(pod, *pools)
    assert verdicts["plain"].outcome is PoolOutcome.SELECTED
    assert verdicts["roomy"].reason is Reason.EXCLUDED_BY_POD
    assert verdicts["late"].reason is Reason.POOL_DELETING


def test_a_pod_that_opts_out_has_no_pool_looked_at() -> None:
    (verdict,) = judge(
        build_pod("p", annotations={"gpushare.io/inject": "disabled"}), BUSY
    ).values()
    assert verdict.message == "not considered (OptedOut)"
