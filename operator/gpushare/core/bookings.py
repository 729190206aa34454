"""What a webhook gave away of each pool, and the pool's capacity does not show yet."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpushare.core.poolview import PoolView

ARRIVAL_SECONDS = 1.0
"""From the decision until the pod is written, seen by the controller, and part of the figures."""
PATIENCE_SECONDS = 10.0
"""What no figure shows by then never came: a later step refused the pod, or it is gone again."""


@dataclass(slots=True)
class _Book:
    shown: str = ""
    """Which figures were looked at last."""
    units: int = 0
    entries: deque[tuple[float, int]] = field(default_factory=deque)
    """When, and how many units; oldest first."""

    def drop_until(self, at: float) -> None:
        while self.entries and self.entries[0][0] <= at:
            self.units -= self.entries.popleft()[1]


class Bookings:
    """A replica's own decisions of late, counted for all replicas.

    Each sees only its own; the API server spreads its calls, so the others have decided about as
    much. Times are seconds of one clock that never goes back.
    """

    def __init__(self, replicas: int) -> None:
        self._replicas = replicas
        self._books: dict[str, _Book] = {}

    def book(self, pool: str, units: int, at: float) -> None:
        """Remember that `units` of `pool` were given away."""
        book = self._books.setdefault(pool, _Book())
        book.units += units
        book.entries.append((at, units))

    def count(self, pools: Sequence[PoolView], at: float) -> Mapping[str, int]:
        """Units given away by pool that its figures do not show yet, where there are any.

        To be asked before each decision. New figures show what was decided some time before they
        came.
        """
        if self._books.keys() != {pool.name for pool in pools}:
            known = self._books
            self._books = {p.name: known.get(p.name) or _Book(p.observed_at) for p in pools}
        counted = {}
        for pool in pools:
            book = self._books[pool.name]
            if book.shown != pool.observed_at:
                book.drop_until(at - ARRIVAL_SECONDS)
                book.shown = pool.observed_at
            elif book.units:
                book.drop_until(at - PATIENCE_SECONDS)
            if book.units:
                counted[pool.name] = book.units * self._replicas
        return counted
