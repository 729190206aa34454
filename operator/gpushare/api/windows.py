"""Defines when a pool's nodes may change: maintenance windows and freezes."""

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cached_property
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, AwareDatetime, Field

from gpushare import names
from gpushare.api.model import ApiModel

MAX_WINDOWS = 20
MAX_REASON = 200
_SCHEDULE = "^[0-9A-Za-z*,/-]+( [0-9A-Za-z*,/-]+){4}$"
_DURATION = "^([1-9][0-9]{0,2}h)?([1-9][0-9]{0,3}m)?([1-9][0-9]{0,4}s)?$"
Duration = Annotated[str, Field(min_length=2, max_length=15, pattern=_DURATION)]
"""A time such as 90m or 4h30m."""
_ANY_DAY = datetime(2000, 1, 1)


def parse_duration(duration: Duration) -> timedelta:
    """Parse a duration."""
    match = re.fullmatch(_DURATION, duration)
    parts = match.groups() if match is not None else ()
    hours, minutes, seconds = (int(part[:-1]) if part else 0 for part in parts)
    return timedelta(hours=hours, minutes=minutes, seconds=seconds)


def _check_schedule(schedule: str) -> str:
    try:
        next(CronSim(schedule, _ANY_DAY))
    except CronSimError as error:
        raise ValueError(
            f"{schedule!r} is not a cron schedule of five fields, as in a CronJob: {error}"
        ) from error
    except StopIteration as error:
        raise ValueError(f"the cron schedule {schedule!r} matches no day") from error
    _, _, day, _, weekday = schedule.split()
    if "*" not in (day, weekday) and "*" in f"{day}{weekday}":
        # Such as `*/2`. CronJobs (robfig/cron) read that as days that are given, cron does not.
        raise ValueError(
            f"the cron schedule {schedule!r} gives days of the month and of the week, one with *. "
            "A CronJob starts where either matches, cron where both do. Set one to *, or list the "
            "days"
        )
    return schedule


def _check_zone(zone: str) -> str:
    try:
        ZoneInfo(zone)
        if zone == "localtime":
            raise LookupError
    except (LookupError, ValueError, OSError) as error:
        raise ValueError(
            f"unknown time zone {zone!r}. Use an IANA name, such as Asia/Shanghai"
        ) from error
    return zone


class MaintenanceWindow(ApiModel):
    """A period, again and again, in which isolation changes may begin."""

    schedule: Annotated[
        str, Field(max_length=100, pattern=_SCHEDULE), AfterValidator(_check_schedule)
    ] = Field(
        description="When the window starts: a cron schedule of five fields, as in a CronJob."
    )
    duration: Duration = Field(description="How long the window is open, such as 90m or 4h.")
    time_zone: Annotated[
        str, Field(max_length=64, pattern="^[A-Za-z0-9_+/-]+$"), AfterValidator(_check_zone)
    ] = Field(
        default="UTC",
        description="IANA time zone of the schedule, such as Asia/Shanghai. If not set, UTC.",
    )

    @cached_property
    def length(self) -> timedelta:
        """Duration of the window."""
        return parse_duration(self.duration)

    @cached_property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.time_zone)


class Freeze(ApiModel):
    """Nothing begins, whatever the windows say."""

    reason: Annotated[
        str, Field(min_length=1, max_length=MAX_REASON, pattern=r"^[^\x00-\x1f\x7f]*$")
    ] = Field(description="Why nothing may begin.")
    until: AwareDatetime | None = Field(
        default=None,
        json_schema_extra={"maxLength": 40},
        description="When the freeze ends. If not set, when it is removed.",
    )

    def holds(self, now: datetime) -> bool:
        """Tell whether the freeze has not ended."""
        return self.until is None or now < self.until


def parse_freeze(raw: Mapping[str, Any]) -> Freeze | None:
    """Parse the freeze of all pools from its ConfigMap; None for any other ConfigMap.

    A freeze with an invalid end has no end: a user created it to stop changes.
    """
    if raw["metadata"]["name"] != names.FREEZE_CONFIGMAP:
        return None
    data = raw.get("data") or {}
    given = str(data.get("reason") or "no reason is given")
    reason = "".join(each if each.isprintable() else " " for each in given[:MAX_REASON])
    until, text = None, data.get("until")
    if text:
        with suppress(ValueError):
            # Not by pydantic, to which digits alone are seconds since 1970.
            until = datetime.fromisoformat(text)
        if until is None or until.tzinfo is None:
            until, reason = None, f"{reason} (its end cannot be read)"[:MAX_REASON]
    return Freeze(reason=reason, until=until)
