"""The server alone: CPU time a call, beside the floor and Kopf's own way, in turns."""

import statistics
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson

from tests.bench.admission import client, server
from tests.bench.admission.certificate import write_certificate
from tests.bench.admission.client import Loop
from tests.bench.admission.partner import Partner, running
from tests.bench.admission.server import Kind
from tests.bench.footprint import read_cpu_seconds

CONNECTIONS = (1, 8, 32)
CALLS = {1: 2000, 8: 4000, 32: 4000}


@dataclass(frozen=True)
class Contestant:
    """A server that is measured."""

    kind: Kind
    pools: int = 0

    def __str__(self) -> str:
        return f"{self.kind}, {self.pools} pools" if self.pools else str(self.kind)


FLOOR = Contestant(Kind.FLOOR)
OURS = Contestant(Kind.OURS, pools=3)
CONTESTANTS = (FLOOR, OURS, Contestant(Kind.OURS, pools=20), Contestant(Kind.KOPF))


@dataclass(frozen=True)
class Turn:
    """One turn of one server at so many connections."""

    microseconds: float
    """CPU time of the server's process for each call."""
    loop: Loop


Round = Mapping[tuple[Contestant, int], Turn]


def find_cpu_ratio(rounds: Sequence[Round], contestant: Contestant, connections: int) -> float:
    """CPU time a call by the floor's in the same round; the median of the rounds."""
    return statistics.median(
        each[contestant, connections].microseconds / each[FLOOR, connections].microseconds
        for each in rounds
    )


class Arena:
    """The servers, each with a client of its own; those whose turn it is not do nothing."""

    def __init__(self, pairs: Mapping[Contestant, tuple[Partner, Partner]]) -> None:
        self._pairs = pairs

    async def measure_round(self) -> Round:
        """One turn of each server at each number of connections."""
        return {
            (contestant, connections): await self._measure(contestant, connections)
            for connections in CONNECTIONS
            for contestant in self._pairs
        }

    async def _measure(self, contestant: Contestant, connections: int) -> Turn:
        serving, calling = self._pairs[contestant]
        calls = CALLS[connections]
        calling.tell(f"{connections} {calls}")
        await calling.hear()
        before = read_cpu_seconds(serving.pid)
        calling.tell("go")
        loop = Loop(**orjson.loads(await calling.hear()))
        seconds = read_cpu_seconds(serving.pid) - before
        return Turn(1e6 * seconds / calls, loop)


@asynccontextmanager
async def open_arena(contestants: Sequence[Contestant] = CONTESTANTS) -> AsyncIterator[Arena]:
    """The servers' processes and the clients' for as long as the block lasts."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="gpushare-bench-")))
        certificate, ca = write_certificate(folder)
        pairs = {}
        for number, each in enumerate(contestants):
            log = folder / f"{number}.log"
            asked = (each.kind, str(certificate), str(each.pools))
            serving = await stack.enter_async_context(running(server.__name__, *asked, log=log))
            port = await serving.hear()
            calling = await stack.enter_async_context(
                running(client.__name__, port, str(ca), log=folder / f"{number}-client.log")
            )
            pairs[each] = serving, calling
        yield Arena(pairs)


def show_round(number: int, results: Round) -> str:
    """The table of a round: CPU time a call, calls a second, p99."""
    lines = [f"round {number}:"]
    for (contestant, connections), turn in results.items():
        ratio = turn.microseconds / results[FLOOR, connections].microseconds
        lines.append(
            f"    {connections:2} connections   {contestant!s:15} {turn.microseconds:6.0f} us of "
            f"CPU a call ({ratio:5.2f}x)   {turn.loop.calls / turn.loop.seconds:6.0f}/s   "
            f"p50 {turn.loop.p50_ms:5.2f} ms   p99 {turn.loop.p99_ms:5.2f} ms   "
            f"longest {turn.loop.longest_ms:5.1f} ms"
        )
    return "\n".join(lines)
