"""Finds when a pool's maintenance windows are open; windows that overlap count as one."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

from cronsim import CronSim

from gpushare.api.windows import MaintenanceWindow

_MINUTE = timedelta(minutes=1)
MOST_JOINED = 200
"""The most windows in succession that are joined into one opening, which then ends."""
MOST_REPEATED = 100
"""The most starts that are searched: more than an hour has that the clock shows twice."""
MOST_TRIED = 100
"""The most openings that are searched for one that is long enough."""


@dataclass(frozen=True, slots=True)
class Opening:
    """A span of time in which changes may begin, in UTC."""

    start: datetime
    """When the opening starts; if it is open, the start of a window in it that is still open."""
    end: datetime
    zone: ZoneInfo
    """The time zone of the window that opens it."""

    def has_room(self, now: datetime, needed: timedelta) -> bool:
        """Return whether a change that takes `needed` ends in it, begun at its start or `now`."""
        return max(self.start, now) + needed <= self.end


def find_opening(windows: Sequence[MaintenanceWindow], now: datetime) -> Opening | None:
    """Return the opening at `now`, or else the next one; None where there will be none."""
    open_now = [
        (start, window)
        for window in windows
        if (start := _find_start(window, now)) is not None and start + window.length > now
    ]
    starts = open_now or [
        (start, window)
        for window in windows
        if (start := _find_next_start(window, now)) is not None
    ]
    if not starts:
        return None
    start, first = min(starts, key=lambda found: found[0])
    end = max(s + window.length for s, window in open_now or [(start, first)])
    return Opening(start, _extend(windows, end), first.zone)


def find_opening_for(
    windows: Sequence[MaintenanceWindow], now: datetime, needed: timedelta
) -> Opening | None:
    """Return the first opening with room for a change that takes `needed`; None without any."""
    at = now
    for _ in range(MOST_TRIED):
        opening = find_opening(windows, at)
        if opening is None or opening.has_room(at, needed):
            return opening
        at = opening.end
    long = [window for window in windows if window.length >= needed]
    return find_opening(long, at) if long else None


def _extend(windows: Sequence[MaintenanceWindow], end: datetime) -> datetime:
    """Return `end`, extended by the windows that start until then, and so on."""
    for _ in range(MOST_JOINED):
        ends = (
            last + window.length
            for window in windows
            if (last := _find_start(window, end)) is not None
        )
        if (later := max(ends, default=end)) <= end:
            break
        end = later
    return end


def _find_start(window: MaintenanceWindow, moment: datetime) -> datetime | None:
    """Return the last start of `window` at or before `moment`; None without any."""
    # The search is for starts strictly before a time in whole minutes.
    after = moment.replace(second=0, microsecond=0) + _MINUTE
    return _search(window, after, reverse=True)


def _find_next_start(window: MaintenanceWindow, moment: datetime) -> datetime | None:
    """Return the first start of `window` after `moment`; None without any."""
    return _search(window, moment, reverse=False)


def _search(window: MaintenanceWindow, moment: datetime, *, reverse: bool) -> datetime | None:
    local = moment.astimezone(window.zone)
    for found in islice(CronSim(window.schedule, local, reverse=reverse), MOST_REPEATED):
        start = found.astimezone(UTC)
        # Forward, in an hour that the clock shows twice, a start that is over may come once more.
        if reverse or start > moment:
            return start
    return None
