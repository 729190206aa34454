"""Counts the calls under way of a server, and ends the slowest of too many."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

BODY_SECONDS = 5.0
"""Limit of receiving a body; the API server itself gives up after 3 s."""
DRAIN_SECONDS = 5.0
"""Limit of finishing calls after the listener has closed; the API server waits 3 s for one."""
MAX_BYTES = 32 * 2**20
"""Limit of the received bytes of all unfinished bodies together."""
GRACE_SECONDS = 0.25
"""Age before which no call counts as slow; the API server's are complete within milliseconds."""


class CrowdedOutError(TimeoutError):
    """Too many calls wait, and this one has waited for longest."""


@dataclass(eq=False, slots=True)
class Wait:
    """A call that waits."""

    end: Callable[[TimeoutError], None]
    """Ends the wait from outside, with the error to raise."""
    since: float
    bytes: int = 0
    """Received bytes of the call's body."""


class Calls:
    """The calls that wait for the rest of their body, or for their namespace.

    A call that arrives complete is answered at once and does not wait. Where too many calls wait,
    or hold too many bytes, the one that waits for longest is slow and ends: no new call is refused.

    At a stop the calls are finished before aiohttp stops: it drops the rest of a body that is being
    received.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waits: dict[Wait, None] = {}
        """Waits that have not been ended, oldest first."""
        self.held_bytes = 0
        """Received bytes of all bodies together."""
        self.count = 0
        """Number of calls that wait now."""
        self._ended = asyncio.Event()
        self.ending = False
        """Whether the server is about to stop: it closes each connection after its next answer."""

    @contextlib.contextmanager
    def waiting(self, end: Callable[[TimeoutError], None]) -> Iterator[Wait]:
        """Let a call wait in this block, for 5 s at most; `end` ends it with the error to raise."""
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
        """Record `count` received bytes of a call."""
        if wait in self._waits:
            wait.bytes += count
            self.held_bytes += count
            self._make_place()

    async def wait_none(self) -> None:
        """Return when no call waits any more, or after 5 s."""
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
