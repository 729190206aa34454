"""Forwards data between two connections, both ways, until both end."""

import asyncio
import contextlib

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_CHUNK_BYTES = 2**16


async def relay(outer: Connection, inner: Connection) -> None:
    """Forward until both sides have ended; then close `inner`. Raises OSError if one breaks."""
    with contextlib.closing(inner[1]):
        await asyncio.gather(_pump(outer[0], inner[1]), _pump(inner[0], outer[1]))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(_CHUNK_BYTES):
        writer.write(chunk)
        await writer.drain()
    writer.write_eof()
