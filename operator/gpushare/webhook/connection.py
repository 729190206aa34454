"""A connection on which reviews come, answered as soon as they are complete."""

import asyncio
import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from gpushare.webhook.calls import Calls

MAX_BODY_BYTES = 8 * 2**20
"""Above what etcd takes of an object (1.5 MiB), twice, and what a review adds to it."""
HOLD_SECONDS = 1.0
"""The rest of a body comes within milliseconds."""

Answer = Callable[[str, bytes], bytes | None]
"""The answer to a body that came at a path; None where it takes more to answer it."""

_HEAD = re.compile(
    rb"POST (/[a-z-]+)(?:\?[\w=&.]*)? HTTP/1\.1\r\n(?:[!-9;-~]+:[ \t]*[ -~]*\r\n)+\r\n"
)
"""A head without anything uncommon."""
_LENGTH = re.compile(rb"\r\nContent-Length:[ \t]*(\d{1,7})[ \t]*\r\n", re.IGNORECASE)
_UNCOMMON = re.compile(
    rb"\r\n(?:Connection|Content-Encoding|Expect|Transfer-Encoding|Upgrade)[ \t]*:", re.IGNORECASE
)
_OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%b\r\n%b"
_LAST = b"Connection: close\r\n"


@dataclass(frozen=True, slots=True)
class Head:
    """Of a request: where it goes, and how long its body is."""

    path: str
    body_bytes: int


class Connection(web.RequestHandler):
    """Answers a review in the very call that brings its last byte.

    A task, a stream and a response object for each request, as aiohttp has them, cost more than
    the decision. So requests of the plain form that the API server's have are taken apart here;
    at the first that is of another form, or that can't be answered at once, the connection
    becomes aiohttp's, for good.
    """

    __slots__ = ("_answer", "_calls", "_held", "_held_until", "_is_plain", "_timer", "_wanted")

    def __init__(self, *args: Any, answer: Answer, calls: Calls, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._answer = answer
        self._calls = calls
        self._is_plain = True
        self._held = bytearray()
        self._held_until = 0.0
        self._wanted = 0
        self._timer: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        if self._is_plain:
            self._receive(data)
        else:
            super().data_received(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._release()
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _receive(self, data: bytes) -> None:
        if self._timer is not None:
            self._held += data
            if len(self._held) < self._wanted:
                return None
            data = self._release()
        start = data.find(b"\r\n\r\n") + 4
        head = parse_head(data[:start])
        if head is None:
            return self._hand_over(data)
        self._wanted = start + head.body_bytes
        if len(data) < self._wanted and not self._calls.is_full:
            return self._hold(data)
        answer = None
        # What comes in a hurry, before the last answer was read, has to wait its turn.
        if len(data) == self._wanted and not self._unread_bytes():
            answer = self._answer(head.path, data[start:])
        if answer is None:
            return self._hand_over(data)
        assert self.transport is not None
        last = self._calls.ending
        self.transport.write(_OK % (len(answer), _LAST if last else b"", answer))
        if last:
            self.transport.close()
        return None

    def _hold(self, data: bytes) -> None:
        self._calls.__enter__()
        self._held += data
        loop = asyncio.get_running_loop()
        self._held_until = loop.time() + HOLD_SECONDS
        if self._timer is None:
            self._timer = loop.call_at(self._held_until, self._end_hold)

    def _release(self) -> bytes:
        """What is held, if anything."""
        if not self._held:
            return b""
        self._calls.__exit__()
        held = bytes(self._held)
        self._held.clear()
        return held

    def _end_hold(self) -> None:
        """One timer for all that comes within a second: most requests are complete at once."""
        self._timer = None
        if not self._held:
            return
        loop = asyncio.get_running_loop()
        if loop.time() < self._held_until:
            self._timer = loop.call_at(self._held_until, self._end_hold)
        else:
            self._hand_over(self._release())

    def _hand_over(self, data: bytes) -> None:
        self._is_plain = False
        super().data_received(data)

    def _unread_bytes(self) -> int:
        return 0 if self.transport is None else self.transport.get_write_buffer_size()


@functools.lru_cache(maxsize=1024)
def parse_head(head: bytes) -> Head | None:
    """The head of a request, its last empty line included; None where it is not of the plain form:
    a POST of HTTP/1.1 with one length, of at most 8 MiB, and nothing that changes how the body is
    to be read.
    """
    match = _HEAD.fullmatch(head)
    lengths = [int(digits) for digits in _LENGTH.findall(head)]
    if match is None or len(lengths) != 1 or lengths[0] > MAX_BODY_BYTES or _UNCOMMON.search(head):
        return None
    return Head(match[1].decode(), lengths[0])
