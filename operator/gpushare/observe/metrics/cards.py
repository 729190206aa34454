"""Of each node of a pool, where it is, and of each of its cards, what is given out."""

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily

from gpushare.api.pod import Pod
from gpushare.core.capacity import count_used
from gpushare.observe.metrics.family import Family
from gpushare.observe.metrics.sight import Sight, SightCollector

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
        pools, unit = sight.find_pools(), sight.find_unit_bytes()
        pods: dict[str, list[Pod]] = {}
        for pod in sight.pods.values():
            if pod.gpu_memory and pod.node in pools:
                pods.setdefault(pod.node, []).append(pod)
        for node, pool in pools.items():
            book = sight.books[pool]
            if (plan := book.plans.get(node)) is not None:
                info[pool, node, plan.state, plan.reason] = 1.0
            capacity, used = book.capacities[node], count_used(pods.get(node, ()))
            cards = range(capacity.gpus if capacity.total else 0)
            # An entry may name a card that the node has not; the sums count it all the same.
            for card in {*cards, *used}:
                key = (pool, node, str(card))
                total[key] = capacity.card_total * unit if card in cards else 0
                allocated[key] = used.get(card, 0) * unit
        yield _NODE.fill(info)
        yield _TOTAL.fill(total)
        yield _ALLOCATED.fill(allocated)
