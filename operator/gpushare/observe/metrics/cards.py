"""Reports the state of each node of a pool, and the allocated memory of each of its cards."""

from collections.abc import Iterator

from gpushare.observe.metrics.family import Family
from gpushare.observe.metrics.figures import Figures

UNKNOWN = "unknown"
"""Value of the label `card` for all cards of a node that only the ledger has: a pod's annotation
may name any number of them, and each would be a series. The sums count them too."""
_CARD = ("pool", "node", "card")
_NODE = Family(
    "node_info",
    "1 for each member of a pool, with its state and reason.",
    ("pool", "node", "state", "reason"),
)
_TOTAL = Family("card_memory_bytes", "GPU memory that a card offers to share.", _CARD)
_ALLOCATED = Family(
    "card_memory_allocated_bytes",
    "GPU memory of a card that is allocated, by the GPU scheduler's ledger.",
    _CARD,
)
FAMILIES = (_NODE, _TOTAL, _ALLOCATED)


def write_cards(figures: Figures) -> Iterator[str]:
    """Write one series for each node and two for each of its cards, as text.

    All values of labels are names, which need no escapes.
    """
    nodes, totals, allocated = [_NODE.head], [_TOTAL.head], [_ALLOCATED.head]
    for node, (pool, capacity, _, plan) in figures.members.items():
        where, used = f'{{pool="{pool}",node="{node}",', capacity.used
        if plan is not None:
            says = f'state="{plan.state}",reason="{plan.reason}"'
            nodes.append(f"{_NODE.full_name}{where}{says}}} 1\n")
        cards = range(capacity.gpus if capacity.total else 0)
        size = figures.find_bytes(pool, capacity.unit) if cards or used else 0
        rows = [(str(card), capacity.card_total, used.get(card, 0)) for card in cards]
        if rest := sum(units for card, units in used.items() if card not in cards):
            rows.append((UNKNOWN, 0, rest))
        for card, total, units in rows:
            totals.append(f'{_TOTAL.full_name}{where}card="{card}"}} {total * size}\n')
            allocated.append(f'{_ALLOCATED.full_name}{where}card="{card}"}} {units * size}\n')
    for lines in (nodes, totals, allocated):
        yield from lines
