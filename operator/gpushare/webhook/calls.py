"""Holds the calls that a server has in hand, and ends the slowest of too many."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

BODY_SECONDS = 5.0
"""A body comes at once; the API server itself gives up after 3 s."""
DRAIN_SECONDS = 5.0
"""Calls in hand get this long when the listener has closed; the API server waits 3 s for one."""
MAX_BYTES = 32 * 2**20
"""Of what came of all bodies in hand together."""
GRACE_SECONDS = 0.25
"""Nobody counts as slow before; the API server's calls come whole within milliseconds."""


class CrowdedOutError(TimeoutError):
    """Too many calls wait, and this one has waited longest."""


@dataclass(eq=False, slots=True)
class Wait:
    """A call that waits."""

    end: Callable[[TimeoutError], None]
    """Ends the wait from outside, with what to raise."""
    since: float
    bytes: int = 0
    """What came of its body."""


class Calls:
    """The calls in hand: each waits for the rest of its body, or for its namespace.

    What comes whole is answered at once, and is never among them. So where they are too many, or
    hold too many bytes, whoever waits longest is slow, and has to go: no new call is refused.

    Waited for before aiohttp is told to stop: from then on it drops what clients still send of a
    request that has begun.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waits: dict[Wait, None] = {}
        """Oldest first, less those that have to go."""
        self.held_bytes = 0
        """What came of their bodies, together."""
        self.count = 0
        """Those in hand now."""
        self._ended = asyncio.Event()
        self.ending = False
        """The server is about to stop: each connection is closed behind its next answer."""

    @contextlib.contextmanager
    def waiting(self, end: Callable[[TimeoutError], None]) -> Iterator[Wait]:
        """Let a call wait in this block, for 5 s at most; `end` ends that, with what to raise."""
        loop = asyncio.get_running_loop()
        wait = Wait(end, loop.time())
        timer = loop.call_later(BODY_SECONDS, self._end, wait, TimeoutError())
        self.count += 1
        self._waits[wait] = None
        self._make_place()
        try:
            yield wait
        finally:
            timer.cancel()
            self._forget(wait)
            self.count -= 1
            self._ended.set()

    def hold(self, wait: Wait, count: int) -> None:
        """Note that so many bytes of a call came."""
        if wait in self._waits:
            wait.bytes += count
            self.held_bytes += count
            self._make_place()

    async def wait_none(self) -> None:
        """Return when no call is in hand, or after 5 s."""
        self.ending = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                while self.count:
                    self._ended.clear()
                    await self._ended.wait()

    def _make_place(self) -> None:
        while len(self._waits) > self._limit or self.held_bytes > MAX_BYTES:
            oldest = next(iter(self._waits))
            age = asyncio.get_running_loop().time() - oldest.since
            if age < GRACE_SECONDS and self.held_bytes <= MAX_BYTES:
                break
            self._end(oldest, CrowdedOutError())

    def _end(self, wait: Wait, error: TimeoutError) -> None:
        if wait in self._waits:
            self._forget(wait)
            wait.end(error)

    def _forget(self, wait: Wait) -> None:
        if wait in self._waits:
            del self._waits[wait]
            self.held_bytes -= wait.bytes
