"""What every node looks like, by a watch of the bench's own."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tests.bench.api import METADATA_LIST, Api, Json
from tests.bench.waiting import BenchError, until

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

    Times are those of `time.monotonic`, taken when an event arrived here.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._waiters: list[_Waiter] = []
        self._version = ""
        self._last_event_at = 0.0
        self.metadata: dict[str, Json] = {}
        self.seen_at: dict[str, float] = {}

    async def start(self) -> None:
        """Take in the nodes that are there; to be called before :meth:`run`."""
        listed = await self._api.call("GET", NODES, accept=METADATA_LIST)
        self._version = listed["metadata"]["resourceVersion"]
        for item in listed["items"] or ():
            self._take(item["metadata"], deleted=False)

    async def run(self) -> None:
        """Follow the changes, for ever; a watch that the server ends is taken up where it ended."""
        while True:
            async with contextlib.aclosing(self._api.watch(NODES, self._version)) as events:
                async for event in events:
                    if event["type"] == "ERROR":
                        raise BenchError(f"the bench's watch of nodes broke off: {event['object']}")
                    meta = event["object"]["metadata"]
                    self._version = meta["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        self._take(meta, deleted=event["type"] == "DELETED")

    def when_all(self, holds: Holds, names: Iterable[str] | None = None) -> asyncio.Future[float]:
        """When the last of the nodes (by default all that are there) came to be so."""
        wanted = set(self.metadata if names is None else names)
        missing = {name for name in wanted if not holds(self.metadata[name])}
        done: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        waiter = _Waiter(holds, missing, done)
        if missing:
            self._waiters.append(waiter)
        else:
            done.set_result(max(self.seen_at[name] for name in wanted))
        return waiter.done

    async def wait(self, done: asyncio.Future[float], what: str, *, seconds: float) -> float:
        """The result of :meth:`when_all`; `BenchError` if it takes longer than so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                return await done
        except TimeoutError:
            missing = next((w.missing for w in self._waiters if w.done is done), set())
            self._waiters = [waiter for waiter in self._waiters if waiter.done is not done]
            some = ", ".join(sorted(missing)[:3])
            raise BenchError(
                f"{what}: not on {len(missing)} nodes within {seconds:g} s ({some}, ...)"
            ) from None

    async def until_still(self, seconds: float = _STILL_SECONDS) -> None:
        """Until no node changed for so long."""

        async def is_still() -> bool:
            return time.monotonic() - self._last_event_at > seconds

        await until(is_still, "nodes come to rest", seconds=_STILL_WITHIN_SECONDS)

    def _take(self, meta: Json, *, deleted: bool) -> None:
        name, now = meta["name"], time.monotonic()
        self._last_event_at = now
        if deleted:
            raise BenchError(f"node {name} was deleted; nobody should")
        self.metadata[name], self.seen_at[name] = meta, now
        for waiter in self._waiters:
            if name in waiter.missing and waiter.holds(meta):
                waiter.missing.discard(name)
                if not waiter.missing and not waiter.done.done():
                    waiter.done.set_result(now)
        self._waiters = [waiter for waiter in self._waiters if waiter.missing]
