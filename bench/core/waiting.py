"""Waiting for a condition without holding up the bench's watch."""

import asyncio
import time
from collections.abc import Awaitable, Callable


class BenchError(Exception):
    """Something that is measured, or needed for it, did not happen; the message says what."""


async def until(
    condition: Callable[[], Awaitable[object]],
    what: str,
    *,
    seconds: float,
    poll_seconds: float = 0.2,
) -> None:
    """Return once `condition` holds; `BenchError` names `what` after so many seconds."""
    deadline = time.monotonic() + seconds
    while not await condition():
        if time.monotonic() > deadline:
            raise BenchError(f"{what}: not within {seconds:g} s")
        await asyncio.sleep(poll_seconds)
