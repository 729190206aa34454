"""The state that the page is told, read anew for as long as somebody looks at it."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from gpushare import __version__
from gpushare.api.cluster import Cluster
from gpushare.cli.exits import CommandError
from gpushare.cli.failures import confess, find_failure
from gpushare.cli.ui.state import Versions, build_state

Json = dict[str, Any]

PERIOD_SECONDS = 2.0
"""Between two readings, at least."""
REST = 2.0
"""A reading is followed by a rest of so many times its length, so that a large cluster's API server
is asked less often."""
UNWATCHED_SECONDS = 30.0
"""Nothing is read when nobody has asked for so long."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why the state is not of now."""

    failure: CommandError
    since: datetime

    def describe(self) -> Json:
        return {
            "code": int(self.failure.exit_code),
            "message": " ".join(str(self.failure).split()),
            "since": self.since.isoformat(timespec="seconds"),
        }


class Feed:
    """What of a cluster was read last, and since when it can't be read.

    `source` names it for a person. A snapshot has no `read`: it never changes.
    """

    def __init__(
        self,
        source: str,
        first: Cluster,
        state: Json,
        read: Callable[[], Awaitable[Cluster]] | None = None,
    ) -> None:
        self._source = source
        self._read = read
        self._epoch = secrets.token_hex(4)
        self._versions = Versions()
        self._versions.take(state)
        self._taken_at = first.taken_at
        self._problem: Problem | None = None
        self._asked = asyncio.Event()
        self._asked_at = time.monotonic()

    def tell(self, epoch: str | None = None, since: int | None = None) -> bytes:
        """The state as JSON; to who has seen version `since` of this `epoch`, what is new.

        Whoever asks is taken to look at it.
        """
        self._asked_at = time.monotonic()
        self._asked.set()
        known = since if epoch == self._epoch else None
        told = self._versions.tell(known)
        return orjson.dumps(
            {
                "epoch": self._epoch,
                "version": self._versions.version,
                "whole": "gone" not in told,
                "program": __version__,
                "source": self._source,
                "live": self._read is not None,
                "now": datetime.now(UTC).isoformat(),
                "takenAt": self._taken_at.isoformat(timespec="seconds"),
                "problem": None if self._problem is None else self._problem.describe(),
                **told,
            }
        )

    async def follow(self) -> None:
        """Read the cluster again and again, for ever; a failure is told, and tried again."""
        if self._read is None:
            return
        while True:
            if time.monotonic() - self._asked_at > UNWATCHED_SECONDS:
                self._asked.clear()
                await self._asked.wait()
            started = time.monotonic()
            try:
                cluster = await self._read()
                # Of thousands of nodes it takes seconds; the page is answered meanwhile.
                state = await asyncio.to_thread(build_state, cluster)
            except Exception as error:
                failure = find_failure(error) or confess(error)
                since = self._problem.since if self._problem else datetime.now(UTC)
                self._problem = Problem(failure, since)
            else:
                self._versions.take(state)
                self._taken_at, self._problem = cluster.taken_at, None
            took = time.monotonic() - started
            await asyncio.sleep(max(PERIOD_SECONDS, REST * took))
