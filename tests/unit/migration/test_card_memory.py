"""How much memory the card has that a pod would get; never a guess."""

from typing import Any

import pytest

from gpushare.analysis.migration.cards import Cards
from gpushare.analysis.migration.finding import MigrationCode, MigrationFinding
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.node_selection import ANYWHERE, NodeSelection
from tests.unit.migration.whole_card_pods import MEMORY, a_card_node, see_cards

SMALL = a_card_node("small", 15109, labels={"card": "T4"})
LARGE = a_card_node("large", 32510, labels={"card": "V100"})


def code_of(cards: Cards, selection: NodeSelection = ANYWHERE) -> MigrationCode:
    found = cards.find_memory(selection)
    assert isinstance(found, MigrationFinding)
    return found.code


NODES: dict[str, tuple[Node, int | None]] = {
    "its label": (a_card_node("n", 15109), 14),
    "its label for several cards": (a_card_node("n", 16280, cards=4), 15),
    "nothing": (a_card_node("n", None), None),
    "NVIDIA's label": (a_card_node("n", None, labels={"nvidia.com/gpu.memory": "15109"}), 14),
    "its plugin before its label": (a_card_node("n", 16280, cards=2, offers={MEMORY: 28}), 14),
    "its label while its plugin restarts": (a_card_node("n", 16280, offers={MEMORY: 0}), 15),
    "its plugin in MiB": (a_card_node("n", 16280, offers={MEMORY: 16280}), 15),
}


@pytest.mark.parametrize(("node", "gib"), NODES.values(), ids=NODES)
def test_a_node_tells_its_cards_memory(node: Node, gib: int | None) -> None:
    cards = see_cards(node)
    assert (cards.nodes[0].memory, cards.unit) == (gib, "GiB")


def test_nodes_without_cards_and_with_mig_are_left_out() -> None:
    mig = a_card_node("mig", 40536, offers={"nvidia.com/mig-1g.5gb": 7})
    plain = Node("plain", "uid")
    assert see_cards(mig, plain).nodes == ()


@pytest.mark.parametrize(("card", "gib"), [("T4", 14), ("V100", 31)])
def test_the_selection_decides_among_cards_that_differ(card: str, gib: int) -> None:
    assert see_cards(SMALL, LARGE).find_memory(NodeSelection({"card": card})) == gib


def test_a_card_that_nobody_knows_is_no_answer() -> None:
    cards = see_cards(SMALL, a_card_node("dark", None))
    found = cards.find_memory(ANYWHERE)
    assert isinstance(found, MigrationFinding)
    assert found.code is MigrationCode.CARD_MEMORY_UNKNOWN
    assert "Node dark" in found.message


def test_labels_that_no_node_has_are_no_answer() -> None:
    assert code_of(see_cards(SMALL), NodeSelection({"card": "A10"})) is MigrationCode.NO_GPU_NODE


def test_a_mode_decides_once_nodes_are_in_it_and_not_before() -> None:
    shared: Any = {"ack.node.gpu.schedule": "share"}
    selection = NodeSelection(shared)
    inside = a_card_node("inside", 15109, labels=shared)
    assert see_cards(inside, LARGE).find_memory(selection) == 14
    assert see_cards(SMALL).find_memory(selection) == 14
    assert code_of(see_cards(SMALL, LARGE), selection) is MigrationCode.CARDS_DIFFER
