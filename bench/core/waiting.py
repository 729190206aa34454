"""Waits for a condition while the bench's watch goes on."""

import asyncio
import time
from collections.abc import Awaitable, Callable


class BenchError(Exception):
    """A measured or needed event did not happen; the message names it."""


async def until(
    condition: Callable[[], Awaitable[object]],
    what: str,
    *,
    seconds: float,
    poll_seconds: float = 0.2,
) -> None:
    """Return once `condition` holds. Raises `BenchError` with `what` after `seconds`."""
    deadline = time.monotonic() + seconds
    while not await condition():
        if time.monotonic() > deadline:
            raise BenchError(f"{what}: not within {seconds:g} s")
        await asyncio.sleep(poll_seconds)
