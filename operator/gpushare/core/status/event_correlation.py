"""Decides which Events are new, which repeat others, and which are too many."""

from dataclasses import dataclass, field

from gpushare.names import Reason

SAME_SECONDS = 120.0
"""An Event that comes again within this time is counted on the one that is there."""
ONCE_SECONDS = 600.0
"""An Event that is posted once is posted again after this time: an API server forgets Events after
an hour by default, and refuses one that it still has."""
AT_ONCE = 25
"""Events of one object in a row, as client-go's limit."""
REFILL_SECONDS = 10.0
"""Seconds after which one more Event of an object is allowed: a pool that flaps repeats a few
Events."""
WORDED_BY_TENANTS = frozenset(
    {Reason.EXTENDER_STALE, Reason.WORKLOADS_PRESENT, Reason.STALE_ISOLATION}
    | {Reason.COMPETING_STACKS, Reason.OTHER_STACK}
)
"""Whoever edits pods changes what these say: other words are no further Event of the object."""


@dataclass(slots=True)
class Series:
    """One Event and its count."""

    until: float
    """Time until which an equal Event belongs to this series."""
    count: int = 1
    path: str = ""
    """Path of the Event in the API; empty before it is created."""
    shown: int = 1
    """Count that the API server has stored."""
    is_busy: bool = False
    """Somebody sees to it that `shown` becomes `count`."""


@dataclass(frozen=True, slots=True)
class Key:
    """Fields in which two equal Events agree: the object, and the text about it."""

    uid: str
    reason: str
    note: str
    """Empty where the words do not count."""


@dataclass(slots=True)
class EventCorrelator:
    """The Events posted recently. Times are seconds of one clock."""

    _series: dict[Key, Series] = field(default_factory=dict)
    _buckets: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Number of Events that are still allowed for each object, and the time of that number, by UID.
    """
    _swept: float = 0.0

    def admit(self, key: Key, now: float, *, once: bool = False) -> Series | None:
        """Return the series of an Event, counted; None where its object has had too many Events.

        With `once`, and where `key` has no note, repeating the Event does not prolong the series.
        """
        self._sweep(now)
        series = self._series.get(key)
        if series is not None and now < series.until:
            series.count += 1
            if key.note and not once:
                series.until = now + SAME_SECONDS
            return series
        if not self._take(key.uid, now):
            return None
        series = Series(until=now + (ONCE_SECONDS if once else SAME_SECONDS))
        self._series[key] = series
        return series

    def forget(self, key: Key) -> None:
        """Forget an Event that is not in the cluster: the next one of `key` is new."""
        self._series.pop(key, None)

    def _take(self, uid: str, now: float) -> bool:
        room, since = self._buckets.get(uid, (AT_ONCE, now))
        room = min(room + (now - since) / REFILL_SECONDS, AT_ONCE)
        is_let_through = room >= 1
        self._buckets[uid] = (room - 1 if is_let_through else room, now)
        return is_let_through

    def _sweep(self, now: float) -> None:
        """Drop series and buckets that are over."""
        if now - self._swept < SAME_SECONDS:
            return
        self._swept = now
        self._series = {k: s for k, s in self._series.items() if now < s.until}
        full = AT_ONCE * REFILL_SECONDS
        self._buckets = {k: b for k, b in self._buckets.items() if now - b[1] < full}
