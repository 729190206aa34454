"""Holds requests back for as long as the API server asks in Retry-After.

An overloaded API server answers 429 with a Retry-After header; so do 5xx answers at times
("API Priority and Fairness" in the Kubernetes documentation; RFC 9110, 10.2.3).
"""

import asyncio
import re
import time
from collections.abc import Callable

LONGEST_SECONDS = 60.0
"""Who asks for more is asked again after this: a mistake must not silence us for good."""
_WRITES = "writes"
_ALONE = re.compile(r"/leases(/|$)")
"""Writes that wait only for their own answers: the Lease would be lost by waiting for others."""


class RetryAfter:
    """Holds requests back until the time that the API server named is over.

    What it says to one write holds for all of them, since the next would only add to the load;
    what it says to a read holds for reads of that path.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._closed_until: dict[str, float] = {}

    def close(self, method: str, path: str, seconds: float) -> None:
        """Hold requests like this one back for so long."""
        flow = _flow(method, path)
        until = self._clock() + seconds
        self._closed_until[flow] = max(until, self._closed_until.get(flow, until))

    async def wait(self, method: str, path: str) -> None:
        """Return once a request like this one may be sent."""
        flow = _flow(method, path)
        left = self._closed_until.get(flow, 0.0) - self._clock()
        if left > 0:
            await asyncio.sleep(left)
            # Meanwhile another request may have been told to wait for longer.
            await self.wait(method, path)
        self._closed_until.pop(flow, None)


def parse_retry_after(value: str | None) -> float | None:
    """Parse a Retry-After header as client-go does: seconds; None for anything else."""
    if value and value.isascii() and value.isdigit():
        return min(float(value), LONGEST_SECONDS)
    return None


def _flow(method: str, path: str) -> str:
    return path if method == "GET" or _ALONE.search(path) else _WRITES
