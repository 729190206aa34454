"""Serves /metrics, /livez and /readyz of a process on their own port."""

import contextlib
import logging
import re
from collections.abc import AsyncIterator, Callable, Sequence

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_1_0_0

from gpushare.observe.connections import Connections, Listener

log = logging.getLogger(__name__)

Check = Callable[[], str | None]
"""Returns a sentence about the problem; None where there is none."""
MAX_CONNECTIONS = 20
"""Limit of connections: a kubelet and a few Prometheus servers need less than ten. Each may hold
metrics of some MiB that are read slowly."""


class ProcessServer:
    """Serves metrics and probes without authentication.

    `generate` writes the metrics. A probe answers 200 `ok`, or 503 with a sentence a line.
    `liveness` finds problems that a restart of this process solves, so not an unreachable API
    server; `readiness` finds why clients should not use it now. A probe's answer is logged when it
    changes: the kubelet's Events show only the status. Not being ready is no warning before the
    process was ready, nor once it `is_stopping`.
    """

    def __init__(
        self,
        generate: Callable[[], bytes],
        *,
        liveness: Sequence[Check] = (),
        readiness: Sequence[Check] = (),
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.connections = Connections(MAX_CONNECTIONS)
        self._generate = generate
        self._checks = {"/livez": liveness, "/readyz": readiness}
        self._is_stopping = is_stopping
        self._was_ready = False
        self._logged: dict[str, str] = {}

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
        """Answer any request."""
        if request.method != "GET":
            return web.Response(status=405, headers={"Allow": "GET"})
        if request.path == "/metrics":
            answer = self._write_metrics()
        elif request.path in self._checks:
            answer = self._probe(request.path)
        else:
            return web.Response(status=404)
        self.connections.note_answer(request.protocol)
        return answer

    def _write_metrics(self) -> web.Response:
        try:
            text = self._generate()
        except Exception:
            log.exception("cannot write the metrics")
            return web.Response(status=500, text="internal error; see the log\n")
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_PLAIN_1_0_0})

    def _probe(self, path: str) -> web.Response:
        problems = [problem for check in self._checks[path] if (problem := check())]
        text = "\n".join(problems)
        # Seconds in the text grow from probe to probe: that alone is no change.
        answer = re.sub(r"\d+", "", text)
        if answer != self._logged.get(path, ""):
            is_expected = path == "/readyz" and (not self._was_ready or self._is_stopping())
            for problem in problems:
                level = logging.INFO if is_expected else logging.WARNING
                log.log(level, "%s answers 503: %s", path, problem)
            if not problems:
                log.info("%s answers 200", path)
            self._logged[path] = answer
        self._was_ready |= path == "/readyz" and not problems
        if problems:
            return web.Response(status=503, text=f"{text}\n")
        return web.Response(text="ok\n")
