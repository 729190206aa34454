"""What the active controller knows, as collectors read it when they are asked.

Nothing is kept up to date that nobody reads, and a pool that is gone leaves no series behind.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from gpushare.api.pod import Pod
from gpushare.api.pool import Pool
from gpushare.core.book import Book
from gpushare.core.capacity import MIB_PER_GIB, counts_in_mib
from gpushare.observe.metrics.family import Family

MIB_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Sight:
    """The pools and pods; views of what is there, not copies."""

    pools: Collection[Pool] = ()
    books: Mapping[str, Book] = field(default_factory=dict)
    """By the pool's name; none of a pool that no pass has looked at."""
    pods: Mapping[str, Pod] = field(default_factory=dict)
    waiting: Collection[Pod] = ()
    """GPU pods that have no node, or that nobody sent to a pool."""

    def list_books(self) -> list[tuple[Pool, Book]]:
        """The pools of which something is known, by name."""
        ordered = sorted(self.pools, key=lambda pool: pool.name)
        return [(pool, self.books[pool.name]) for pool in ordered if pool.name in self.books]

    def find_pools(self) -> dict[str, str]:
        """By each node that is in a pool, that pool's name: of two, the one that acts."""
        known = sorted(self.list_books(), key=lambda entry: entry[0].acts)
        return {node: pool.name for pool, book in known for node in book.capacities}

    def find_unit_bytes(self) -> int:
        """How much one unit of the device plugins is."""
        in_mib = any(counts_in_mib(book.capacities.values()) for book in self.books.values())
        return MIB_BYTES if in_mib else MIB_BYTES * MIB_PER_GIB


Look = Callable[[], Sight]


class SightCollector(Collector):
    """Metrics that are worked out from a sight at each scrape."""

    families: tuple[Family, ...] = ()

    def __init__(self, look: Look) -> None:
        self._look = look

    def measure(self, sight: Sight) -> Iterator[GaugeMetricFamily]:
        """The metrics, one for each family."""
        raise NotImplementedError

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield from self.measure(self._look())

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """The metrics without a series, by which the registry finds names that are taken."""
        yield from self.measure(Sight())
