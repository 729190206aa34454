"""Finds how much memory the card has that a pod would get."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpushare import names
from gpushare.analysis.migration.finding import MigrationCode, MigrationFinding
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.node_selection import CHOOSING, NodeSelection
from gpushare.core.capacity.card_memory import read_card_memory
from gpushare.core.capacity.node_capacity import MIB_PER_GIB


@dataclass(frozen=True, slots=True)
class CardNode:
    """A node with GPUs; all of its cards count as equal, as they do for the device plugin."""

    name: str
    labels: Mapping[str, str]
    memory: int | None
    """Memory of one card in the plugin's unit; None where it is unknown."""


@dataclass(frozen=True, slots=True)
class Cards:
    """The cards of a cluster."""

    nodes: tuple[CardNode, ...] = ()
    per_gib: int = 1
    """The device plugin's units in a GiB."""
    memory_everywhere: int | None = None
    """Memory that the user says each card has, on all nodes."""

    @property
    def unit(self) -> str:
        return "GiB" if self.per_gib == 1 else "MiB"

    def find_memory(self, selection: NodeSelection) -> int | MigrationFinding:
        """Find the memory of each card that a pod with this selection may get; else why that is
        unknown."""
        if self.memory_everywhere is not None:
            return self.memory_everywhere
        nodes = self._list_nodes(selection)
        for node in nodes:
            if node.memory is None:
                message = (
                    f"Node {node.name} does not report the memory of its cards, neither by "
                    f"{names.RESOURCE_GPU_MEMORY} nor by label {names.LABEL_CARD_MEMORY}. Use "
                    "--card-memory-gib"
                )
                return MigrationFinding(MigrationCode.CARD_MEMORY_UNKNOWN, message)
        sizes = Counter(node.memory for node in nodes if node.memory is not None)
        if not sizes:
            message = "No GPU node has the labels that the pod selects. Use --card-memory-gib"
            return MigrationFinding(MigrationCode.NO_GPU_NODE, message)
        if len(sizes) > 1:
            counts = sorted(sizes.items())
            shown = " and ".join(f"{size} {self.unit} ({count})" for size, count in counts)
            message = (
                f"The pod may run on nodes with cards of {shown}. Select one kind of node, or use "
                "--share"
            )
            return MigrationFinding(MigrationCode.CARDS_DIFFER, message)
        return next(iter(sizes))

    def find_largest(self, selection: NodeSelection) -> int | None:
        """Find the memory of the largest card that it may get; None where a card's is unknown."""
        if self.memory_everywhere is not None:
            return self.memory_everywhere
        known = [node.memory for node in self._list_nodes(selection)]
        return None if None in known else max((size for size in known if size), default=None)

    def has_node(self, selection: NodeSelection) -> bool:
        """Tell whether a node has all that is selected, a mode too."""
        return any(selection.admits(node.name, node.labels) for node in self.nodes)

    def _list_nodes(self, selection: NodeSelection) -> list[CardNode]:
        """List the nodes in the mode that is selected; where none is in it yet, in any."""
        for ignored in (frozenset[str](), CHOOSING):
            found = [n for n in self.nodes if selection.admits(n.name, n.labels, ignored)]
            if found:
                return found
        return []


def observe_cards(nodes: Iterable[Node], unit: str) -> Cards:
    """Read the cards of these nodes; pods ask in `unit`, which is one for the whole cluster."""
    per_gib = MIB_PER_GIB if unit == "MiB" else 1
    return Cards(
        tuple(
            CardNode(node.name, node.labels, read_card_memory(node, unit))
            for node in nodes
            if node.has_gpus and not node.offers_mig
        ),
        per_gib,
    )
