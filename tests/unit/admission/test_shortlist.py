"""What is remembered for many pods decides as if it were worked out for each."""

import tracemalloc
from itertools import permutations, product
from random import Random
from typing import Any

import pytest

from gpushare import names
from gpushare.api.k8s.namespace import Namespace
from gpushare.api.k8s.pod_request import PodRequest, parse_pod_request
from gpushare.api.selector import LabelSelector
from gpushare.core.admission import score, shortlist
from gpushare.core.admission.decide import decide
from gpushare.core.admission.pool_view import PoolView
from gpushare.core.admission.request import Rules
from gpushare.core.admission.score import PoolRanker
from gpushare.core.admission.shortlist import Shortlists
from tests.kit.values.manifests import build_container, build_pod, build_preference
from tests.kit.values.pool_views import CARD, a_room, a_view

_TEAM = {"team": "a"}
_SELECTS_TEAM = LabelSelector(match_labels=_TEAM)
_PREFERS_HALF = build_preference((5, names.LABEL_POOL, "In", "cgpu-half"))
_ASKED: dict[str, tuple[dict[str, Any], ...]] = {
    "gib": ({"gib": 3}, {"gib": 12}),
    "core": ({}, {"core": 20}),
    "isolation": (
        {},
        {"annotations": {names.ANNOTATION_ISOLATION: names.ISOLATION_REQUIRED}},
        {"annotations": {names.ANNOTATION_ISOLATION: names.ISOLATION_NONE}},
    ),
    "env": ({}, {"env": {names.ENV_CGPU_DISABLE: "true"}}),
    "labels": (
        {},
        {"labels": _TEAM},
        {"labels": {names.LABEL_CARD_COUNT: "2"}},
        {"labels": {names.LABEL_CARD_PLACEMENT: names.REQUIRE_WHOLE_DEVICE}},
    ),
    "init": ({}, {"initContainers": [build_container(memory="12")]}),
    "selects": ({}, {"selects": {"zone": "b"}}),
    "prefers": ({}, {"affinity": _PREFERS_HALF}),
}
"""What pods differ by, as far as the choice depends on it."""


def _list_pods() -> list[PodRequest]:
    kinds = (
        {k: v for part in parts for k, v in part.items()} for parts in product(*_ASKED.values())
    )
    return [parse_pod_request(build_pod("train", **kind)) for kind in kinds]


def _list_pools() -> tuple[PoolView, ...]:
    return (
        a_view("cgpu", "cgpu", priority=50),
        a_view("cgpu-half", "cgpu", room=a_room([(8, 8)])),
        a_view("cgpu-team", "cgpu", pod_selector=_SELECTS_TEAM),
        a_view("core", "core_mem", namespace_selector=_SELECTS_TEAM),
        a_view("on-request", "cgpu", on_request=True),
        a_view("share", "share", room=a_room([(CARD, 2)], pending=20)),
        a_view("share-zone", "share", node_labels={"zone": ("a",)}),
        a_view("basic", "share", edition="Basic", room=a_room([(8, 8)])),
        a_view("share-unknown", "share", nodes=None, room=None),
    )


@pytest.mark.parametrize("without", ["", "cgpu-team"])
def test_many_pods_in_any_order_are_decided_as_each_by_itself(without: str) -> None:
    random, pods, shortlists = Random(without), _list_pods(), Shortlists()
    # Where no pool selects pods, their labels are not told apart.
    pools = tuple(pool for pool in _list_pools() if pool.name != without)
    namespaces = [Namespace("default"), Namespace("team", _TEAM)]
    for pod in random.choices(pods, k=2000):
        reserved = {pool.name: random.choice((0, 5, 40)) for pool in random.sample(pools, 2)}
        asked = (pod, random.choice(namespaces), pools, Rules(), reserved)
        assert decide(*asked, shortlists) == decide(*asked)


def _choose(shortlists: Shortlists, pools: tuple[PoolView, ...], **labels: str) -> str | None:
    pod = parse_pod_request(build_pod("train"))
    return decide(pod, Namespace("default", labels), pools, shortlists=shortlists).pool


def test_a_pool_that_changed_is_looked_at_anew() -> None:
    shortlists, other = Shortlists(), a_view("other", priority=50)
    assert _choose(shortlists, (other, a_view("better"))) == "better"
    assert _choose(shortlists, (other, a_view("better", nodes=0))) == "other"


def test_a_namespace_that_changed_is_looked_at_anew() -> None:
    shortlists, pools = Shortlists(), (a_view("team", namespace_selector=_SELECTS_TEAM),)
    assert _choose(shortlists, pools) is None
    assert _choose(shortlists, pools, team="a") == "team"


def test_only_so_much_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortlist, "MOST_REMEMBERED", 3 * (score.MOST_RANKINGS + 2))
    shortlists, pools = Shortlists(), (a_view("one"), a_view("two"))
    for gib in range(1, 9):
        pod = parse_pod_request(build_pod("train", gib=gib))
        decide(pod, Namespace("default"), pools, shortlists=shortlists)
        assert len(shortlists._by_kind) <= 3


def test_of_one_kind_only_so_many_outcomes_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score, "MOST_RANKINGS", 2)
    pools = [a_view(name) for name in ("one", "two", "three")]
    ranker = PoolRanker(parse_pod_request(build_pod("train")), pools)
    taken = [dict.fromkeys(pair, 9999) for pair in permutations(ranker._fits, 2)]
    chosen = {ranker.find_best(reserved).pool.name for reserved in taken}
    assert chosen == {"one", "two", "three"}
    assert len(ranker._rankings) <= 2


def test_nothing_is_kept_that_a_pods_creator_wrote() -> None:
    shortlists, pools = Shortlists(), (a_view("one"), a_view("two", pod_selector=_SELECTS_TEAM))
    long = 2**20
    tracemalloc.start()
    for number in range(20):
        text = f"{number}" * long
        annotations = {names.ANNOTATION_ISOLATION: text, names.ANNOTATION_POOL: ""}
        raw = build_pod("train", gib=number, annotations=annotations, labels={"app": text})
        decide(parse_pod_request(raw), Namespace("default"), pools, shortlists=shortlists)
    del raw, text, annotations
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < long
