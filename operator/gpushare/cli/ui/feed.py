"""Builds the document that the page shows, again for as long as the page asks for it."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from functools import partial
from hashlib import sha256
from typing import Any

import orjson

from gpushare.analysis.inspect.pools import view_pools
from gpushare.analysis.observed_cluster import ObservedCluster
from gpushare.analysis.placement.cluster import find_members
from gpushare.analysis.usage.card_pods import CardPod, list_card_pods
from gpushare.api.pruned.cluster import Cluster
from gpushare.cli.cluster.snapshot import observe_cluster
from gpushare.cli.inspect.pools_view import describe_pools
from gpushare.cli.ui.aside import run_aside
from gpushare.cli.ui.problem import describe_problem
from gpushare.cli.ui.use import UseFeed, describe_use

Json = dict[str, Any]

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
    never changes. `use` tells what pods use, and is waited for by nothing. Nothing is read while
    no page asks.
    """

    def __init__(
        self,
        source: str,
        cluster: Cluster,
        read: Callable[[], Awaitable[Cluster]] | None = None,
        use: UseFeed | None = None,
    ) -> None:
        self._source = source
        self._read, self._use = read, use
        self.cluster = cluster
        """The last reading."""
        self._state, self._pods = self._view(cluster)
        self._used = None if use is None else describe_use(self._pods, None, None)
        self._describing = asyncio.Lock()
        self._problem: Json | None = None
        self._failures = 0
        self._reading: asyncio.Task[None] | None = None
        self._reading_use: asyncio.Task[None] | None = None
        self._due = time.monotonic()
        self._write()

    def tell(self) -> tuple[bytes, str]:
        """Return the document as JSON, and its ETag.

        Where a reading is due, it is begun; later requests get what it found.
        """
        now = time.monotonic()
        if self._read and not self._reading and now >= self._due:
            self._reading = asyncio.create_task(self._renew(self._read, now))
        if self._use and not self._reading_use and self._use.is_due():
            self._reading_use = asyncio.create_task(self._renew_use(self._use))
        return self._body, self._etag

    async def aclose(self) -> None:
        """Give up the readings that are under way."""
        for reading in (self._reading, self._reading_use):
            if reading:
                reading.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await reading

    async def _renew(self, read: Callable[[], Awaitable[Cluster]], began: float) -> None:
        try:
            # Of thousands of nodes it takes seconds; the page is answered meanwhile.
            cluster = await read()
            self._state, self._pods = await run_aside(partial(self._view, cluster))
        except Exception as error:
            self._problem = describe_problem(error, self._problem)
            self._failures += 1
        else:
            self.cluster, self._problem, self._failures = cluster, None, 0
            if self._use:
                await self._describe_use(self._use)
        self._write()
        self._due = began + find_period(time.monotonic() - began, self._failures)
        self._reading = None

    async def _renew_use(self, use: UseFeed) -> None:
        await use.renew()
        await self._describe_use(use)
        self._write()
        self._reading_use = None

    async def _describe_use(self, use: UseFeed) -> None:
        # One after another: the last one knows the last pods and the last reading.
        async with self._describing:
            work = partial(describe_use, self._pods, use.reading, use.problem)
            self._used = await run_aside(work)

    def _view(self, cluster: Cluster) -> tuple[Json, tuple[CardPod, ...]]:
        seen = observe_cluster(cluster)
        pods: tuple[CardPod, ...] = ()
        if self._use is not None:
            members = find_members(seen.snapshot)
            pods = tuple(list_card_pods(seen, cluster.pods, members, None))
        return _describe(cluster, seen), pods

    def _write(self) -> None:
        about = {"source": self._source, "live": self._read is not None, "problem": self._problem}
        used = {} if self._used is None else {"use": self._used}
        self._body = orjson.dumps({**about, **self._state, **used})
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
    return _describe(cluster, observe_cluster(cluster))


def _describe(cluster: Cluster, seen: ObservedCluster) -> Json:
    view = view_pools(seen, cluster.taken_at)
    return {
        "installed": cluster.pools is not None,
        "takenAt": cluster.taken_at.isoformat(timespec="seconds"),
        **describe_pools(view, seen.unreadable, cluster),
    }
