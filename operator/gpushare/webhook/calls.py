"""The calls that a server has in hand."""

import asyncio
import contextlib

DRAIN_SECONDS = 5.0
"""Calls in hand get this long when the listener has closed; the API server waits 3 s for one."""


class Calls:
    """Counts the calls in hand: each is a `with` block.

    Waited for before aiohttp is told to stop: from then on it drops what clients still send of a
    request that has begun.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.count = 0
        """Those in hand now."""
        self._ended = asyncio.Event()
        self.ending = False
        """The server is about to stop: each connection is closed behind its next answer."""

    @property
    def is_full(self) -> bool:
        return self.count >= self._limit

    def __enter__(self) -> None:
        self.count += 1

    def __exit__(self, *exception: object) -> None:
        self.count -= 1
        if self.ending:
            self._ended.set()

    async def wait_none(self) -> None:
        """Return when no call is in hand, or after 5 s."""
        self.ending = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                while self.count:
                    self._ended.clear()
                    await self._ended.wait()
