"""Caches the pools and namespaces that the webhook decides by, from two watches."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import TypeVar

from gpushare import names
from gpushare.api.k8s.namespace import Namespace
from gpushare.core.admission.pool_view import PoolView
from gpushare.names import Reason

POOLS = names.PLURAL
NAMESPACES = "namespaces"
NAMESPACE_SECONDS = 2.0
"""Limit of waiting for a namespace that was created together with its pod. The API server gives up
after 3 s, and a busy one may take most of them to report the namespace."""


Record = TypeVar("Record")


class UndecidedError(Exception):
    """The cache can't answer, so the API server's failurePolicy decides; the message says why."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class UnknownNamespaceError(UndecidedError):
    """Namespace `name` is not in the cache yet: it and its pods are often created together."""

    def __init__(self, name: str) -> None:
        super().__init__(Reason.UNKNOWN_NAMESPACE, f"namespace {name} is not known yet")
        self.name = name


class PoolCache:
    """Pools and namespaces. Watches write them by `put_*` and `note_event`; calls only read.

    A kind that is not listed yet, or whose watch was silent for `stale_seconds`, can't be used.
    `clock` returns seconds, and never goes back.
    """

    def __init__(self, stale_seconds: float, clock: Callable[[], float]) -> None:
        self._stale_seconds = stale_seconds
        self._clock = clock
        self._last_event: dict[str, float | None] = {POOLS: None, NAMESPACES: None}
        self._pools: dict[str, PoolView] = {}
        self.pools: tuple[PoolView, ...] = ()
        self._namespaces: dict[str, Namespace] = {}
        self._namespace_added = asyncio.Event()

    def find_unsynced(self) -> UndecidedError | None:
        """Find why the cache can't be used now; None where it can."""
        now = self._clock()
        for kind, last_events in self._last_event.items():
            if last_events is None:
                return UndecidedError(Reason.NOT_SYNCED, f"{kind} are not known yet")
            if now - last_events > self._stale_seconds:
                return UndecidedError(
                    Reason.STALE_CACHE,
                    f"the watch of {kind} has been silent for {now - last_events:.0f} s (limit "
                    f"{self._stale_seconds:g} s). Check the connection to the API server",
                )
        return None

    def recall(self, name: str) -> tuple[Namespace, tuple[PoolView, ...]]:
        """Return the namespace and the pools. Raises `UndecidedError` where one is not known."""
        if unsynced := self.find_unsynced():
            raise unsynced
        namespace = self._namespaces.get(name)
        if namespace is None:
            raise UnknownNamespaceError(name)
        return namespace, self.pools

    async def wait_for_namespace(self, name: str) -> None:
        """Return when the namespace is known, or after 2 s."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(NAMESPACE_SECONDS):
                while name not in self._namespaces:
                    await self._namespace_added.wait()

    def note_event(self, kind: str) -> None:
        """Note that the watch of `kind`, whose first list is complete, is alive."""
        self._last_event[kind] = self._clock()

    def put_pool(self, key: str, old: PoolView | None, new: PoolView | None) -> None:
        """Record a pool that was added, changed or deleted; a listener of its informer."""
        _put(self._pools, key, new)
        self.pools = tuple(self._pools.values())

    def put_namespace(self, key: str, old: Namespace | None, new: Namespace | None) -> None:
        """Record a namespace that was added, changed or deleted; a listener of its informer."""
        _put(self._namespaces, key, new)
        if old is None:
            self._namespace_added.set()
            self._namespace_added = asyncio.Event()


def _put(records: dict[str, Record], key: str, record: Record | None) -> None:
    if record is None:
        records.pop(key, None)
    else:
        records[key] = record
