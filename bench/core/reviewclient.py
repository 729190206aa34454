"""``python -m bench.core.reviewclient PORT CA WHOSE``: reviews in a closed loop, over TLS.

Lines on stdin: ``open N`` connections, ``call`` N times, ``close`` and print the times as JSON.
"""

import asyncio
import ssl
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import cycle

import orjson

from bench.core.reviews import PATHS, Whose, build_bodies

_BODIES = 64
_WARM_CALLS = 50
_HEAD = (
    "POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUser-Agent: kube-apiserver-admission"
    "\r\nContent-Length: {length}\r\nAccept: application/json, */*\r\n"
    "Content-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"
)

Request = tuple[bytes, bytes]
"""Head and body of an HTTP request."""
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True)
class Loop:
    """Results of a closed loop of calls."""

    calls: int
    seconds: float
    p50_ms: float
    cpu_us: float = 0.0
    """CPU time of the server's process for each call, which the client can't measure."""

    @property
    def per_second(self) -> float:
        return self.calls / self.seconds


class Client:
    """Open connections, and the durations of their calls."""

    def __init__(self, connections: list[Connection], requests: Iterator[Request]) -> None:
        self._connections, self._requests = connections, requests
        self._seconds = 0.0
        self._waits: list[float] = []

    async def call(self, calls: int) -> None:
        """Make calls, one after another on each connection."""
        left = iter(range(calls))

        async def work(connection: Connection) -> None:
            for _ in left:
                started = time.perf_counter()
                await _call(connection, next(self._requests))
                self._waits.append(time.perf_counter() - started)

        started = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for connection in self._connections:
                group.create_task(work(connection))
        self._seconds += time.perf_counter() - started

    async def close(self) -> Loop:
        """Close the connections; return the results of all calls after the warm-up."""
        for _, writer in self._connections:
            writer.close()
            await writer.wait_closed()
        return Loop(len(self._waits), self._seconds, 1000 * statistics.median(self._waits))


async def _call(connection: Connection, request: Request) -> None:
    """Make a call. Raises RuntimeError where the pod is not patched."""
    reader, writer = connection
    # As the API server does: two TLS records, which arrive together or apart.
    for part in request:
        writer.write(part)
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
    body = await reader.readexactly(length)
    if not head.startswith(b"HTTP/1.1 200") or b'"patch":' not in body.replace(b" ", b""):
        raise RuntimeError(f"expected a patch, got {head[:40]!r} {body[:200]!r}")


async def _main(port: int, ca: str, whose: Whose) -> None:
    tls = ssl.create_default_context(cafile=ca)
    requests = cycle(
        (_HEAD.format(path=PATHS[whose], port=port, length=len(body)).encode(), body)
        for body in build_bodies(_BODIES, whose)
    )
    client = Client([], requests)
    for line in sys.stdin:
        word, _, number = line.strip().partition(" ")
        answer = b"done"
        match word:
            case "open":
                connections = [
                    await asyncio.open_connection("127.0.0.1", port, ssl=tls)
                    for _ in range(int(number))
                ]
                await Client(connections, requests).call(_WARM_CALLS * len(connections))
                client = Client(connections, requests)
            case "call":
                await client.call(int(number))
            case "close":
                answer = orjson.dumps(asdict(await client.close()))
        print(answer.decode(), flush=True)


if __name__ == "__main__":
    (asked,) = (each for each in PATHS if each == sys.argv[3])
    asyncio.run(_main(int(sys.argv[1]), sys.argv[2], asked))
