"""Tells whether windows are open, by each minute of their zone's clock."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from gpushare.api.pool import Pool
from gpushare.api.windows import Freeze, MaintenanceWindow

_DAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_MINUTE = timedelta(minutes=1)


def is_open(windows: Sequence[MaintenanceWindow], now: datetime) -> bool:
    """Tell whether one of the windows has started and not ended."""
    return any(_is_open(window, now) for window in windows)


def _is_open(window: MaintenanceWindow, now: datetime) -> bool:
    zone, moment = ZoneInfo(window.time_zone), now.replace(second=0, microsecond=0)
    while now < moment + window.length:
        if _starts(window.schedule, moment, zone):
            return True
        moment -= _MINUTE
    return False


@cache
def _starts(schedule: str, moment: datetime, zone: ZoneInfo) -> bool:
    local = moment.astimezone(zone)
    minute, hour, *_ = schedule.split()
    if "*" in minute or "*" in hour:
        return _matches(schedule, local)
    if _matches(schedule, local):
        # A fixed time counts once where the clock shows it twice.
        return local.fold == 0
    # The minutes that a clock that was set forward did not show are over at once.
    before = (moment - _MINUTE).astimezone(zone)
    skipped = local.replace(tzinfo=None) - before.replace(tzinfo=None)
    naive = before.replace(tzinfo=None) + _MINUTE
    while skipped > _MINUTE and naive < local.replace(tzinfo=None):
        if _matches(schedule, naive):
            return True
        naive += _MINUTE
    return False


def _matches(schedule: str, local: datetime) -> bool:
    minute, hour, day, month, weekday = schedule.split()
    return (
        _fits(minute, local.minute)
        and _fits(hour, local.hour)
        and _fits(day, local.day)
        and _fits(month, local.month)
        and weekday in ("*", _DAYS[local.weekday()])
    )


def _fits(field: str, value: int) -> bool:
    if field.startswith("*/"):
        return value % int(field[2:]) == 0
    return field == "*" or int(field) == value


def is_frozen(pool: Pool, of_all: Freeze | None, now: datetime) -> bool:
    """Tell whether the pool, or all pools, are frozen at a time."""
    freezes = (pool.spec.rollout.freeze, of_all)
    return any(freeze is not None and freeze.holds(now) for freeze in freezes)
