"""``python -m tests.bench.admission.client PORT CA``: reviews in a closed loop, over TLS.

A process of its own, with little to do for a call, so that the server sets the pace. It does what
each line on stdin says, and then writes a line: ``open N`` connections, and warm them up; ``call
N`` times over all of them; ``close`` them, and say how long the calls took as JSON.
"""

import asyncio
import ssl
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import cycle

import orjson

from tests.bench.admission.review import build_bodies

_BODIES = 64
_WARM_CALLS = 50
_HEAD = (
    "POST /mutate-pods HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUser-Agent: kube-apiserver-admission"
    "\r\nContent-Length: {length}\r\nAccept: application/json, */*\r\n"
    "Content-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"
)


@dataclass(frozen=True)
class Loop:
    """What came of a closed loop."""

    calls: int
    seconds: float
    p50_ms: float
    p99_ms: float
    longest_ms: float


Request = tuple[bytes, bytes]
"""Head and body."""


class Connection:
    """One call after another on one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def call(self, request: Request) -> float:
        """Seconds until the answer was read; RuntimeError where the pod is not patched."""
        started = time.perf_counter()
        # As the API server does: two TLS records, which arrive together or apart.
        for part in request:
            self._writer.write(part)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        body = await self._reader.readexactly(length)
        seconds = time.perf_counter() - started
        if not head.startswith(b"HTTP/1.1 200") or b'"patch":' not in body.replace(b" ", b""):
            raise RuntimeError(f"expected a patch, got {head[:40]!r} {body[:200]!r}")
        return seconds

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


@dataclass
class Session:
    """Open connections, and what their calls took so far."""

    connections: list[Connection]
    requests: Iterator[Request]
    seconds: float = 0.0
    waits: list[float] = field(default_factory=list)

    async def call(self, calls: int) -> None:
        """So many calls, each connection one after another."""
        left = iter(range(calls))

        async def work(connection: Connection) -> list[float]:
            return [await connection.call(next(self.requests)) for _ in left]

        started = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            workers = [group.create_task(work(connection)) for connection in self.connections]
        self.seconds += time.perf_counter() - started
        self.waits += [wait for worker in workers for wait in worker.result()]

    def sum_up(self) -> Loop:
        """All calls since the connections were opened and warmed up."""
        waits = sorted(self.waits)
        p50, p99 = (1000 * waits[int(len(waits) * share)] for share in (0.5, 0.99))
        return Loop(len(waits), self.seconds, p50, p99, 1000 * waits[-1])

    async def close(self) -> None:
        for connection in self.connections:
            await connection.close()


async def _main(port: int, ca: str) -> None:
    tls = ssl.create_default_context(cafile=ca)
    requests = [
        (_HEAD.format(port=port, length=len(body)).encode(), body) for body in build_bodies(_BODIES)
    ]
    session = Session([], cycle(requests))
    for line in sys.stdin:
        word, _, number = line.strip().partition(" ")
        answer = "done"
        match word:
            case "open":
                connections = [
                    Connection(*await asyncio.open_connection("127.0.0.1", port, ssl=tls))
                    for _ in range(int(number))
                ]
                await Session(connections, cycle(requests)).call(_WARM_CALLS * len(connections))
                session = Session(connections, cycle(requests))
            case "call":
                await session.call(int(number))
            case "close":
                await session.close()
                answer = orjson.dumps(asdict(session.sum_up())).decode()
            case _:
                raise ValueError(f"expected open, call or close, got {line!r}")
        print(answer, flush=True)


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]), sys.argv[2]))
