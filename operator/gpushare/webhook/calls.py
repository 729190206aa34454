"""The calls that a server has in hand."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

DRAIN_SECONDS = 5.0
"""Calls in hand get this long when the listener has closed; the API server waits 3 s for one."""
MAX_BYTES = 32 * 2**20
"""Of what came of all bodies in hand together."""
GRACE_SECONDS = 0.25
"""Nobody counts as slow before; the API server's calls come whole within milliseconds."""


class CrowdedOutError(Exception):
    """Too many calls wait, and this one has waited longest."""


@dataclass(eq=False)
class Wait:
    """One call's."""

    timeout: asyncio.Timeout
    since: float
    bytes: int = 0


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

    @contextlib.asynccontextmanager
    async def waiting(self, seconds: float) -> AsyncIterator[Wait]:
        """A block in which a call waits, for so long at most.

        Raises TimeoutError, or `CrowdedOutError`.
        """
        wait = Wait(asyncio.timeout(seconds), asyncio.get_running_loop().time())
        self.count += 1
        self._waits[wait] = None
        try:
            async with wait.timeout:
                self._make_place()
                yield wait
        except TimeoutError:
            if wait not in self._waits:
                raise CrowdedOutError from None
            raise
        finally:
            self._forget(wait)
            self.count -= 1
            if self.ending:
                self._ended.set()

    def hold(self, wait: Wait, count: int) -> None:
        """Note that so many bytes came of it. Raises `CrowdedOutError`."""
        if wait not in self._waits:
            raise CrowdedOutError
        wait.bytes += count
        self.held_bytes += count
        self._make_place()

    def _make_place(self) -> None:
        # A time that is past ends a wait at once.
        slow_since = asyncio.get_running_loop().time() - GRACE_SECONDS
        while self._waits:
            oldest = next(iter(self._waits))
            is_slow = oldest.since <= slow_since
            if self.held_bytes <= MAX_BYTES and (len(self._waits) <= self._limit or not is_slow):
                break
            self._forget(oldest)
            if not oldest.timeout.expired():
                oldest.timeout.reschedule(slow_since)

    def _forget(self, wait: Wait) -> None:
        if wait in self._waits:
            del self._waits[wait]
            self.held_bytes -= wait.bytes

    async def wait_none(self) -> None:
        """Return when no call is in hand, or after 5 s."""
        self.ending = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                while self.count:
                    self._ended.clear()
                    await self._ended.wait()
