"""Builds the document that the page shows, again for as long as the page asks for it."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextvars import copy_context
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from typing import Any, TypeVar

import orjson

from gpushare.analysis.inspect.pools import view_pools
from gpushare.api.pruned.cluster import Cluster
from gpushare.cli.cluster.snapshot import observe_cluster
from gpushare.cli.errors.failures import find_failure, report_failure
from gpushare.cli.inspect.pools_view import describe_pools

Json = dict[str, Any]
Result = TypeVar("Result")

PERIOD_SECONDS = 2.0
"""Least seconds from the start of one read to the start of the next."""
LONGEST_SECONDS = 30.0
"""Longest pause after failed reads: each may start the kubeconfig's credential plugin, which may
ask a person, and an account that fails too often may be locked out."""
SHARE = 3
"""A third of the time is spent on reading, at most: a large cluster's API server is asked less
often."""


class Feed:
    """The last reading of a cluster, and the time since which it can't be read.

    `source` names it for a user; `cluster` is the first reading. A snapshot has no `read`: it
    never changes. Nothing is read while no page asks.
    """

    def __init__(
        self,
        source: str,
        cluster: Cluster,
        read: Callable[[], Awaitable[Cluster]] | None = None,
    ) -> None:
        self._source = source
        self._read = read
        self.cluster = cluster
        """The last reading."""
        self._state = build_state(cluster)
        self._problem: Json | None = None
        self._failures = 0
        self._reading: asyncio.Task[None] | None = None
        self._due = time.monotonic()
        self._write()

    def tell(self) -> tuple[bytes, str]:
        """Return the document as JSON, and its ETag.

        Where a reading is due, it is begun; later requests get what it found.
        """
        now = time.monotonic()
        if self._read and not self._reading and now >= self._due:
            self._reading = asyncio.create_task(self._renew(self._read, now))
        return self._body, self._etag

    async def aclose(self) -> None:
        """Give up the reading that is under way, if one is."""
        if self._reading:
            self._reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reading

    async def _renew(self, read: Callable[[], Awaitable[Cluster]], began: float) -> None:
        try:
            # Of thousands of nodes it takes seconds; the page is answered meanwhile.
            cluster = await read()
            self._state = await run_aside(partial(build_state, cluster))
        except Exception as error:
            failure = find_failure(error) or report_failure(error)
            now = datetime.now(UTC).isoformat(timespec="seconds")
            self._problem = {
                "code": int(failure.exit_code),
                "message": " ".join(str(failure).split()),
                "since": self._problem["since"] if self._problem else now,
            }
            self._failures += 1
        else:
            self.cluster, self._problem, self._failures = cluster, None, 0
        self._write()
        self._due = began + find_period(time.monotonic() - began, self._failures)
        self._reading = None

    def _write(self) -> None:
        about = {"source": self._source, "live": self._read is not None, "problem": self._problem}
        self._body = orjson.dumps({**about, **self._state})
        self._etag = sha256(self._body).hexdigest()


def find_period(took_seconds: float, failures: int) -> float:
    """Find the seconds from one reading's begin to the next, after so many failures in a row."""
    # No more doublings than it takes: a float has an end.
    doubled = PERIOD_SECONDS * 2.0 ** min(max(failures - 1, 0), 10)
    return max(min(doubled, LONGEST_SECONDS), SHARE * took_seconds)


def build_state(cluster: Cluster) -> Json:
    """Build what the page shows: what `inspect --pools -o json` prints, and a little more.

    A cluster without pools' API has nodes all the same.
    """
    seen = observe_cluster(cluster)
    view = view_pools(seen, cluster.taken_at)
    return {
        "installed": cluster.pools is not None,
        "takenAt": cluster.taken_at.isoformat(timespec="seconds"),
        **describe_pools(view, seen.unreadable, cluster),
    }


async def run_aside(work: Callable[[], Result]) -> Result:
    """Run `work` in a thread of its own and in this context, and return or raise what it does.

    For those of `asyncio.to_thread` a program waits before it ends: after Ctrl-C that
    could be half a minute of reading, or as long as a browser is open.
    """
    done: Future[Result] = Future()
    done.set_running_or_notify_cancel()
    context = copy_context()

    def do() -> None:
        try:
            result = context.run(work)
        except Exception as error:
            done.set_exception(error)
        else:
            done.set_result(result)

    threading.Thread(target=do, daemon=True).start()
    return await asyncio.wrap_future(done)
