"""/metrics, /livez and /readyz of a process, on a port of their own."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence

from aiohttp import web
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_1_0_0, generate_latest
from prometheus_client.registry import Collector

from gpushare.observe.connections import Connections, Listener

log = logging.getLogger(__name__)

Check = Callable[[], str | None]
"""Says in a sentence what is wrong; None where nothing is."""
MAX_CONNECTIONS = 100
"""A kubelet and a few Prometheus servers need less than ten."""
REST = 9
"""Metrics are given out again for so many times as long as it took to write them: a tenth of a core
at the most, however many read them."""
MAX_AGE_SECONDS = 30.0
"""However long it took: a process that stood still must not be seen as it was for minutes."""
CHUNK_BYTES = 64 * 2**10
"""What waits for one reader; the rest is there once for all of them."""
READER_SECONDS = 30.0
"""One that takes longer is hung up on; Prometheus gives up itself after 10 s."""


class _Taken(Collector):
    """Metrics as they were at one moment."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Sequence[Metric]:
        return self._metrics


class MetricsText:
    """What /metrics answers: written once for all who ask while it is being written, or soon after.

    `clock` tells seconds.
    """

    def __init__(
        self, registry: CollectorRegistry, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._registry = registry
        self._clock = clock
        self._writing: asyncio.Task[bytes] | None = None
        self._fresh_until = 0.0

    async def read(self) -> bytes:
        """The text, of now or nearly so."""
        task = self._writing
        if task is None or (task.done() and self._clock() >= self._fresh_until):
            task = self._writing = asyncio.create_task(self._write(), name="metrics")
        # Who hangs up must not take it from the others.
        return await asyncio.shield(task)

    async def _write(self) -> bytes:
        began = self._clock()
        # Taken in one go, since the loop changes what they are worked out from; to write 50,000
        # lines takes longer, and holds nobody up.
        taken = _Taken(tuple(self._registry.collect()))
        text = await asyncio.to_thread(generate_latest, taken)
        ended = self._clock()
        self._fresh_until = ended + min(REST * (ended - began), MAX_AGE_SECONDS)
        return text


class ProcessServer:
    """Answers whoever reaches the port, and nobody is asked who they are: so none may cost much.

    A probe answers 200 `ok`, or 503 with a sentence a line. `liveness` finds what a restart of this
    process would mend, `readiness` why nobody should rely on it now; that the API server is away is
    none of the former.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        liveness: Sequence[Check] = (),
        readiness: Sequence[Check] = (),
    ) -> None:
        self.connections = Connections(MAX_CONNECTIONS)
        self._text = MetricsText(registry)
        self._checks = {"/livez": liveness, "/readyz": readiness}

    @contextlib.asynccontextmanager
    async def listening(self, *, host: str, port: int) -> AsyncIterator[None]:
        """Serve within the block. Raises OSError where the port is taken."""
        listener = Listener(self.handle, self.connections)
        runner = web.ServerRunner(listener, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
            yield
        finally:
            await runner.cleanup()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """The answer to any request."""
        if request.method != "GET":
            return web.Response(status=405, headers={"Allow": "GET"})
        if request.path == "/metrics":
            try:
                text = await self._text.read()
            except Exception:
                log.exception("the metrics can't be written")
                return web.Response(status=500, text="internal error; see the log\n")
            answer = await _send(request, text)
        elif (checks := self._checks.get(request.path)) is not None:
            answer = _probe(checks)
        else:
            return web.Response(status=404)
        self.connections.note_answer(request.protocol)
        return answer


async def _send(request: web.BaseRequest, metrics: bytes) -> web.StreamResponse:
    text = memoryview(metrics)
    answer = web.StreamResponse(headers={"Content-Type": CONTENT_TYPE_PLAIN_1_0_0})
    answer.content_length = len(text)
    try:
        async with asyncio.timeout(READER_SECONDS):
            await answer.prepare(request)
            for start in range(0, len(text), CHUNK_BYTES):
                await answer.write(text[start : start + CHUNK_BYTES])
    except (TimeoutError, ConnectionError):
        # Slow, or gone; which is nothing to tell of, and anybody can be.
        if request.transport is not None:
            request.transport.abort()
    return answer


def _probe(checks: Sequence[Check]) -> web.Response:
    flaws = [flaw for check in checks if (flaw := check())]
    if flaws:
        return web.Response(status=503, text="\n".join(flaws) + "\n")
    return web.Response(text="ok\n")
