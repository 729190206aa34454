"""The webhook as a process, and as part of the all-in-one process."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Sequence
from functools import partial

from gpushare import names
from gpushare.core.admission import PoolView, view_pool
from gpushare.kube import pools
from gpushare.kube.client import ApiServer, connect
from gpushare.kube.reflector import Reflector
from gpushare.observe import http
from gpushare.observe.metrics import Metrics
from gpushare.settings import Settings
from gpushare.webhook.certificate import Certificate
from gpushare.webhook.server import PATH, build_app, listening

log = logging.getLogger(__name__)


class Webhook:
    """Everything that answers admission in one process: pools, certificate, server.

    It is a webhook server as Kopf's `settings.admission.server` takes one.
    """

    def __init__(self, api: ApiServer, settings: Settings, metrics: Metrics):
        self._settings = settings
        self._metrics = metrics
        self._certificate = Certificate(api, settings, metrics)
        self._pools: Reflector[PoolView] = Reflector(
            api, pools.PATH, view_pool, on_alive=partial(metrics.observe_watch, names.PLURAL)
        )

    async def __call__(self, fn: object) -> AsyncIterator[dict[str, str]]:
        """Yield where the server is, then serve; Kopf's own way of answering, `fn`, is unused."""
        yield {"url": f"https://127.0.0.1:{self._settings.webhook_port}{PATH}"}
        await self.run()

    async def run(self) -> None:
        """Serve until cancelled, then finish what is under way.

        Raises OSError where the port is taken.
        """
        settings = self._settings
        app = build_app(self._known_pools, self._metrics)
        async with (
            listening(
                app, self._certificate.tls, host=settings.webhook_host, port=settings.webhook_port
            ),
            asyncio.TaskGroup() as tasks,
        ):
            tasks.create_task(self._pools.run())
            tasks.create_task(self._certificate.run())

    def find_unready(self) -> str | None:
        """Why it can't answer the API server; None where it can. A check for /readyz."""
        if not self._pools.synced.is_set():
            return "pools are not known yet"
        return self._certificate.find_flaw()

    def _known_pools(self) -> Sequence[PoolView] | None:
        if not self._pools.synced.is_set():
            return None
        return tuple(self._pools.records.values())


async def run_webhook(settings: Settings) -> None:
    """`gpushare webhook`: serve until SIGTERM or SIGINT, finish what is under way, return.

    Raises `CredentialsError`, and OSError where a port is taken.
    """
    metrics = Metrics()
    async with await connect(settings.kubeconfig, metrics.observe_api_request) as api:
        webhook = Webhook(api, settings, metrics)
        app = http.build_app(metrics.registry, readiness=[webhook.find_unready])
        serving = asyncio.create_task(webhook.run())
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
        async with http.listening(app, host=settings.metrics_host, port=settings.metrics_port):
            with contextlib.suppress(asyncio.CancelledError):
                await serving
    log.info("stopped")
