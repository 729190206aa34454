"""The calls that a server has in hand."""

import asyncio
import contextlib
from collections.abc import Callable
from types import TracebackType
from typing import Self

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
        self._timer: asyncio.TimerHandle | None = None
        self.held_bytes = 0
        """What came of their bodies, together."""
        self.count = 0
        """Those in hand now."""
        self._ended = asyncio.Event()
        self.ending = False
        """The server is about to stop: each connection is closed behind its next answer."""

    def waiting(self, end: Callable[[TimeoutError], None]) -> "Wait":
        """A block in which a call waits; `end` ends that from outside, with what to raise."""
        return Wait(self, end)

    def begin(self, wait: "Wait") -> None:
        """Take in a call that is to wait."""
        self.count += 1
        self._waits[wait] = None
        if self._timer is None:
            self._await_deadline(wait)
        self._make_place()

    def hold(self, wait: "Wait", count: int) -> None:
        """Note that so many bytes of a call came."""
        if wait in self._waits:
            wait.bytes += count
            self.held_bytes += count
            self._make_place()

    def finish(self, wait: "Wait") -> None:
        """Let go of a call that waits no more."""
        self._forget(wait)
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

    def _make_place(self) -> None:
        while len(self._waits) > self._limit or self.held_bytes > MAX_BYTES:
            oldest = next(iter(self._waits))
            age = asyncio.get_running_loop().time() - oldest.since
            if age < GRACE_SECONDS and self.held_bytes <= MAX_BYTES:
                break
            self._forget(oldest)
            oldest.end(CrowdedOutError())

    def _forget(self, wait: "Wait") -> None:
        if wait in self._waits:
            del self._waits[wait]
            self.held_bytes -= wait.bytes

    def _await_deadline(self, wait: "Wait") -> None:
        """One timer for all: a timer for each would cost more than most calls have to wait."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(wait.since + BODY_SECONDS, self._end_late)

    def _end_late(self) -> None:
        self._timer = None
        due = asyncio.get_running_loop().time() - BODY_SECONDS
        while self._waits:
            oldest = next(iter(self._waits))
            if oldest.since > due:
                self._await_deadline(oldest)
                break
            self._forget(oldest)
            oldest.end(TimeoutError())


class Wait:
    """One call's."""

    __slots__ = ("_calls", "bytes", "end", "since")

    def __init__(self, calls: Calls, end: Callable[[TimeoutError], None]) -> None:
        self._calls = calls
        self.end = end
        self.since = asyncio.get_running_loop().time()
        self.bytes = 0

    def __enter__(self) -> Self:
        self._calls.begin(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._calls.finish(self)

    def hold(self, count: int) -> None:
        """Note that so many bytes came of it."""
        self._calls.hold(self, count)
