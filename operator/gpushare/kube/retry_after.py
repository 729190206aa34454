"""Holds requests back for as long as the API server asks in Retry-After.

An overloaded API server answers 429 with a Retry-After header; so do 5xx answers at times
("API Priority and Fairness" in the Kubernetes documentation; RFC 9110, 10.2.3).
"""

import asyncio
import re
import time
from collections.abc import Callable

LONGEST_SECONDS = 60.0
"""Limit of a Retry-After, so that a wrong header does not stop all requests."""
_WRITES = "writes"
_ALONE = re.compile(r"/leases(/|$)")
"""Paths whose writes wait only for their own Retry-After: else the Lease would be lost."""


class RetryAfter:
    """Holds requests back until the time that the API server named is over.

    A Retry-After of one write holds for all writes, since the next would only add to the load;
    that of a read holds for reads of its path.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._closed_until: dict[str, float] = {}

    def close(self, method: str, path: str, seconds: float) -> None:
        """Hold requests like this one back for `seconds`."""
        flow = _flow(method, path)
        until = self._clock() + seconds
        self._closed_until[flow] = max(until, self._closed_until.get(flow, until))

    async def wait(self, method: str, path: str) -> None:
        """Return once a request like this one may be sent."""
        flow = _flow(method, path)
        remaining = self._closed_until.get(flow, 0.0) - self._clock()
        if remaining > 0:
            await asyncio.sleep(remaining)
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
