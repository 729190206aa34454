"""The record of when a node's device plugin was replaced: that bounds how often it is."""

from datetime import datetime, timedelta
from typing import Literal

from gpushare.core.records.record import Moment, Record

WINDOW = timedelta(hours=1)


class Restarts(Record):
    """The changes and restarts of the last hour; a retry annotation begins anew."""

    v: Literal[1] = 1
    retry: str = ""
    """Value of the node's retry annotation at that time; another value starts the count again."""
    at: tuple[Moment, ...] = ()

    def list_recent(self, retry: str, now: datetime) -> tuple[datetime, ...]:
        """List those that count now, the oldest first."""
        # One that was removed again is no new one.
        is_current = not retry or self.retry == retry
        return tuple(each for each in self.at if abs(now - each) < WINDOW) if is_current else ()

    def add(self, retry: str, now: datetime) -> "Restarts":
        """Return the record with one more, without those that no longer count."""
        return Restarts(retry=retry or self.retry, at=(*self.list_recent(retry, now), now))

    def find_free(self, retry: str, now: datetime, limit: int) -> datetime | None:
        """Find from when on fewer than `limit` count; None where that is so now."""
        recent = self.list_recent(retry, now)
        return recent[-limit] + WINDOW if len(recent) >= limit else None


NO_RESTARTS = Restarts()
