"""What the active controller knows, as collectors read it when they are asked.

Nothing is kept up to date that nobody reads, and a pool that is gone leaves no series behind.
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from gpushare.api.pod import Pod
from gpushare.api.pool import Pool
from gpushare.core.book import Book
from gpushare.core.capacity import MIB_PER_UNIT, find_unit
from gpushare.core.unplaced import UnplacedPod
from gpushare.observe.metrics.family import Family

MIB_BYTES = 2**20
UNIT_BYTES = {unit: mib * MIB_BYTES for unit, mib in MIB_PER_UNIT.items()}


@dataclass(frozen=True, slots=True)
class Units:
    """What the device plugins count in: each node's own, which is meant to be that of all."""

    nodes: Mapping[str, str]
    pools: Mapping[str, str]
    """That of most nodes of a pool."""
    usual: str
    """That of most nodes."""

    def find_bytes(self, node: str, pool: str) -> int:
        """How much one unit is on a node, or, where that is in no pool, what waits for `pool`."""
        return UNIT_BYTES[self.nodes.get(node) or self.pools.get(pool, self.usual)]


@dataclass(frozen=True, slots=True)
class Sight:
    """The pools and pods; views of what is there, not copies."""

    pools: Collection[Pool] = ()
    books: Mapping[str, Book] = field(default_factory=dict)
    """By the pool's name; none of a pool that no pass has looked at."""
    pods: Mapping[str, Pod] = field(default_factory=dict)
    waiting: Collection[Pod] = ()
    """GPU pods that have no node, or that nobody sent to a pool."""
    unplaced: Collection[UnplacedPod] = ()
    """Those of them that were judged, with why."""

    def list_books(self) -> list[tuple[Pool, Book]]:
        """The pools of which something is known, by name."""
        ordered = sorted(self.pools, key=lambda pool: pool.name)
        return [(pool, self.books[pool.name]) for pool in ordered if pool.name in self.books]

    def find_pools(self) -> dict[str, str]:
        """By each node that is in a pool, that pool's name: of two, the one that acts."""
        known = sorted(self.list_books(), key=lambda entry: entry[0].acts)
        return {node: pool.name for pool, book in known for node in book.capacities}

    def find_units(self) -> Units:
        """What the device plugins count in."""
        nodes: dict[str, str] = {}
        pools: dict[str, str] = {}
        for name, book in self.books.items():
            pools[name] = usual = find_unit(book.capacities.values())
            nodes |= {n: each.find_unit(usual) for n, each in book.capacities.items()}
        every = (each for book in self.books.values() for each in book.capacities.values())
        return Units(nodes, pools, find_unit(every))


Look = Callable[[], Sight]


class SightCollector(Collector):
    """Metrics that are worked out from a sight at each scrape."""

    families: tuple[Family, ...] = ()

    def __init__(self, look: Look) -> None:
        self._look = look

    @abstractmethod
    def measure(self, sight: Sight) -> Iterator[GaugeMetricFamily]:
        """The metrics, one for each family."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield from self.measure(self._look())

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """The metrics without a series, by which the registry finds names that are taken."""
        yield from self.measure(Sight())
