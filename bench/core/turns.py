"""Measures the cost and the duration of a call for webhook servers in turns."""

import os
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import orjson

from bench.core import reviewclient, reviewserver
from bench.core.processes import Partner, read_cpu_seconds, running
from bench.core.reviewclient import Loop
from bench.core.reviews import Whose
from gpushare.certs.issue import issue_authority, issue_identity

FLOOR = 0
"""Number of pools of the bare server."""
SLICE = 100
"""Calls of one server in a turn. Turns are short, since a machine's speed changes within seconds,
by more than the measured differences."""
_SLICES = 40

Name = TypeVar("Name")


@dataclass(frozen=True)
class Pair:
    """A server and its client."""

    server_pid: int
    client: Partner


async def take_turns(pairs: Mapping[Name, Pair], connections: int) -> dict[Name, Loop]:
    """Make slices of calls to one server after another, until each had all of them."""
    for pair in pairs.values():
        await pair.client.ask(b"open %d" % connections)
    seconds = dict.fromkeys(pairs, 0.0)
    for _ in range(_SLICES):
        for name, pair in pairs.items():
            before = read_cpu_seconds(pair.server_pid)
            await pair.client.ask(b"call %d" % SLICE)
            seconds[name] += read_cpu_seconds(pair.server_pid) - before
    loops = {}
    for name, pair in pairs.items():
        loop = Loop(**orjson.loads(await pair.client.ask(b"close")))
        loops[name] = replace(loop, cpu_us=1e6 * seconds[name] / loop.calls)
    return loops


async def open_pair(
    stack: AsyncExitStack,
    folder: Path,
    pools: int,
    *server_arguments: str,
    checkout: Path | None = None,
    whose: Whose = "ours",
) -> Pair:
    """Run a server of ours with so many pools, or the floor, and its client, within the stack.

    `folder` has the files of `write_certificate`, and gets the server's log. Only the server is of
    another `checkout`, if given.
    """
    log = str(folder / f"{pools}.log")
    asked = (str(folder / "tls.pem"), str(pools), log, *server_arguments)
    started = running(reviewserver.__name__, *asked, checkout=checkout)
    server = await stack.enter_async_context(started)
    return await open_client(stack, folder, server.pid, await server.listen(), whose)


async def open_client(
    stack: AsyncExitStack, folder: Path, server_pid: int, port: str, whose: Whose = "ours"
) -> Pair:
    """Run a client of a listening server, each on its own core where there are two: CPU time grows
    with each move between cores."""
    asked = (port, str(folder / "ca.pem"), whose)
    client = await stack.enter_async_context(running(reviewclient.__name__, *asked))
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        _pin(server_pid, cores[0])
        _pin(client.pid, cores[1])
    return Pair(server_pid, client)


def _pin(pid: int, core: int) -> None:
    """Pin all threads of a process; new threads inherit the core."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(thread), [core])


def write_certificate(folder: Path) -> Path:
    """Write a certificate of 127.0.0.1 with its key into one file, and its CA beside it."""
    now = datetime.now(UTC)
    authority, certificate = issue_authority(now), folder / "tls.pem"
    identity = issue_identity(authority, ("127.0.0.1",), now)
    certificate.write_bytes(identity.key_pem + identity.certificate_pem)
    (folder / "ca.pem").write_bytes(authority.certificate_pem)
    return certificate
