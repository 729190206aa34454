"""The state that the page is told, read anew for as long as somebody looks at it."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import orjson

from gpushare import __version__
from gpushare.api.pruned.cluster import Cluster
from gpushare.cli.errors.failures import find_failure, report_failure
from gpushare.cli.exit_codes import CommandError
from gpushare.cli.ui.background import run_aside
from gpushare.cli.ui.document import Versions, build_state

Json = dict[str, Any]

PERIOD_SECONDS = 2.0
"""Between two readings, at least."""
REST = 2.0
"""A reading is followed by a rest of so many times its length, so that a large cluster's API server
is asked less often."""
LONGEST_SECONDS = 30.0
"""Between two that fail: each may start the kubeconfig's credential plugin, which may ask a person,
and whoever fails too often may be locked out."""
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

    `source` names it for a person; `cluster` is the first reading, of which the state is kept
    alone: that is a small part of it. A snapshot has no `read`: it never changes.
    """

    def __init__(
        self,
        source: str,
        cluster: Cluster,
        read: Callable[[], Awaitable[Cluster]] | None = None,
    ) -> None:
        self._source = source
        self._read = read
        self._epoch = secrets.token_hex(4)
        self._versions = Versions()
        self._versions.take(build_state(cluster))
        self._taken_at = cluster.taken_at
        self._problem: Problem | None = None
        self._failures = 0
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
            await self._renew(self._read)
            took = time.monotonic() - started
            await asyncio.sleep(find_pause(took, self._failures))

    async def _renew(self, read: Callable[[], Awaitable[Cluster]]) -> None:
        try:
            cluster = await read()
            # Of thousands of nodes it takes seconds; the page is answered meanwhile.
            state = await run_aside(partial(build_state, cluster))
        except Exception as error:
            failure = find_failure(error) or report_failure(error)
            since = self._problem.since if self._problem else datetime.now(UTC)
            self._problem = Problem(failure, since)
            self._failures += 1
        else:
            self._versions.take(state)
            self._taken_at, self._problem, self._failures = cluster.taken_at, None, 0


def find_pause(took_seconds: float, failures: int) -> float:
    """Seconds from a reading to the next one, after so many in a row that failed."""
    if not failures:
        return max(PERIOD_SECONDS, REST * took_seconds)
    # No more doublings than it takes: a float has an end.
    doubled = PERIOD_SECONDS * 2.0 ** min(failures - 1, 10)
    return max(min(doubled, LONGEST_SECONDS), REST * took_seconds)
