"""The card-level scheduler: ledger, fit, card choice; and what its open-source extender remembers,
as that one (c0b6141), faults included."""

import json
from dataclasses import replace
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from devcluster import names
from devcluster.apiobject import Object
from devcluster.simulator.cards import NO_CARD, NOT_MATCHED, Card, choose_cards, count_cards
from devcluster.simulator.extender import Extender
from devcluster.simulator.extendercache import INT_MAX, ExtenderCache, NodeInfo, parse_int
from devcluster.simulator.ledger import build_entry
from devcluster.simulator.objects import Container, Node, Pod

SCHEDULE = "ack.node.gpu.schedule"
SHARED = {names.GPU_MEM: "30", names.GPU_COUNT: "2"}
BASIC = Node(
    "n1", labels={"cgpu": "true"}, annotations={names.CARD_MEMORY_GIB: "15"}, capacity=SHARED
)
PROFESSIONAL = Node("n1", labels={SCHEDULE: "cgpu"}, capacity=SHARED)
SPREAD = Node("n1", labels={SCHEDULE: "cgpu", names.PLACEMENT: "spread"}, capacity=SHARED)


def pod(memory: int, *, core: int = 0, **fields: Any) -> Pod:
    limits = {names.GPU_MEM: memory} | ({names.GPU_CORE: core} if core else {})
    return Pod("uid", "p", containers=(Container("main", limits),), **fields)


def test_spread_takes_the_emptiest_card_on_professional_nodes_only() -> None:
    cards = (Card(0, 15, 5), Card(1, 15))
    assert choose_cards(pod(3), SPREAD, cards) == (1,)
    basic = Node("n1", labels={"cgpu": "true", names.PLACEMENT: "spread"})
    assert choose_cards(pod(3), basic, cards) == (0,)


def test_a_core_mem_node_refuses_a_pod_that_asks_for_memory_only() -> None:
    node = Node("n1", labels={SCHEDULE: "core_mem"}, capacity=SHARED)
    assert choose_cards(pod(3), node, count_cards(node, [])) == NOT_MATCHED
    assert choose_cards(pod(3, core=60), node, (Card(0, 15, 3, 60), Card(1, 15))) == (1,)


def test_a_professional_pod_can_be_spread_evenly_over_cards() -> None:
    two = pod(8, labels={names.GPU_COUNT: "2"})
    assert choose_cards(two, PROFESSIONAL, (Card(0, 15), Card(1, 15))) == (0, 1)
    assert choose_cards(two, PROFESSIONAL, (Card(0, 15, 12), Card(1, 15))) == NO_CARD
    odd = pod(7, labels={names.GPU_COUNT: "2"})
    assert "cannot be divided" in str(choose_cards(odd, PROFESSIONAL, (Card(0, 15), Card(1, 15))))


@pytest.mark.parametrize(
    ("text", "number"),
    [("0" * 30 + "1", 1), ("-0", 0), ("9" * 5000, INT_MAX), ("-" + "9" * 19, -INT_MAX)],
)
def test_a_number_is_read_as_the_extender_reads_it_however_long_it_is(
    text: str, number: int
) -> None:
    assert parse_int(text) == number


def test_the_older_ledger_names_card_units_and_time() -> None:
    assert build_entry(pod(3), BASIC, [1], 7.0) == {
        names.MEM_IDX: "1",
        names.MEM_DEV: "15",
        names.MEM_POD: "3",
        names.MEM_ASSIGNED: "false",
        names.MEM_ASSUME_TIME: "7000000000",
    }


def test_professionals_ledger_names_units_by_container_and_card() -> None:
    entry = build_entry(pod(8, core=50), PROFESSIONAL, [0, 1], 7.0)
    assert json.loads(entry[names.ALLOCATION]) == {"0": {"0": 4, "1": 4}}
    assert json.loads(entry[names.CORE_PERCENTAGE]) == {"0": {"0": 25, "1": 25}}
    assert (entry[names.ASSIGNED], entry[names.ASSUME_TIME]) == ("false", "7000000000")


NODE = Node("n1", capacity={names.GPU_COUNT: "1", names.GPU_MEM: "15"})


def test_a_card_that_is_given_out_twice_has_almost_infinitely_much_free() -> None:
    cache = ExtenderCache(lambda name: NODE, lambda name: None)
    taken = {names.MEM_IDX: "0", names.MEM_POD: "18"}
    cache.take(None, pod(18, node="n1", annotations=taken))
    assert cache.choose(pod(15, node="n1"), cache.nodes["n1"]) == 0


@pytest.mark.parametrize(("there", "chosen"), [(["uid"], NO_CARD), ([], (0,))])
async def test_after_a_restart_a_pod_counts_that_the_api_server_still_has(
    there: list[str], chosen: tuple[int, ...] | str
) -> None:
    """The player's own watch may be behind: it is waited for."""
    taken = {names.MEM_IDX: "0", names.MEM_POD: "15"}
    bound = pod(15, node="n1", annotations=taken)
    seen = [bound]
    cluster = Mock(find_node={"n1": NODE}.get, find_unhealthy=lambda name: None)
    cluster.bound_pods.side_effect = lambda: list(seen)
    cluster.node_uids.return_value = set()

    async def list_objects(path: str, params: object) -> tuple[list[Object], int]:
        seen[:] = seen[: len(there)]
        return [{"metadata": {"uid": uid}} for uid in there], 1

    extender = Extender(Mock(list=list_objects), Mock(cluster=cluster))
    await extender.restart()
    assert extender._choose(pod(15, node="n1"), "n1") == chosen


async def test_cards_are_counted_with_the_memory_that_the_scheduler_saw_before_the_player() -> None:
    nodes = {"n1": replace(NODE, capacity={names.GPU_COUNT: "1"})}
    cluster = Mock(find_node=nodes.get, find_unhealthy=lambda name: None)
    cluster.bound_pods.return_value = ()
    cluster.nodes.overlay.side_effect = lambda raw: nodes.update(n1=NODE)
    extender = Extender(Mock(get=AsyncMock()), Mock(cluster=cluster))
    assert await extender._refuse(pod(15), "n1") == ""


def test_a_node_that_is_gone_is_still_listed() -> None:
    there = {"n1": NODE}
    cache = ExtenderCache(there.get, lambda name: None)
    assert isinstance(cache.find("n1"), NodeInfo)
    there.clear()
    assert cache.find("n1") is None
    assert list(cache.nodes) == ["n1"]
