"""The server alone: CPU time a call, beside the floor and Kopf's own way, in turns."""

import os
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
from tests.bench.admission.server import Kind
from tests.bench.footprint import read_cpu_seconds
from tests.bench.partner import Partner, running

CONNECTIONS = (1, 8, 32)
SOME = 8
CALLS = {1: 2000, 8: 4000, 32: 4000}
_SLICE = 100
"""Calls on end of one server. Its own turns are short, since a machine's speed changes within
seconds, by more than what is measured."""


@dataclass(frozen=True)
class Contestant:
    """A server that is measured."""

    kind: Kind
    pools: int = 0

    def __str__(self) -> str:
        return f"{self.kind}, {self.pools} pools" if self.pools else str(self.kind)


FLOOR = Contestant(Kind.FLOOR)
OURS = Contestant(Kind.OURS, pools=3)
MANY_POOLS = Contestant(Kind.OURS, pools=20)
KOPF = Contestant(Kind.KOPF)
CONTESTANTS = (FLOOR, OURS, MANY_POOLS, KOPF)

Entries = Mapping[int, Sequence[Contestant]]
"""Who is measured at how many connections."""
ALL_ENTRIES: Entries = dict.fromkeys(CONNECTIONS, CONTESTANTS)


@dataclass(frozen=True)
class Turn:
    """What a round's calls cost one server at so many connections."""

    microseconds: float
    """CPU time of the server's process for each call."""
    loop: Loop


Round = Mapping[tuple[Contestant, int], Turn]


def find_costs(
    rounds: Sequence[Round], contestant: Contestant, connections: int, *, floor: Contestant = FLOOR
) -> Sequence[tuple[float, float]]:
    """CPU time a call, the floor's and the contestant's, of each round that it took part in."""
    return [
        (each[floor, connections].microseconds, each[contestant, connections].microseconds)
        for each in rounds
        if (contestant, connections) in each
    ]


def find_cpu_ratio(costs: Sequence[tuple[float, float]]) -> float:
    """CPU time a call by the floor's in the same round; the median of the rounds."""
    return statistics.median(cost / floor for floor, cost in costs)


class Arena:
    """The servers, each with a client of its own; those whose turn it is not do nothing."""

    def __init__(self, pairs: Mapping[Contestant, tuple[Partner, Partner]]) -> None:
        self._pairs = pairs

    async def measure_round(self, entries: Entries = ALL_ENTRIES) -> Round:
        """The calls of each entry; at each number of connections they take turns of a slice."""
        return {
            (contestant, connections): turn
            for connections, contestants in entries.items()
            for contestant, turn in (await self._measure(contestants, connections)).items()
        }

    async def _measure(
        self, contestants: Sequence[Contestant], connections: int
    ) -> Mapping[Contestant, Turn]:
        pairs = {each: self._pairs[each] for each in contestants}
        for _, calling in pairs.values():
            await calling.ask(f"open {connections}")
        seconds = dict.fromkeys(pairs, 0.0)
        for _ in range(CALLS[connections] // _SLICE):
            for contestant, (serving, calling) in pairs.items():
                before = read_cpu_seconds(serving.pid)
                await calling.ask(f"call {_SLICE}")
                seconds[contestant] += read_cpu_seconds(serving.pid) - before
        turns = {}
        for contestant, (_, calling) in pairs.items():
            loop = Loop(**orjson.loads(await calling.ask("close")))
            turns[contestant] = Turn(1e6 * seconds[contestant] / loop.calls, loop)
        return turns


@asynccontextmanager
async def open_arena() -> AsyncIterator[Arena]:
    """The servers' processes and the clients' for as long as the block lasts."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="gpushare-bench-")))
        certificate, ca = write_certificate(folder)
        pairs = {}
        for number, each in enumerate(CONTESTANTS):
            log = folder / f"{number}.log"
            asked = (each.kind, str(certificate), str(each.pools))
            serving = await stack.enter_async_context(running(server.__name__, *asked, log=log))
            port = await serving.hear()
            calling = await stack.enter_async_context(
                running(client.__name__, port, str(ca), log=folder / f"{number}-client.log")
            )
            pairs[each] = serving, calling
            _separate(serving, calling)
        yield Arena(pairs)


def _separate(serving: Partner, calling: Partner) -> None:
    """A core for each, where there are two: CPU time grows with each move from one to another."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        os.sched_setaffinity(serving.pid, cores[:1])
        os.sched_setaffinity(calling.pid, cores[1:2])


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
