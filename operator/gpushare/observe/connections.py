"""Limits the open connections of a server."""

import logging
from asyncio import Transport
from asyncio.sslproto import SSLProtocol
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

MAX_CONNECTIONS = 1000
"""Limit of connections. An API server keeps 25 idle ones, and more only during calls."""
READ_BUFFER_BYTES = 32 * 2**10
"""Size of a read buffer; a TLS record holds 16 KiB."""

SILENT = logging.Logger("http", logging.CRITICAL + 1)
"""Logger that drops everything: aiohttp logs a request that is no HTTP with a traceback that quotes
it, which would fill the log. Handlers log their own failures."""


def shrink_read_buffers() -> None:
    """Make TLS connections that this process opens from now on read into smaller buffers.

    Each connection has a buffer, of 256 KiB by default, in use or not. asyncio documents no way to
    set its size; test_webhook_crowds.py fails where this has no effect any more.
    """
    SSLProtocol.max_size = READ_BUFFER_BYTES


class Connections:
    """Open connections, each of which costs memory, idle or not.

    Where there are too many, one is closed: first one that never got an answer, then the one whose
    last answer is oldest.
    """

    def __init__(self, limit: int = MAX_CONNECTIONS) -> None:
        self._limit = limit
        self._strangers: dict[object, Transport] = {}
        self._callers: dict[object, Transport] = {}
        """Connections that got an answer, by the last one, oldest first."""

    def __len__(self) -> int:
        return len(self._strangers) + len(self._callers)

    def add(self, connection: object, transport: Transport) -> None:
        """Add a new connection, and close another where there are too many."""
        if len(self) >= self._limit:
            others = self._strangers or self._callers
            # Not closed gracefully, which would wait for the client.
            others.pop(next(iter(others))).abort()
        self._strangers[connection] = transport

    def note_answer(self, connection: object) -> None:
        """Record that a connection got an answer."""
        known = self._callers if connection in self._callers else self._strangers
        if (transport := known.pop(connection, None)) is not None:
            self._callers[connection] = transport

    def remove(self, connection: object) -> None:
        """Remove a closed connection."""
        self._strangers.pop(connection, None)
        self._callers.pop(connection, None)


class Listener(web.Server):
    """Server of aiohttp that records its open connections in `connections`, and logs nothing."""

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
            # Limit of unread data, which asyncio buffers for TLS only, 256 KiB by default. It is
            # not documented either, and has a test there too.
            limit(high=READ_BUFFER_BYTES)
        self._open.add(handler, transport)

    def connection_lost(
        self, handler: web.RequestHandler, exc: BaseException | None = None
    ) -> None:
        self._open.remove(handler)
        super().connection_lost(handler, exc)
