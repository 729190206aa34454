"""Finds when a pool's maintenance windows are open. Windows that overlap count as one."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

from cronsim import CronSim

from gpushare.api.windows import MaintenanceWindow

_MINUTE = timedelta(minutes=1)
MOST_JOINED = 200
"""So many windows that follow each other are joined: after them the opening ends for now."""
MOST_REPEATED = 100
"""So many starts an hour has that the clock shows twice, and some more."""
MOST_TRIED = 100
"""So many openings are looked at for one that is long enough."""


@dataclass(frozen=True, slots=True)
class Opening:
    """One time in which changes may begin. Times are in UTC."""

    start: datetime
    """Of an open one, the start of a window in it that is still open."""
    end: datetime
    zone: ZoneInfo
    """Of the window that opens it."""

    def has_room(self, now: datetime, needed: timedelta) -> bool:
        """Tell whether what begins when it opens, or now, is done before it ends."""
        return max(self.start, now) + needed <= self.end


def find_opening(windows: Sequence[MaintenanceWindow], now: datetime) -> Opening | None:
    """Find the opening at `now`, or else the next one; None where there will be none."""
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
    """Find the first opening in which what takes `needed` is done; None where none is so long."""
    at = now
    for _ in range(MOST_TRIED):
        opening = find_opening(windows, at)
        if opening is None or opening.has_room(at, needed):
            return opening
        at = opening.end
    long = [window for window in windows if window.length >= needed]
    return find_opening(long, at) if long else None


def _extend(windows: Sequence[MaintenanceWindow], end: datetime) -> datetime:
    """Return the end, with the windows that start until then."""
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
    """Find the last start until `moment`."""
    # What is searched is strictly before, and in whole minutes.
    after = moment.replace(second=0, microsecond=0) + _MINUTE
    return _search(window, after, reverse=True)


def _find_next_start(window: MaintenanceWindow, moment: datetime) -> datetime | None:
    """Find the first start after `moment`."""
    return _search(window, moment, reverse=False)


def _search(window: MaintenanceWindow, moment: datetime, *, reverse: bool) -> datetime | None:
    local = moment.astimezone(window.zone)
    for found in islice(CronSim(window.schedule, local, reverse=reverse), MOST_REPEATED):
        start = found.astimezone(UTC)
        # Forward, in an hour that the clock shows twice, the one that is over may come once more.
        if reverse or start > moment:
            return start
    return None
