"""Several webhooks behind one address, as a Deployment and its Service have them."""

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import aiohttp

from devcluster.installation import OperatorProcess
from devcluster.ports import is_free
from devcluster.relay import relay
from tests.kit.bench import Bench
from tests.kit.cluster.expect import expect

_POLL_SECONDS = 0.1
_WAIT_SECONDS = 60


@dataclass(frozen=True)
class Backend:
    """A webhook's process, by its ports on 127.0.0.1."""

    port: int
    probe_port: int
    """Where it answers /readyz."""


class Forwarder:
    """Listens on 127.0.0.1:`port` within its block, in a thread of its own.

    As with an EndpointSlice, new connections go in turn to those whose /readyz said ok when it was
    last asked, and those that exist stay where they are.
    """

    def __init__(self, port: int, backends: Sequence[Backend]) -> None:
        self._port = port
        self._backends = tuple(backends)
        self._turns = itertools.count()
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="forwarder", daemon=True)
        self.ready: tuple[Backend, ...] = ()
        """Those that get new connections now."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(_WAIT_SECONDS)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        async with asyncio.TaskGroup() as tasks:

            def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                forwarding.append(tasks.create_task(self._forward(reader, writer)))

            forwarding: list[asyncio.Task[None]] = []
            server = await asyncio.start_server(accept, "127.0.0.1", self._port)
            following = tasks.create_task(self._follow())
            await self._stopping.wait()
            server.close()
            for task in (following, *forwarding):
                task.cancel()

    async def _follow(self) -> None:
        timeout = aiohttp.ClientTimeout(total=1)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            while True:
                answers = await asyncio.gather(*(_probe(session, b) for b in self._backends))
                # Where none is ready, a Service goes on with those that are about to end.
                self.ready = tuple(itertools.compress(self._backends, answers)) or self.ready
                await asyncio.sleep(_POLL_SECONDS)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError):
            if not self.ready:
                return
            backend = self.ready[next(self._turns) % len(self.ready)]
            connection = await asyncio.open_connection("127.0.0.1", backend.port)
            await relay((reader, writer), connection)


async def _probe(session: aiohttp.ClientSession, backend: Backend) -> bool:
    try:
        async with session.get(f"http://127.0.0.1:{backend.probe_port}/readyz") as answer:
            return answer.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False


@contextlib.contextmanager
def two_webhooks(
    bench: Bench, env: Mapping[str, str] | None = None
) -> Iterator[Sequence[OperatorProcess]]:
    """Two `gpushare webhook` that the API server reaches by the configuration's address; the block
    begins when both are ready."""
    # From the end of the block of ports: probes take theirs from its beginning.
    free = [port for port in reversed(bench.cluster.ports.spare) if is_free(port)][:2]
    processes = [
        bench.operators.start(
            "webhook",
            identity=f"webhook-{port}",
            env={"GPUSHARE_WEBHOOK_PORT": str(port), **(env or {})},
            wait=False,
        )
        for port in free
    ]
    backends = [
        Backend(port, each.metrics_port) for port, each in zip(free, processes, strict=True)
    ]
    with Forwarder(bench.cluster.ports.webhook, backends) as forwarder:
        expect(bench, "both webhooks are ready", lambda: len(forwarder.ready) == len(backends))
        try:
            yield processes
        finally:
            for process in processes:
                process.kill()
