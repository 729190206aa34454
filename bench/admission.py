"""``python -m bench.admission``: what a call costs the webhook, beside a bare handler, in turns."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson

from bench.core import reviewclient, reviewserver
from bench.core.figure import Figure, find_ratio, is_steady, tell
from bench.core.processes import Partner, read_cpu_seconds, running
from bench.core.reviewclient import Loop
from bench.core.session import run, say
from gpushare.certs.issue import issue_authority, issue_identity

CONNECTIONS = (1, 8, 32)
SLICE = 100
"""Calls on end of one server. Its own turns are short, since a machine's speed changes within
seconds, by more than what is measured."""
_SLICES = 40
FLOOR = 0
"""A contestant without pools, that decides nothing."""
MOST_RATIOS = {3: 1.3, 20: 1.35, 100: 1.5}
"""The others, by their number of pools, and what CPU time they may take on `BOUNDED` connections,
by the floor's."""
BOUNDED = 8


Round = Mapping[tuple[int, int], Loop]
"""What the calls took and cost, by pools and connections."""
Pairs = Mapping[int, tuple[Partner, Partner]]
"""Server and client, by pools."""


def list_figures(rounds: Sequence[Round]) -> list[Figure]:
    """Ratios to the floor of the same round."""
    figures = []
    for pools, most in MOST_RATIOS.items():
        for count in CONNECTIONS:
            for name, read, bound in (
                ("cpu", attrgetter("cpu_us"), most if count == BOUNDED else None),
                ("p50", attrgetter("p50_ms"), None),
                ("rate", attrgetter("per_second"), None),
            ):
                pairs = [(read(each[FLOOR, count]), read(each[pools, count])) for each in rounds]
                name_of = f"{name}_ratio_{count}_{pools}_pools"
                figures.append(Figure(name_of, find_ratio(pairs), most=bound))
    return figures


def _are_steady(rounds: Sequence[Round]) -> bool:
    """Whether what has a bound is known well enough."""
    costs = [
        [each[pools, BOUNDED].cpu_us / each[FLOOR, BOUNDED].cpu_us for each in rounds]
        for pools in MOST_RATIOS
    ]
    return all(map(is_steady, costs))


def bench() -> None:
    """Measure, print each round and a line of figures, and fail where one misses its bound."""
    tell("admission", list_figures(asyncio.run(_measure())))


async def _measure() -> list[Round]:
    rounds: list[Round] = []
    async with _open_pairs() as pairs:
        while not _are_steady(rounds):
            found: dict[tuple[int, int], Loop] = {}
            for connections in CONNECTIONS:
                found |= await _take_turns(pairs, connections)
            rounds.append(found)
            say(f"round {len(rounds)}: {found}")
    return rounds


async def _take_turns(pairs: Pairs, connections: int) -> Round:
    """A slice of calls to one server after another, until each had all of them."""
    for _, client in pairs.values():
        await client.ask(b"open %d" % connections)
    seconds = dict.fromkeys(pairs, 0.0)
    for _ in range(_SLICES):
        for pools, (server, client) in pairs.items():
            before = read_cpu_seconds(server.pid)
            await client.ask(b"call %d" % SLICE)
            seconds[pools] += read_cpu_seconds(server.pid) - before
    turns = {}
    for pools, (_, client) in pairs.items():
        loop = orjson.loads(await client.ask(b"close"))
        loop["cpu_us"] = 1e6 * seconds[pools] / loop["calls"]
        turns[pools, connections] = Loop(**loop)
    return turns


@asynccontextmanager
async def _open_pairs() -> AsyncIterator[Pairs]:
    """The servers' processes and the clients' for as long as the block lasts."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="gpushare-bench-")))
        certificate, ca = _write_certificate(folder)
        pairs = {}
        for pools in (FLOOR, *MOST_RATIOS):
            asked = (str(certificate), str(pools), str(folder / f"{pools}.log"))
            server = await stack.enter_async_context(running(reviewserver.__name__, *asked))
            port = await server.listen()
            client = await stack.enter_async_context(running(reviewclient.__name__, port, str(ca)))
            pairs[pools] = server, client
            _separate(server, client)
        yield pairs


def _separate(server: Partner, client: Partner) -> None:
    """A core for each, where there are two: CPU time grows with each move from one to another."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        os.sched_setaffinity(server.pid, cores[:1])
        os.sched_setaffinity(client.pid, cores[1:2])


def _write_certificate(folder: Path) -> tuple[Path, Path]:
    """Files for 127.0.0.1: the certificate with its key, and the CA that it is trusted by."""
    now = datetime.now(UTC)
    authority, certificate, ca = issue_authority(now), folder / "tls.pem", folder / "ca.pem"
    identity = issue_identity(authority, ("127.0.0.1",), now)
    certificate.write_bytes(identity.key_pem + identity.certificate_pem)
    ca.write_bytes(authority.certificate_pem)
    return certificate, ca


if __name__ == "__main__":
    run(bench)
