"""Of each node of a pool, where it is, and of each of its cards, what is given out."""

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily

from gpushare.api.pod import Pod
from gpushare.core.capacity import count_used
from gpushare.observe.metrics.family import Family
from gpushare.observe.metrics.sight import Sight, SightCollector

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


class CardCollector(SightCollector):
    """One series for each node and two for each card of it: for installations that want them."""

    families = (_NODE, _TOTAL, _ALLOCATED)

    def measure(self, sight: Sight) -> Iterator[GaugeMetricFamily]:
        info: dict[tuple[str, ...], float] = {}
        total: dict[tuple[str, ...], float] = {}
        allocated: dict[tuple[str, ...], float] = {}
        pools, units = sight.find_pools(), sight.find_units()
        pods: dict[str, list[Pod]] = {}
        for pod in sight.pods.values():
            if pod.gpu_memory and pod.node in pools:
                pods.setdefault(pod.node, []).append(pod)
        for node, pool in pools.items():
            book = sight.books[pool]
            if (plan := book.plans.get(node)) is not None:
                info[pool, node, plan.state, plan.reason] = 1.0
            capacity, used = book.capacities[node], count_used(pods.get(node, ()))
            unit = units.find_bytes(node, pool)
            cards = range(capacity.gpus if capacity.total else 0)
            for card in cards:
                total[pool, node, str(card)] = capacity.card_total * unit
                allocated[pool, node, str(card)] = used.pop(card, 0) * unit
            if rest := sum(used.values()):
                total[pool, node, UNKNOWN] = 0
                allocated[pool, node, UNKNOWN] = rest * unit
        yield _NODE.fill(info)
        yield _TOTAL.fill(total)
        yield _ALLOCATED.fill(allocated)
