"""The answer to a call, as it goes over the wire."""

import time
from email.utils import formatdate
from functools import lru_cache

from aiohttp import HttpVersion11, web
from aiohttp.abc import AbstractStreamWriter

_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nDate: %b\r\n\r\n"
)
_LAST_HEAD = _HEAD.removesuffix(b"\r\n") + b"Connection: close\r\n\r\n"


class JsonResponse(web.StreamResponse):
    """A JSON document, written in one piece.

    aiohttp's own `web.Response`, of which errors are, costs a tenth more CPU time a call. That what
    is overridden here is all that aiohttp asks of a response is documented nowhere:
    test_webhook_answer.py fails where a newer one asks for more.
    """

    def __init__(self, document: bytes) -> None:
        super().__init__()
        self._document = document

    @property
    def keep_alive(self) -> bool:
        """Whether the connection stays open behind it."""
        return super().keep_alive is not False

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter:
        """Note whom the answer is for; nothing is written yet."""
        if not request.keep_alive or request.version < HttpVersion11:
            self.force_close()
        self._writer = request.writer
        return self._writer

    async def write_eof(self, data: bytes = b"") -> None:
        """Write the answer. Raises ConnectionError where nobody waits for it any more."""
        head = _HEAD if self.keep_alive else _LAST_HEAD
        filled = head % (len(self._document), _format_date(int(time.time())))
        await self._writer.write_eof(filled + self._document)


@lru_cache(maxsize=1)
def _format_date(second: int) -> bytes:
    """Format the value of the header Date."""
    return formatdate(second, usegmt=True).encode()
