"""What the active controller knows, as collectors read it when they are asked.

A pool that is gone leaves no series behind.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from gpushare.api.pool import Pool
from gpushare.core.planner.pool_state import Book
from gpushare.core.status.unschedulable_pods import UnschedulablePod
from gpushare.observe.metrics.figures import Figures


@dataclass(frozen=True, slots=True)
class Sight:
    """The pools, and the figures of what is in them; views of what is there, not copies."""

    pools: Collection[Pool] = ()
    books: Mapping[str, Book] = field(default_factory=dict)
    """By the pool's name; none of a pool that no pass has looked at."""
    unschedulable: Collection[UnschedulablePod] = ()
    """The pods without a place that were judged, with why."""
    figures: Figures = field(default_factory=Figures)
    """Of nothing in a process that stands by."""

    def list_books(self) -> list[tuple[Pool, Book]]:
        """The pools of which something is known, by name."""
        ordered = sorted(self.pools, key=lambda pool: pool.name)
        return [(pool, self.books[pool.name]) for pool in ordered if pool.name in self.books]


Look = Callable[[], Sight]
