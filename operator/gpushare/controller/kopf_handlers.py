"""Everything about Kopf: what it watches, and its settings.

Kopf brings us the pools that changed, starts and stops us, and serves the webhook in the all-in-one
role. It writes nothing, and decides nothing.
"""

import itertools
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Protocol

import aiohttp

from gpushare import names
from gpushare.controller.kopf_import import kopf
from gpushare.kube.watch_health import OVERTIME_SECONDS, WATCH_SECONDS

_KOPF_LOGGERS = ("kopf._core.reactor.orchestration", "kopf._core.reactor.running", "asyncio")
"""Loggers of the tasks that watch; asyncio's reports a task that failed while Kopf was ending."""
RETRY_DELAYS_SECONDS = (1, 1, 2, 3, 5)


class PoolListener(Protocol):
    """Called with each pool that Kopf reports, as it is then, or was when it was deleted."""

    def __call__(self, raw: dict[str, Any], *, deleted: bool) -> None: ...


class EndlessDelays:
    """Delays between Kopf's retries: a finite list would end the process with the outage."""

    def __iter__(self) -> Iterator[float]:
        return itertools.chain(RETRY_DELAYS_SECONDS, itertools.repeat(RETRY_DELAYS_SECONDS[-1]))


def build_registry(
    *,
    on_pool: PoolListener,
    on_cleanup: Callable[[], Awaitable[None]],
    open_session: Callable[[], aiohttp.ClientSession],
    server: str,
) -> kopf.OperatorRegistry:
    """Register the handlers. `on_cleanup` must end all tasks of ours: Kopf waits 5 s for strays."""
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:
        return kopf.AiohttpSession(server=server, aiohttp_session=open_session())

    @kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, registry=registry)
    async def pool_changed(event: kopf.RawEvent, **_: Any) -> None:
        on_pool(dict(event["object"]), deleted=event["type"] == "DELETED")

    @kopf.on.cleanup(registry=registry)
    async def cleanup(**_: Any) -> None:
        await on_cleanup()

    return registry


def hush_missing_crd() -> None:
    """Keep Kopf from logging with tracebacks what a controller then says in a sentence."""

    def tells_of_more(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        is_kopfs = type(error).__module__.startswith("kopf.")
        return error is None or not (is_kopfs and tells_of_missing_crd(error))

    for name in _KOPF_LOGGERS:
        logging.getLogger(name).addFilter(tells_of_more)


def tells_of_missing_crd(error: BaseException) -> bool:
    """Tell whether Kopf ended because the CRD of pools is missing: it watches nothing else.

    Its own class for that is private.
    """
    return getattr(error, "status", None) == 404


def build_settings(webhook_server: Any = None) -> kopf.OperatorSettings:
    """Build Kopf's settings, with the reason for each that is not the default."""
    settings = kopf.OperatorSettings()
    # A Lease of our own elects the active one; Kopf's peering has no lock.
    settings.peering.standalone = True
    # The CRD is there before we start; watching CRDs and namespaces would need more rights.
    settings.scanning.disabled = True
    # Logs are not Events; ours are posted where something changed.
    settings.posting.enabled = False
    # The chart owns the webhook configuration; Kopf would remove it at every exit.
    settings.admission.managed = None
    settings.admission.server = webhook_server
    settings.watching.chunk_size = 500
    # As the watches of ours: else a quiet one and a deaf one look alike, and a connection that died
    # without a word is noticed after 70 s.
    settings.watching.server_timeout = int(WATCH_SECONDS)
    settings.watching.inactivity_timeout = WATCH_SECONDS + OVERTIME_SECONDS
    # The default kills this process 10 min after Kopf has ended, also where we begin anew then.
    settings.process.ultimate_exiting_timeout = None
    # The default keeps every object's last body for 5 s.
    settings.queueing.idle_timeout = 0.2
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 5
    settings.networking.error_backoffs = EndlessDelays()
    # Kopf takes away a finalizer of this name from objects that no handler of it holds: it must
    # not be ours.
    settings.persistence.finalizer = f"{names.GROUP}/unused"
    return settings
