"""``python -m tests.bench.admission.client PORT CA``: reviews in a closed loop, over TLS.

A process of its own, with little to do for a call, so that the server sets the pace. For each line
``CONNECTIONS CALLS`` on stdin it opens so many connections, says ``warm`` after some calls on each,
waits for another line, makes the calls, and says how long they took as a line of JSON.
"""

import asyncio
import ssl
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
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


async def _main(port: int, ca: str) -> None:
    tls = ssl.create_default_context(cafile=ca)
    bodies = build_bodies(_BODIES)
    requests = [(_HEAD.format(port=port, length=len(body)).encode(), body) for body in bodies]
    for line in sys.stdin:
        count, calls = map(int, line.split())
        connections = [
            Connection(*await asyncio.open_connection("127.0.0.1", port, ssl=tls))
            for _ in range(count)
        ]
        await _loop(connections, cycle(requests), _WARM_CALLS * count)
        print("warm", flush=True)
        sys.stdin.readline()
        print(orjson.dumps(asdict(await _loop(connections, cycle(requests), calls))).decode())
        sys.stdout.flush()
        for connection in connections:
            await connection.close()


async def _loop(connections: list[Connection], requests: Iterator[Request], calls: int) -> Loop:
    left = iter(range(calls))

    async def work(connection: Connection) -> list[float]:
        return [await connection.call(next(requests)) for _ in left]

    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        workers = [group.create_task(work(connection)) for connection in connections]
    seconds = time.perf_counter() - started
    waits = sorted(wait for worker in workers for wait in worker.result())
    p50, p99 = (1000 * waits[int(len(waits) * share)] for share in (0.5, 0.99))
    return Loop(calls, seconds, p50, p99, 1000 * waits[-1])


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]), sys.argv[2]))
