"""The controller as a process: what starts, in which order, and how it ends."""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Protocol, cast

from gpushare.controller.admission_table import AdmissionTableKeeper
from gpushare.controller.kopf_handlers import (
    build_registry,
    build_settings,
    hush_missing_crd,
    tells_of_missing_crd,
)
from gpushare.controller.kopf_import import kopf
from gpushare.controller.reconciler import Reconciler
from gpushare.kube.client import ApiClient, connect
from gpushare.kube.errors import (
    CALL_FAILURES,
    ApiError,
    CrdMissingError,
    SyncLostError,
    describe_failure,
)
from gpushare.kube.leaderelection import LeaderElectionConfig, LeaderElector
from gpushare.kube.resources.pools import check_crd
from gpushare.kube.session import load_credentials, open_session
from gpushare.observe import http
from gpushare.observe.metrics import Metrics
from gpushare.observe.metrics.controller import ControllerMetrics
from gpushare.settings import Settings

log = logging.getLogger(__name__)

CRD_RETRY_SECONDS = 2.0
PATIENCE = 2
"""The Lease is given up after so many times `stall_seconds` without word of a kind of object. After
one of them a silent watch makes /livez fail; what is refused for so long may pass by itself."""
UNSYNCED_PERIOD_SECONDS = 1.0


class WebhookServer(Protocol):
    """The webhook, in the all-in-one role: Kopf serves it."""

    def __call__(self, fn: object) -> AsyncIterator[dict[str, str]]: ...

    def find_unready(self) -> str | None: ...

    def find_stalled(self) -> str | None: ...


async def run_controller(
    settings: Settings,
    *,
    build_webhook: Callable[[ApiClient, Settings, Metrics], WebhookServer] | None = None,
) -> None:
    """Run until SIGTERM or SIGINT; then let go of the Lease, so that another takes over at once,
    and end when the webhook, where there is one, has finished its calls.

    Without the CRD there is nothing to do: where it is missing, or is removed, it is waited for.
    Raises `CredentialsError`, `LeaseLostError`, `SyncLostError`, and OSError where a port is taken.
    """
    metrics = ControllerMetrics(
        per_application=settings.per_application_metrics, per_node=settings.per_node_metrics
    )
    stopping = asyncio.Event()
    _set_on_signal(stopping)
    hush_missing_crd()
    while not stopping.is_set():
        try:
            await _run_with_crd(settings, metrics, build_webhook, stopping)
            break
        except* CrdMissingError:
            log.warning("the pools' CRD was removed: waiting until it is back")
    log.info("stopped")


async def _run_with_crd(
    settings: Settings,
    metrics: ControllerMetrics,
    build_webhook: Callable[[ApiClient, Settings, Metrics], WebhookServer] | None,
    stopping: asyncio.Event,
) -> None:
    """Wait for the CRD, then run until `stopping`. Raises `CrdMissingError` once it is removed."""
    crd = _Crd()
    credentials = await load_credentials(settings.kubeconfig, settings.service_account, os.environ)
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(connect(credentials, metrics.observe_api_request))
        lease_settings = LeaderElectionConfig(
            namespace=settings.namespace,
            name=settings.lease_name,
            identity=settings.identity,
            duration_seconds=settings.lease_duration_seconds,
            renew_seconds=settings.lease_renew_seconds,
        )
        lease = LeaderElector(api, lease_settings)
        fenced = api.only_while(lambda: lease.is_held)
        reconciler = Reconciler(fenced, settings, metrics)
        table = AdmissionTableKeeper(fenced, metrics) if settings.admission_table else None
        webhook = build_webhook(api, settings, metrics) if build_webhook else None
        liveness: list[http.Check] = [
            reconciler.find_standstill,
            partial(reconciler.informers.find_stalled, settings.stall_seconds),
        ]
        patience = PATIENCE * settings.stall_seconds
        # One that stands by is ready too: it can take over.
        readiness: list[http.Check] = [lambda: crd.problem, reconciler.informers.find_unlisted]
        if webhook is None:
            # Beside a webhook this would take it out of its Service.
            readiness.append(partial(reconciler.informers.find_unsynced, patience))
        else:
            liveness.append(webhook.find_stalled)
            readiness.append(webhook.find_unready)
        server = http.ProcessServer(
            metrics.generate,
            liveness=liveness,
            readiness=readiness,
            is_stopping=stopping.is_set,
        )
        await stack.enter_async_context(
            server.listening(host=settings.metrics_host, port=settings.metrics_port)
        )
        finding = asyncio.create_task(crd.wait(api), name="CRD")
        told = asyncio.create_task(stopping.wait(), name="stop")
        stack.callback(told.cancel)
        await asyncio.wait({told, finding}, return_when=asyncio.FIRST_COMPLETED)
        if not finding.done():
            finding.cancel()
            return
        await finding
        active = asyncio.create_task(
            _be_active(lease, reconciler, metrics, patience, table), name="active"
        )
        one_at_a_time = asyncio.Lock()

        async def release_lease() -> None:
            # A second caller returns once the first has released it.
            async with one_at_a_time:
                active.cancel()
                await asyncio.gather(active, return_exceptions=True)
                await lease.release()
                metrics.leader.set(0)

        async def stop() -> None:
            await release_lease()
            metrics.forget_watches()
            await stack.aclose()

        registry = build_registry(
            on_pool=reconciler.pools.take,
            on_cleanup=stop,
            open_session=partial(open_session, credentials),
            server=credentials.host,
        )
        has_begun, ending = asyncio.Event(), asyncio.Event()
        watching = asyncio.create_task(
            kopf.operator(
                registry=registry,
                settings=build_settings(webhook),
                clusterwide=True,
                # Else Kopf asks for the name of the user, and the image's UID has none. The type
                # that it declares for this is not public.
                identity=cast(Any, settings.identity),
                stop_flag=ending,
                ready_flag=has_begun,
            ),
            name="kopf",
        )
        rearming = asyncio.create_task(_rearm(has_begun, stopping), name="signals")
        stack.callback(rearming.cancel)
        try:
            await asyncio.wait({told, active, watching}, return_when=asyncio.FIRST_COMPLETED)
            # Not by cancelling: where Kopf is ending already, its error and its webhook are lost.
            ending.set()
            # Its end waits for the webhook, and that for calls, while nobody would be active.
            await release_lease()
            await asyncio.gather(watching, return_exceptions=True)
        finally:
            await stop()
        for task in (active, watching):
            if not task.cancelled() and (error := task.exception()) is not None:
                raise CrdMissingError if tells_of_missing_crd(error) else error


class _Crd:
    """Tells whether the API server serves pools, for which Kopf does not wait by itself."""

    def __init__(self) -> None:
        self.problem: str | None = "the API server has not answered yet"
        """Why the API server does not serve pools; None where it does."""

    async def wait(self, api: ApiClient) -> None:
        """Return once the API server serves pools."""
        while (problem := await self._look(api)) is not None:
            if problem != self.problem:
                log.warning("%s", problem)
            self.problem = problem
            await asyncio.sleep(CRD_RETRY_SECONDS)
        self.problem = None

    async def _look(self, api: ApiClient) -> str | None:
        try:
            await check_crd(api)
        except CrdMissingError as error:
            return str(error)
        except CALL_FAILURES as error:
            if isinstance(error, ApiError) and not error.is_transient:
                raise
            return f"the API server is not ready: {describe_failure(error)}"
        return None


async def _be_active(
    lease: LeaderElector,
    reconciler: Reconciler,
    metrics: ControllerMetrics,
    patience_seconds: float,
    table: AdmissionTableKeeper | None = None,
) -> None:
    """Fill the caches, stand by, and reconcile while the Lease is ours.

    Raises `SyncLostError` after `patience_seconds` without word of something: another may see it.
    """
    find_unsynced = partial(reconciler.informers.find_unsynced, patience_seconds)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(reconciler.informers.run())
        await reconciler.informers.wait_synced()
        await lease.acquire(find_unsynced)
        log.info("active")
        metrics.leader.set(1)
        tasks.create_task(lease.keep())
        tasks.create_task(_end_when_unsynced(find_unsynced))
        try:
            async with asyncio.timeout(patience_seconds):
                await reconciler.informers.relist()
        except TimeoutError as error:
            raise SyncLostError(
                "the Lease is given up: nodes, pods and all else that decisions read could not be "
                f"listed anew within {patience_seconds:g} s"
            ) from error
        tasks.create_task(reconciler.run())
        if table is not None:
            tasks.create_task(table.run())


async def _end_when_unsynced(find_unsynced: Callable[[], str | None]) -> None:
    while True:
        if (unsynced := find_unsynced()) is not None:
            raise SyncLostError(f"the Lease is given up: {unsynced}")
        await asyncio.sleep(UNSYNCED_PERIOD_SECONDS)


def _set_on_signal(stopping: asyncio.Event) -> None:
    """Have SIGTERM and SIGINT set `stopping`."""
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)


async def _rearm(has_begun: asyncio.Event, stopping: asyncio.Event) -> None:
    """Take the signals back from Kopf, which handles none once it has ended for another reason."""
    await has_begun.wait()
    _set_on_signal(stopping)
