"""Which card a simulated pod gets: the rules of the editions' schedulers."""

import pytest

from gpushare import names
from gpushare.analysis.placement.place import place_pods
from tests.kit.values.manifests import build_pod, build_whole_card_pod
from tests.kit.values.objects import a_pool
from tests.kit.values.placements import (
    a_filled_pool,
    a_member,
    a_placement_cluster,
    a_queue,
    a_queued,
    list_cards,
    list_pending,
    parse_queued,
)

EXTENDED = pytest.mark.parametrize("edition", ["Basic", "OpenSource"])


@EXTENDED
def test_the_extender_takes_the_card_with_the_least_sufficient_memory(edition: str) -> None:
    filled = a_filled_pool(9, 3, 5, 6, schedule="share", edition=edition, cards=2)
    assert list_cards(filled) == [{0: 9}, {0: 3}, {1: 5}, {1: 6}]


@EXTENDED
def test_of_equal_cards_the_extender_takes_the_lowest(edition: str) -> None:
    filled = a_filled_pool(15, 15, schedule="share", edition=edition, cards=3)
    assert list_cards(filled) == [{0: 15}, {1: 15}]


def test_a_professional_node_fills_its_cards_one_by_one_without_a_placement() -> None:
    assert list_cards(a_filled_pool(4, 4, cards=2)) == [{0: 4}, {0: 4}]


def test_a_professional_node_with_placement_spread_takes_the_emptiest_card() -> None:
    filled = a_filled_pool(4, 4, 2, cards=2, placement="spread")
    assert list_cards(filled) == [{0: 4}, {1: 4}, {0: 2}]


def test_the_label_of_the_card_count_spreads_a_professional_pod_evenly() -> None:
    pool = a_pool()
    cluster = a_placement_cluster([a_member("n", pool, cards=2)], pool)
    pair = a_queued(gib=10, labels={names.LABEL_CARD_COUNT: "2"})
    assert list_cards(place_pods(cluster, [pair])) == [{0: 5, 1: 5}]


def test_a_card_count_that_does_not_divide_the_memory_keeps_the_pod_pending() -> None:
    pool = a_pool()
    cluster = a_placement_cluster([a_member("n", pool, cards=2)], pool)
    odd = a_queued(gib=5, labels={names.LABEL_CARD_COUNT: "2"})
    (placed,) = place_pods(cluster, [odd]).pods
    assert placed.cause is not None
    assert "does not divide" in placed.cause.message


def test_a_pod_that_wants_a_whole_card_gets_only_an_empty_one() -> None:
    pool = a_pool()
    cluster = a_placement_cluster([a_member("n", pool, cards=2)], pool)
    label = {names.LABEL_CARD_PLACEMENT: names.REQUIRE_WHOLE_DEVICE}
    queue = [a_queued("first", gib=4), a_queued("whole", gib=4, labels=label)]
    assert list_cards(place_pods(cluster, queue)) == [{0: 4}, {1: 4}]


def test_a_card_of_cgpu_takes_20_pods_whatever_memory_is_left() -> None:
    filled = a_filled_pool(*[1] * 22, card=80)
    assert list_pending(filled) == ["p20", "p21"]
    assert filled.pods[-1].cause is not None
    assert "20 pods" in filled.pods[-1].cause.message


def test_a_card_without_isolation_takes_any_number_of_pods() -> None:
    assert list_pending(a_filled_pool(*[1] * 22, card=80, schedule="share")) == []


def test_no_pod_gets_an_unhealthy_card() -> None:
    pool = a_pool()
    node = a_member("n", pool, cards=2)
    cluster = a_placement_cluster([node], pool, unhealthy={"n": {0}})
    assert list_cards(place_pods(cluster, a_queue(4))) == [{1: 4}]


def test_the_extender_never_binds_a_pod_whose_init_container_alone_asks() -> None:
    pool = a_pool(edition="Basic")
    cluster = a_placement_cluster([a_member("n", pool)], pool)
    pod = build_pod("p")
    pod["spec"]["initContainers"] = [pod["spec"]["containers"][0]]
    pod["spec"]["containers"] = [{"name": "idle"}]
    (placed,) = place_pods(cluster, [parse_queued(pod)]).pods
    assert placed.cause is not None
    assert placed.cause.reason == "NoContainerAsks"


def test_both_ledgers_count_a_sidecar() -> None:
    """The extender counts 2 units of the card, kube-scheduler 5 of the node."""
    pool = a_pool(schedule="share", edition="Basic")
    cluster = a_placement_cluster([a_member("n", pool, card=8)], pool)
    pod = build_pod("first", gib=2)
    sidecar = build_pod("sidecar", gib=3)["spec"]["containers"][0] | {"restartPolicy": "Always"}
    pod["spec"]["initContainers"] = [sidecar]
    placed = place_pods(cluster, [parse_queued(pod), *a_queue(4, 3)])
    assert list_cards(placed) == [{0: 2}, None, {0: 3}]


def test_whole_cards_are_placed_by_their_number() -> None:
    pool = a_pool(schedule="default")
    cluster = a_placement_cluster([a_member("n", pool, cards=4)], pool)
    queue = [
        parse_queued(
            build_whole_card_pod(name, cards=n, annotations={names.ANNOTATION_POOL: "training"})
        )
        for name, n in (("a", 3), ("b", 2), ("c", 1))
    ]
    placed = place_pods(cluster, queue)
    assert list_pending(placed) == ["b"]
    assert placed.pools[0].resources == {"nvidia.com/gpu": (4, 4)}
