"""Runs the webhook, as a process or in the all-in-one process."""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import time
from collections.abc import AsyncIterator
from functools import partial

from gpushare.api.k8s.namespace import Namespace, parse_namespace
from gpushare.core.admission.pool_view import PoolView, view_pool
from gpushare.core.admission.request import build_rules
from gpushare.kube.client import ApiClient, connect
from gpushare.kube.informer import Informer
from gpushare.kube.resources import pools
from gpushare.kube.session import load_credentials
from gpushare.observe import http
from gpushare.observe.metrics import Metrics
from gpushare.settings import Settings
from gpushare.webhook.cache import NAMESPACES, POOLS, PoolCache
from gpushare.webhook.certificates import Certificate
from gpushare.webhook.decision_log import DecisionLog
from gpushare.webhook.handler import AdmissionHandler
from gpushare.webhook.readiness import ReadinessCall
from gpushare.webhook.server import PODS_PATH, AdmissionServer
from gpushare.workload_kinds import merge_kinds

log = logging.getLogger(__name__)

NAMESPACES_PATH = "api/v1/namespaces"


class Webhook:
    """Cache, certificate and server of the webhook in one process.

    An instance is a webhook server for Kopf's `settings.admission.server`.
    """

    def __init__(self, api: ApiClient, settings: Settings, metrics: Metrics):
        self._settings = settings
        self._cache = PoolCache(settings.stale_seconds, time.monotonic)
        self._certificate = certificate = Certificate(api, settings, metrics)
        self._self_call = ReadinessCall(
            settings.webhook_host,
            certificate.hosts[0],
            lambda: certificate.trust_pem,
            certificate.usable,
        )
        self._pools: Informer[PoolView] = Informer(
            api,
            pools.PATH,
            view_pool,
            on_change=self._cache.put_pool,
            on_alive=partial(self._note_event, POOLS, metrics),
        )
        self._namespaces: Informer[Namespace] = Informer(
            api,
            NAMESPACES_PATH,
            parse_namespace,
            on_change=self._cache.put_namespace,
            on_alive=partial(self._note_event, NAMESPACES, metrics),
        )
        self._decision_log = DecisionLog()
        handler = AdmissionHandler(
            self._cache,
            self._decision_log,
            metrics,
            rules=build_rules(settings),
            replicas=settings.webhook_replicas,
            kinds=merge_kinds(settings.workload_kinds),
        )
        self._server = AdmissionServer(handler, metrics, settings.max_calls_in_flight)

    async def __call__(self, fn: object) -> AsyncIterator[dict[str, str]]:
        """Yield the server's URL, then serve; Kopf's own handler, `fn`, is unused."""
        yield {"url": f"https://127.0.0.1:{self._settings.webhook_port}{PODS_PATH}"}
        await self.run()

    async def run(self) -> None:
        """Serve until cancelled, go on for `drain_seconds`, and finish the calls under way.

        API servers need that time to learn of the stop. Cancelled again, it ends at once. Raises
        OSError where the port is taken.
        """
        settings, tls = self._settings, self._certificate.tls
        async with asyncio.TaskGroup() as tasks:
            for run in (self._pools.run, self._namespaces.run, self._certificate.run):
                tasks.create_task(run())
            try:
                async with self._server.listening(
                    tls, host=settings.webhook_host, port=settings.webhook_port
                ) as port:
                    try:
                        # Runs until the group ends.
                        await tasks.create_task(self._self_call.run(port))
                    except asyncio.CancelledError:
                        self._server.calls.ending = True
                        await asyncio.sleep(settings.drain_seconds)
                        raise
            finally:
                # Only now are all calls finished.
                self._decision_log.flush()

    @property
    def is_ending(self) -> bool:
        """Whether the webhook is stopping, and serves on until its callers know."""
        return self._server.calls.ending

    def find_unready(self) -> str | None:
        """Find why the API server should not call; None where it can. A check for /readyz."""
        if self.is_ending:
            return "about to stop"
        if unsynced := self._cache.find_unsynced():
            return str(unsynced)
        return self._certificate.find_problem() or self._self_call.find_problem()

    def find_stalled(self) -> str | None:
        """Find a watch that is open but stalled; None where none is. A check for /livez."""
        limit_seconds = self._settings.stall_seconds
        of_pools = self._pools.watch_health.find_stalled(limit_seconds)
        return of_pools or self._namespaces.watch_health.find_stalled(limit_seconds)

    def _note_event(self, kind: str, metrics: Metrics) -> None:
        self._cache.note_event(kind)
        metrics.observe_watch(kind)


def spare_collector() -> None:
    """Exclude all existing objects from garbage collection, and collect less often.

    To be called when all modules are imported. Admission calls leave next to no garbage, except
    after a change of a pool, which drops what was remembered of pods.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)


async def run_webhook(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT, go on for `drain_seconds`, and return (`gpushare webhook`).

    Raises `CredentialsError`, and OSError where a port is taken.
    """
    metrics = Metrics()
    credentials = await load_credentials(settings.kubeconfig, settings.service_account, os.environ)
    async with connect(credentials, metrics.observe_api_request) as api:
        webhook = Webhook(api, settings, metrics)
        server = http.ProcessServer(
            metrics.generate,
            liveness=[webhook.find_stalled],
            readiness=[webhook.find_unready],
            is_stopping=lambda: webhook.is_ending,
        )
        # First, since it may fail: once begun, the webhook ends no sooner than its callers know.
        async with server.listening(host=settings.metrics_host, port=settings.metrics_port):
            spare_collector()
            serving = asyncio.create_task(webhook.run())
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
            with contextlib.suppress(asyncio.CancelledError):
                await serving
    log.info("stopped")
