"""Counts what a webhook assigned of each pool and the pool's capacity does not show yet."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpushare.core.admission.pool_view import PoolView

ARRIVAL_SECONDS = 3.0
"""By then a decision is part of any figures that come: the pod is written, the controller has seen
it, and waits at most so long before it tells its pool's sums again."""
PATIENCE_SECONDS = 30.0
"""After this time a reservation is void: a later step refused the pod, or the pod is gone."""

COUNT_SECONDS = 1.0
"""Seconds between two searches for expired entries, which take time with many pools."""


@dataclass(slots=True)
class _Reserved:
    """The reservations of one pool."""

    shown: str
    """Time of the pool's figures that were read last."""
    requested: int
    """Units that pods requested according to those figures."""
    units: int = 0
    entries: deque[tuple[float, int]] = field(default_factory=deque)
    """Time and units of each reservation, oldest first."""

    def add(self, at: float, units: int) -> None:
        self.entries.append((at, units))
        self.units += units

    def settle(self, units: int) -> None:
        """Strike out the oldest entries, up to so many units."""
        while units > 0 and self.entries:
            at, entered = self.entries.popleft()
            settled = min(entered, units)
            self.units -= settled
            units -= settled
            if settled < entered:
                self.entries.appendleft((at, entered - settled))

    def drop_until(self, at: float) -> None:
        while self.entries and self.entries[0][0] <= at:
            self.units -= self.entries.popleft()[1]


class Reservations:
    """A replica's own decisions of late, counted for all replicas.

    Each sees only its own; the API server spreads its calls, so the others have decided about as
    much. What was decided becomes what pods ask for, so the growth of that settles the oldest
    decisions, whoever made them: their exact moment, which no figures tell, does not matter.
    Times are seconds of one clock that never goes back.
    """

    def __init__(self, replicas: int) -> None:
        self._replicas = replicas
        self._by_pool: dict[str, _Reserved] = {}
        self._seen: Sequence[PoolView] = ()
        """The pools whose figures were looked at last."""
        self._counted: dict[str, int] = {}
        self._counted_at = float("-inf")
        """Time at which `_counted` was last computed from the entries."""

    def reserve(self, pool: str, units: int, at: float) -> None:
        """Remember that `units` of `pool` were given away."""
        if (reserved := self._by_pool.get(pool)) is not None:
            reserved.add(at, units * self._replicas)
            self._counted[pool] = reserved.units

    def count(self, pools: Sequence[PoolView], at: float) -> Mapping[str, int]:
        """Count by pool the units given away that its figures do not show yet, where there are any.

        Call this before each decision, with the same object for as long as no pool changes.
        """
        is_new = pools is not self._seen
        if is_new:
            self._look_at(pools, at)
        if is_new or at - self._counted_at >= COUNT_SECONDS:
            self._counted_at = at
            for reserved in self._by_pool.values():
                reserved.drop_until(at - PATIENCE_SECONDS)
            self._counted = {name: each.units for name, each in self._by_pool.items() if each.units}
        return self._counted

    def _look_at(self, pools: Sequence[PoolView], at: float) -> None:
        known = self._by_pool
        self._by_pool = {pool.name: known.get(pool.name) or _open(pool) for pool in pools}
        self._seen = pools
        for pool in pools:
            reserved = self._by_pool[pool.name]
            if reserved.shown == pool.observed_at:
                continue
            requested = _requested(pool)
            if reserved.shown:
                # The first figures tell of pods that were there before, too.
                reserved.settle(requested - reserved.requested)
            # Pods that ended meanwhile hide the growth.
            reserved.drop_until(at - ARRIVAL_SECONDS)
            reserved.shown, reserved.requested = pool.observed_at, requested


def _open(pool: PoolView) -> _Reserved:
    return _Reserved(pool.observed_at, _requested(pool))


def _requested(pool: PoolView) -> int:
    return pool.room.requested if pool.room is not None else 0
