"""Of each pool: where its nodes are, what its containers have, what its cards hold."""

from collections import Counter
from collections.abc import Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from gpushare.core.snapshot.actions import NodeState
from gpushare.core.status.unschedulable_pods import REASONS
from gpushare.observe.metrics.family import Family
from gpushare.observe.metrics.figures import UNIT_BYTES, PoolFigures
from gpushare.observe.metrics.sight import Look, Sight

_INFO = Family(
    "pool_info",
    "1 for each pool, with its mode; an empty placement is not the pool's.",
    ("pool", "edition", "schedule", "placement"),
)
_NODES = Family(
    "pool_nodes",
    "Nodes that a pool claims, by state; one that two pools claim is counted in both.",
    ("pool", "state"),
)
_CONFLICTING = Family(
    "pool_conflicting_nodes",
    "Members of a pool on which somebody else keeps changing one of its labels.",
    ("pool",),
)
_CONTAINERS = Family(
    "pool_containers",
    "Containers that share a pool's cards: isolated, shared (not isolated), or unknown.",
    ("pool", "isolation"),
)
_STALE = Family(
    "pool_stale_containers",
    "Containers whose isolation is not what their node's mode gives.",
    ("pool",),
)
_OPTED_OUT = Family(
    "pool_opted_out_containers",
    "Containers that take isolation off themselves, on nodes whose mode isolates.",
    ("pool",),
)
_GPUS = Family("pool_gpus", "Cards of a pool.", ("pool",))
_TOTAL = Family("pool_memory_bytes", "GPU memory that a pool's nodes offer to share.", ("pool",))
_ALLOCATED = Family(
    "pool_memory_allocated_bytes",
    "GPU memory of a pool that is given out, by the GPU scheduler's ledger.",
    ("pool",),
)
_REQUESTED = Family(
    "pool_memory_requested_bytes",
    "GPU memory that pods on a pool's nodes ask for, and pods that wait for one of them.",
    ("pool",),
)
_LARGEST = Family(
    "pool_memory_largest_free_block_bytes",
    "The most that any one card has free, on a node that takes pods.",
    ("pool",),
)
_STRANDED = Family(
    "pool_memory_stranded_bytes",
    "Free GPU memory on cards that have less of it than the pool's median pod asks of one.",
    ("pool",),
)

_UNSCHEDULABLE = Family(
    "unschedulable_pods",
    "GPU pods that were sent to no pool or have no node, by the pool that they are for. Each is "
    "counted within 5 seconds.",
    ("pool", "reason"),
)


class PoolCollector(Collector):
    """A few dozen series for each pool, whatever its size."""

    families = (
        *(_INFO, _NODES, _CONFLICTING, _CONTAINERS, _STALE, _OPTED_OUT),
        *(_GPUS, _TOTAL, _ALLOCATED, _REQUESTED, _LARGEST, _STRANDED, _UNSCHEDULABLE),
    )

    def __init__(self, look: Look) -> None:
        self._look = look

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The metrics, one for each family."""
        yield from _measure(self._look())

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """The metrics without a series, by which the registry finds names that are taken."""
        yield from _measure(Sight())


def _measure(sight: Sight) -> Iterator[GaugeMetricFamily]:
    known = sight.list_books()
    yield _INFO.fill(
        {(p.name, p.spec.edition, p.spec.schedule, p.spec.placement or ""): 1.0 for p, _ in known}
    )
    books = {pool.name: book for pool, book in known}
    yield _NODES.fill(
        {(name, s): book.counts[s] for name, book in books.items() for s in NodeState}
    )
    yield _CONFLICTING.fill({(name,): len(book.conflicting) for name, book in books.items()})
    figures = {name: sight.figures.pools.get(name, PoolFigures()) for name in books}
    yield from _measure_isolation(figures)
    yield from _measure_memory(figures)
    yield _UNSCHEDULABLE.fill(_count_unschedulable(sight))


def _measure_isolation(pools: Mapping[str, PoolFigures]) -> Iterator[GaugeMetricFamily]:
    yield _CONTAINERS.fill(
        {(name, kind): n for name, sums in pools.items() for kind, n in _split(sums).items()}
    )
    yield _STALE.fill({(name,): sums.stale for name, sums in pools.items()})
    yield _OPTED_OUT.fill({(name,): sums.opted_out for name, sums in pools.items()})


def _count_unschedulable(sight: Sight) -> Counter[tuple[str, ...]]:
    """By pool and reason; without pool there is a number for each reason, be it 0."""
    counts: Counter[tuple[str, ...]] = Counter()
    if sight.pools:
        counts.update({("", reason): 0 for reason in REASONS})
    counts.update((pod.pool, pod.reason) for pod in sight.unschedulable)
    return counts


def _split(sums: PoolFigures) -> dict[str, int]:
    shared = sums.containers - sums.isolated - sums.unknown
    return {"isolated": sums.isolated, "shared": shared, "unknown": sums.unknown}


def _measure_memory(pools: Mapping[str, PoolFigures]) -> Iterator[GaugeMetricFamily]:
    sums = {name: figures.memory.sum_up() for name, figures in pools.items()}
    units = {name: UNIT_BYTES[memory.unit] for name, memory in sums.items()}
    yield _GPUS.fill({(name,): memory.gpus for name, memory in sums.items()})
    yield _TOTAL.fill({(name,): memory.total * units[name] for name, memory in sums.items()})
    yield _ALLOCATED.fill(
        {(name,): memory.allocated * units[name] for name, memory in sums.items()}
    )
    yield _REQUESTED.fill(
        {(name,): memory.requested * units[name] for name, memory in sums.items()}
    )
    yield _LARGEST.fill(
        {(name,): memory.largest_free * units[name] for name, memory in sums.items()}
    )
    yield _STRANDED.fill({(name,): memory.stranded * units[name] for name, memory in sums.items()})
