"""/metrics, /livez and /readyz of a process, on a port of their own."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from aiohttp import web
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_1_0_0, generate_latest
from prometheus_client.registry import Collector

Check = Callable[[], str | None]
"""Says in a sentence what is wrong; None where nothing is."""


class _Taken(Collector):
    """Metrics as they were at one moment."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Sequence[Metric]:
        return self._metrics


def build_app(
    registry: CollectorRegistry, *, liveness: Sequence[Check] = (), readiness: Sequence[Check] = ()
) -> web.Application:
    """The application; a probe answers 200 `ok`, or 503 with a sentence a line.

    `liveness` finds what a restart of this process would mend, `readiness` why nobody should rely
    on it now; that the API server is away is none of the former.
    """

    async def metrics(request: web.Request) -> web.Response:
        # Taken in one go, since the loop changes what they are worked out from; to write 50,000
        # lines takes longer, and holds nobody up.
        taken = _Taken(tuple(registry.collect()))
        body = await asyncio.to_thread(generate_latest, taken)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_PLAIN_1_0_0})

    def probe(checks: Sequence[Check]) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def answer(request: web.Request) -> web.Response:
            flaws = [flaw for check in checks if (flaw := check())]
            if flaws:
                return web.Response(status=503, text="\n".join(flaws) + "\n")
            return web.Response(text="ok\n")

        return answer

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/livez", probe(liveness))
    app.router.add_get("/readyz", probe(readiness))
    return app


@contextlib.asynccontextmanager
async def listening(app: web.Application, *, host: str, port: int) -> AsyncIterator[None]:
    """Serve `app` within the block. Raises OSError where the port is taken."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        yield
    finally:
        await runner.cleanup()
