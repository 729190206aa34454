"""/metrics, /livez and /readyz of a process, on a port of their own."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_1_0_0

from gpushare.observe.connections import Connections, Listener

log = logging.getLogger(__name__)

Check = Callable[[], str | None]
"""Says in a sentence what is wrong; None where nothing is."""
MAX_CONNECTIONS = 100
"""A kubelet and a few Prometheus servers need less than ten."""
REST = 4
"""After a text was written, the pause before the next is so many times the CPU time that it took,
for each reader, since sending it takes about as long: a fifth of a core, where the pause is not cut
short by `LONGEST_REST_SECONDS`."""
LONGEST_REST_SECONDS = 2.0
"""Prometheus gives up after 10 s."""
READING_SECONDS = 5.0
"""How long the next ones wait for those who read: what is still being read stays in memory."""
CHUNK_BYTES = 64 * 2**10
"""What waits for one reader; the rest is there once for all of them."""
READER_SECONDS = 30.0
"""One that takes longer is hung up on; Prometheus gives up itself after 10 s."""


@dataclass(frozen=True, slots=True)
class _Reader:
    """A request for /metrics; `done` is set when its text is sent."""

    text: asyncio.Future[bytes | None]
    done: asyncio.Event


class MetricsText:
    """The text of /metrics, written once for all requests that wait for it.

    No request gets a text that was begun before it came, since that lacks what was counted
    meanwhile. One that comes while others are being answered waits for the next text.
    """

    def __init__(self, generate: Callable[[], bytes]) -> None:
        self._generate = generate
        self._waiting: list[_Reader] = []
        self._writing: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def reading(self) -> AsyncIterator[bytes | None]:
        """The text, of now or later, until the end of the block; None where there can be none."""
        reader = _Reader(asyncio.get_running_loop().create_future(), asyncio.Event())
        self._waiting.append(reader)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write(), name="metrics")
        try:
            yield await reader.text
        finally:
            reader.done.set()

    async def _write(self) -> None:
        while self._waiting:
            readers, self._waiting = self._waiting, []
            # Not the time that passes: on a busy machine that is the others'.
            began = time.thread_time()
            self._give(readers)
            took = time.thread_time() - began
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(READING_SECONDS):
                    for reader in readers:
                        await reader.done.wait()
            await asyncio.sleep(min(REST * took * len(readers), LONGEST_REST_SECONDS))

    def _give(self, readers: Sequence[_Reader]) -> None:
        text: bytes | None = None
        try:
            text = self._generate()
        except Exception:
            log.exception("the metrics can't be written")
        for reader in readers:
            # Who hung up meanwhile waits no more.
            if not reader.text.done():
                reader.text.set_result(text)


class ProcessServer:
    """Answers whoever reaches the port, and nobody is asked who they are: so none may cost much.

    `generate` writes the metrics. A probe answers 200 `ok`, or 503 with a sentence a line.
    `liveness` finds what a restart of this process would mend, `readiness` why nobody should rely
    on it now; that the API server is away is none of the former.
    """

    def __init__(
        self,
        generate: Callable[[], bytes],
        *,
        liveness: Sequence[Check] = (),
        readiness: Sequence[Check] = (),
    ) -> None:
        self.connections = Connections(MAX_CONNECTIONS)
        self._text = MetricsText(generate)
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
            async with self._text.reading() as text:
                if text is None:
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
                # While the system takes it all, writing lets nothing else happen.
                await asyncio.sleep(0)
    except (TimeoutError, ConnectionError):
        # Slow, or gone; which is nothing to tell of, and anybody can be.
        if request.transport is not None:
            request.transport.abort()
    return answer


def _probe(checks: Sequence[Check]) -> web.Response:
    problems = [problem for check in checks if (problem := check())]
    if problems:
        return web.Response(status=503, text="\n".join(problems) + "\n")
    return web.Response(text="ok\n")
