"""Limits the open connections of a server."""

import logging
from asyncio import Transport
from asyncio.sslproto import SSLProtocol
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

MAX_CONNECTIONS = 1000
"""An API server keeps 25 idle ones, and opens more only while it has calls under way."""
READ_BUFFER_BYTES = 32 * 2**10
"""A TLS record holds 16 KiB."""

SILENT = logging.Logger("http", logging.CRITICAL + 1)
"""aiohttp answers what is no HTTP with a 400, and logs it with a traceback that quotes it: who
sends nonsense must fill no log. What fails in a handler is that handler's to log."""


def shrink_read_buffers() -> None:
    """Have the TLS connections that this process opens from now on read into smaller buffers.

    Each has one of its own, in use or not, of 256 KiB. asyncio documents no way to set it, and
    test_webhook_crowds.py fails where this one has no effect any more.
    """
    SSLProtocol.max_size = READ_BUFFER_BYTES


class Connections:
    """Open connections, each of which costs memory, whether anything comes on it or not.

    Where there are too many, one is closed: first whoever never asked what could be answered,
    then whoever has not asked for longest.
    """

    def __init__(self, limit: int = MAX_CONNECTIONS) -> None:
        self._limit = limit
        self._strangers: dict[object, Transport] = {}
        self._callers: dict[object, Transport] = {}
        """By the last answer, oldest first."""

    def __len__(self) -> int:
        return len(self._strangers) + len(self._callers)

    def add(self, connection: object, transport: Transport) -> None:
        """Note a new connection, and close another where that is one too many."""
        if len(self) >= self._limit:
            others = self._strangers or self._callers
            # No farewell: it would be waited for.
            others.pop(next(iter(others))).abort()
        self._strangers[connection] = transport

    def note_answer(self, connection: object) -> None:
        """Note that a connection got an answer."""
        known = self._callers if connection in self._callers else self._strangers
        if (transport := known.pop(connection, None)) is not None:
            self._callers[connection] = transport

    def remove(self, connection: object) -> None:
        """Note that a connection is closed."""
        self._strangers.pop(connection, None)
        self._callers.pop(connection, None)


class Listener(web.Server):
    """aiohttp's server, which tells `connections` of each that comes and goes, and logs nothing."""

    def __init__(
        self,
        handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        connections: Connections,
        **options: Any,
    ) -> None:
        super().__init__(handler, access_log=None, logger=SILENT, **options)
        self._open = connections

    def connection_made(self, handler: web.RequestHandler, transport: Transport) -> None:
        super().connection_made(handler, transport)
        if (limit := getattr(transport, "set_read_buffer_limits", None)) is not None:
            # Of what comes while nobody reads it; asyncio lets 256 KiB wait on TLS, the only kind
            # of connection that holds any. It is not documented either, and has a test there too.
            limit(high=READ_BUFFER_BYTES)
        self._open.add(handler, transport)

    def connection_lost(
        self, handler: web.RequestHandler, exc: BaseException | None = None
    ) -> None:
        self._open.remove(handler)
        super().connection_lost(handler, exc)
