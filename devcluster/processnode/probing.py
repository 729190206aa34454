"""Makes probes and judges their results."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp

from devcluster.processnode.pod import Probe


@dataclass(frozen=True)
class Tally:
    """Number of equal results of a probe in a row."""

    successes: int = 0
    failures: int = 0

    def add(self, succeeded: bool) -> "Tally":
        """Return the tally with another result."""
        return Tally(self.successes + 1, 0) if succeeded else Tally(0, self.failures + 1)

    def judge(self, probe: Probe) -> bool | None:
        """Judge the results by the probe's thresholds; None where there are too few."""
        if self.successes >= probe.success_threshold:
            return True
        if self.failures >= probe.failure_threshold:
            return False
        return None


async def verdicts(probe: Probe, host: str) -> AsyncIterator[bool]:
    """Probe for ever; yield each judgement."""
    tally = Tally()
    await asyncio.sleep(probe.initial_delay_seconds)
    while True:
        tally = tally.add(await _call(probe, host))
        if (verdict := tally.judge(probe)) is not None:
            yield verdict
        await asyncio.sleep(probe.period_seconds)


async def _call(probe: Probe, host: str) -> bool:
    timeout = aiohttp.ClientTimeout(total=probe.timeout_seconds)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(f"http://{host}:{probe.port}{probe.path}", allow_redirects=False) as answer,
        ):
            return 200 <= answer.status < 400
    except (TimeoutError, aiohttp.ClientError):
        return False
