"""Of each node of a pool, where it is, and of each of its cards, what is given out."""

from collections.abc import Callable, Iterator

from gpushare.core.capacity.pool_capacity import NodeCapacity
from gpushare.core.snapshot.actions import StepResult
from gpushare.observe.metrics.family import Family

UNKNOWN = "unknown"
"""All cards of a node that only the ledger knows, as one: whoever may write a pod may name in its
entry as many as they like, and each would be a series. The sums count them all the same."""
_CARD = ("pool", "node", "card")
_NODE = Family(
    "node_info",
    "1 for each member of a pool, with its state and the reason for that.",
    ("pool", "node", "state", "reason"),
)
_TOTAL = Family("card_memory_bytes", "GPU memory that a card offers to share.", _CARD)
_ALLOCATED = Family(
    "card_memory_allocated_bytes",
    "GPU memory of a card that is given out, by the GPU scheduler's ledger.",
    _CARD,
)


class CardFigures:
    """One series for each node and two for each card of it: for installations that want them.

    They are kept as text: a node changes less often than it is told of. All that the labels say
    are names, which need no escapes.
    """

    families = (_NODE, _TOTAL, _ALLOCATED)

    def __init__(self, find_bytes: Callable[[str, str], int]) -> None:
        self._find_bytes = find_bytes
        self._nodes: dict[str, str] = {}
        self._totals: dict[str, str] = {}
        self._allocated: dict[str, str] = {}
        self._bare: dict[str, tuple[str, NodeCapacity]] = {}
        """Nodes that offer no memory, and whose pods hold some: the others' unit is theirs."""

    def put(self, node: str, pool: str, capacity: NodeCapacity, plan: StepResult | None) -> None:
        """Take in what a node in `pool` is now."""
        where = f'{{pool="{pool}",node="{node}",'
        says = f'{where}state="{plan.state}",reason="{plan.reason}"}} 1\n' if plan else ""
        self._nodes[node] = says and _NODE.full_name + says
        self._bare.pop(node, None)
        if capacity.used and not capacity.unit:
            self._bare[node] = (pool, capacity)
        self._write_cards(node, pool, capacity)

    def remove(self, node: str) -> None:
        """The node is in no pool any more."""
        for lines in (self._nodes, self._totals, self._allocated, self._bare):
            lines.pop(node, None)

    def write(self) -> Iterator[str]:
        """The metrics as text."""
        for node, (pool, capacity) in self._bare.items():
            self._write_cards(node, pool, capacity)
        for family, lines in zip(
            self.families, (self._nodes, self._totals, self._allocated), strict=True
        ):
            yield family.head
            yield from lines.values()

    def _write_cards(self, node: str, pool: str, capacity: NodeCapacity) -> None:
        size = self._find_bytes(pool, capacity.unit)
        where, used = f'{{pool="{pool}",node="{node}",card="', capacity.used
        cards = range(capacity.gpus if capacity.total else 0)
        end, total = f'"}} {capacity.card_total * size}\n', f"{_TOTAL.full_name}{where}"
        totals = [f"{total}{card}{end}" for card in cards]
        held = f"{_ALLOCATED.full_name}{where}"
        allocated = [f'{held}{card}"}} {used.get(card, 0) * size}\n' for card in cards]
        if rest := sum([units for card, units in used.items() if card not in cards]):
            totals.append(f'{total}{UNKNOWN}"}} 0\n')
            allocated.append(f'{held}{UNKNOWN}"}} {rest * size}\n')
        self._totals[node], self._allocated[node] = "".join(totals), "".join(allocated)
