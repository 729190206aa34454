"""A connection handed on to another: what comes, and its end, both ways."""

import asyncio
import contextlib

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_CHUNK_BYTES = 2**16


async def relay(outer: Connection, inner: Connection) -> None:
    """Hand on until both sides have ended; `inner` is closed then. Raises OSError if one breaks."""
    with contextlib.closing(inner[1]):
        await asyncio.gather(_pump(outer[0], inner[1]), _pump(inner[0], outer[1]))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(_CHUNK_BYTES):
        writer.write(chunk)
        await writer.drain()
    writer.write_eof()
