"""Watches the metadata of all nodes."""

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bench.core.api import METADATA_LIST, Api, Json
from bench.core.waiting import BenchError, until

NODES = "api/v1/nodes"
Holds = Callable[[Json], bool]

_STILL_SECONDS = 3.0
_STILL_WITHIN_SECONDS = 300


@dataclass
class _Waiter:
    holds: Holds
    missing: set[str]
    done: asyncio.Future[float]


class NodeWatch:
    """The metadata of all nodes, kept up to date while :meth:`run` runs.

    Times are those of `time.monotonic` when an event arrives.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._waiters: list[_Waiter] = []
        self._version = 0
        self._last_event_at = 0.0
        self.metadata: dict[str, Json] = {}
        self.seen_at: dict[str, float] = {}

    async def start(self) -> None:
        """List the existing nodes; to be called before :meth:`run`."""
        listed = await self._api.call("GET", NODES, accept=METADATA_LIST)
        self._version = int(listed["metadata"]["resourceVersion"])
        for item in listed["items"] or ():
            self._take(item["metadata"])

    async def run(self) -> None:
        """Watch changes for ever; a watch that the server ends is continued."""
        while True:
            async for kind, node in self._api.watch(NODES, {}, self._version):
                if kind not in ("ADDED", "MODIFIED", "BOOKMARK"):
                    raise BenchError(f"the watch of nodes broke off: {kind} {node}")
                meta = node["metadata"]
                self._version = int(meta["resourceVersion"])
                if kind != "BOOKMARK":
                    self._take(meta)

    def when_all(self, holds: Holds, names: Iterable[str] | None = None) -> asyncio.Future[float]:
        """Return a future of the time at which `holds` is true for all of the nodes."""
        wanted = set(self.metadata if names is None else names)
        missing = {name for name in wanted if not holds(self.metadata[name])}
        done: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        if missing:
            self._waiters.append(_Waiter(holds, missing, done))
        else:
            done.set_result(max(self.seen_at[name] for name in wanted))
        return done

    async def wait(self, done: asyncio.Future[float], what: str, *, seconds: float) -> float:
        """Wait for the result of :meth:`when_all`. Raises `BenchError` after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                return await done
        except TimeoutError:
            self._waiters = [waiter for waiter in self._waiters if waiter.done is not done]
            raise BenchError(f"{what}: not within {seconds:g} s") from None

    async def until_still(self) -> None:
        """Wait until no node changed for a while."""

        async def is_still() -> bool:
            return time.monotonic() - self._last_event_at > _STILL_SECONDS

        await until(is_still, "nodes come to rest", seconds=_STILL_WITHIN_SECONDS)

    def _take(self, meta: Json) -> None:
        name, now = meta["name"], time.monotonic()
        self._last_event_at = now
        self.metadata[name], self.seen_at[name] = meta, now
        for waiter in self._waiters:
            if name in waiter.missing and waiter.holds(meta):
                waiter.missing.discard(name)
                if not waiter.missing and not waiter.done.done():
                    waiter.done.set_result(now)
        self._waiters = [waiter for waiter in self._waiters if waiter.missing]
