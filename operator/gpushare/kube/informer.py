"""Keeps a copy of one kind of object in memory, by a list and a watch.

Kopf's index of nodes costs quadratic time and never notices objects that vanished while a watch was
cut. This informer pages its lists, keeps small records, and after a relist reports the difference.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar

from gpushare.kube.client import ApiClient, Json, list_pages
from gpushare.kube.errors import (
    CALL_FAILURES,
    ApiError,
    MalformedAnswerError,
    SilentWatchError,
    SyncLostError,
    describe_failure,
)
from gpushare.kube.watch_health import WATCH_SECONDS, WatchHealth

log = logging.getLogger(__name__)

PAGE = 100
"""Objects of one page of a list. A parsed page is held until the next one is parsed, and Python
keeps that memory: 10 MiB and more for 500 Pods."""
RETURN_SECONDS = 2.0
"""Duration of the first watch after a failure: without changes only its end shows its health."""
HEALTHY_SECONDS = 1.0
"""A watch that ends sooner counts as failed, so that it is not opened again in a hot loop."""
REMEMBERED_DELETIONS = 1000
"""Limit of deletions kept, so that an old list does not bring a deleted object back."""
BACKOFF_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0)

Record = TypeVar("Record")


class EventHandler(Protocol):
    """Called for each record that appeared (`old` is None), changed, or is gone (`new` is None)."""

    def __call__(self, key: str, old: Any, new: Any) -> None: ...


class Informer(Generic[Record]):
    """Records of the objects under `path`, by `namespace/name` (or name alone).

    `project` makes the record, or None for an object that is not kept. Records compare by value:
    an event that does not change the record is not reported.
    """

    def __init__(
        self,
        api: ApiClient,
        path: str,
        project: Callable[[Json], Record | None],
        *,
        on_change: EventHandler = lambda key, old, new: None,
        on_alive: Callable[[], None] = lambda: None,
        params: Mapping[str, str] = MappingProxyType({}),
        refusal_seconds: float = 0.0,
    ):
        self._api = api
        self._path = path
        self._project = project
        self._on_change = on_change
        self._on_alive = on_alive
        self._params = dict(params)
        self._refusal_seconds = refusal_seconds
        """Pause after a 403 where the right to read is optional, else 0; all records are dropped
        at such a 403."""
        self.tried = asyncio.Event()
        """Set once the first list is complete, or failed."""
        self._records: dict[str, Record] = {}
        self._versions: dict[str, int] = {}
        self._gone: dict[str, int] = {}
        self._last_event = 0
        """The highest resourceVersion of a list or event: all objects up to it are known."""
        self._version: str | None = None
        self.watch_health = WatchHealth(path)
        self.synced = asyncio.Event()
        """Set once the first list is complete; cleared at a 403 where the right is optional."""

    @property
    def records(self) -> Mapping[str, Record]:
        return MappingProxyType(self._records)

    async def run(self) -> None:
        """List and watch for ever; after a failure wait a little and try again.

        Raises `SyncLostError` where etcd was restored from a backup.
        """
        failures = 0
        was_cut = False
        while True:
            watched_since: float | None = None
            try:
                if self._version is None:
                    self._version = await self._list()
                    self.synced.set()
                elif was_cut:
                    await self._expect_same_history(int(self._version))
                self.tried.set()
                seconds = RETURN_SECONDS if failures else WATCH_SECONDS
                was_cut = True
                watched_since = time.monotonic()
                await self._watch(self._version, seconds)
                was_cut = time.monotonic() - watched_since < seconds - HEALTHY_SECONDS
            except CALL_FAILURES as error:
                if _asks_for_a_list(error):
                    self._version = None
                if not isinstance(error, SilentWatchError):
                    self.watch_health.note()
                reason = describe_failure(error)
                log.warning("watch of %s interrupted: %s", self._path, reason)
                self.tried.set()
                if self._accepts_refusal(error):
                    self._forget()
                    await asyncio.sleep(self._refusal_seconds)
                    continue
            if watched_since is not None and time.monotonic() - watched_since >= HEALTHY_SECONDS:
                failures = 0
                continue
            await asyncio.sleep(BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS) - 1)])
            failures += 1

    def _accepts_refusal(self, error: Exception) -> bool:
        return self._refusal_seconds > 0 and isinstance(error, ApiError) and error.status == 403

    def _forget(self) -> None:
        """Drop all records: objects must be listed again, once that is allowed."""
        if self.synced.is_set():
            log.warning(
                "no right to read %s: its objects are unknown until that right is granted",
                self._path,
            )
        self._version = None
        self.synced.clear()
        known = dict(self._records)
        self._records.clear()
        self._versions.clear()
        for key, record in known.items():
            self._on_change(key, record, None)

    async def relist(self) -> None:
        """List all objects again, beside the watch, which continues.

        Tries until a list succeeds, or is refused where the right is optional.
        """
        failures = 0
        while True:
            try:
                await self._list()
                return
            except CALL_FAILURES as error:
                log.warning("%s not read: %s", self._path, describe_failure(error))
                if self._accepts_refusal(error):
                    return
            await asyncio.sleep(BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS) - 1)])
            failures += 1

    def offer(self, raw: Json) -> None:
        """Record an object that a write returned, before the watch reports it.

        Deciding on a copy that does not show our own writes yet would send them again. An unknown
        object that is not newer than the watch's last event was deleted meanwhile.
        """
        meta = raw["metadata"]
        if _key(meta) in self._versions or int(meta["resourceVersion"]) > self._last_event:
            self._take(raw, deleted=False)

    async def _expect_same_history(self, version: int) -> None:
        """Raise `SyncLostError` where the API server stays behind `version`, which it gave us.

        Only an etcd restored from a backup is behind for good, and restoring it restarts the API
        server, so this is checked after a watch that was cut. A watch from a future version would
        be accepted, and silent until then (kubernetes/kubernetes, issue 107457). An API server that
        is only late catches up between the tries.
        """
        for wait in (*BACKOFF_SECONDS, None):
            page = await anext(list_pages(self._api, self._path, **{**self._params, "limit": "1"}))
            if int(page.version) >= version:
                return
            behind = (
                f"list {self._path}: resourceVersion {page.version} is before {version}, which was "
                "read already"
            )
            if wait is None:
                raise SyncLostError(
                    f"{behind}: etcd was restored from a backup. Everything must be read again"
                )
            log.warning("%s; it is asked again", behind)
            await asyncio.sleep(wait)

    async def _list(self) -> str:
        listed: set[str] = set()
        version = ""
        async for page in list_pages(self._api, self._path, limit=str(PAGE), **self._params):
            self.watch_health.note()
            for raw in page.items:
                listed.add(_key(raw["metadata"]))
                self._take(raw, deleted=False)
            version = version or page.version
        for key in self._versions.keys() - listed:
            # An object that this process wrote after the list was taken is newer than the list.
            if self._versions[key] <= int(version):
                self._drop(key, int(version))
        self._last_event = max(self._last_event, int(version))
        # Only now: listeners expect the copy to be complete.
        self._on_alive()
        return version

    async def _watch(self, version: str, seconds: float) -> None:
        started = time.monotonic()
        stream = self._api.watch(
            self._path, timeout_seconds=seconds, resourceVersion=version, **self._params
        )
        async with contextlib.aclosing(stream) as events:
            async for event in events:
                raw = event["object"]
                if event["type"] == "ERROR":
                    raise ApiError.from_status(raw, what=f"watch {self._path}")
                if event["type"] != "BOOKMARK":
                    self._take(raw, deleted=event["type"] == "DELETED")
                self._version = raw["metadata"]["resourceVersion"]
                self._last_event = max(self._last_event, int(self._version))
                self.watch_health.note()
                self._on_alive()
        self.watch_health.note()
        # Where nothing changes the server may send no bookmark either.
        if time.monotonic() - started >= HEALTHY_SECONDS:
            self._on_alive()

    def _take(self, raw: Json, *, deleted: bool) -> None:
        meta = raw["metadata"]
        key = _key(meta)
        version = int(meta["resourceVersion"])
        if version < self._versions.get(key, 0) or version <= self._gone.get(key, 0):
            return
        if deleted:
            self._drop(key, version)
            return
        if version == self._versions.get(key):
            # The event of our own write, whose answer was recorded already.
            return
        self._versions[key] = version
        record, previous = self._project(raw), self._records.get(key)
        if record is not None:
            self._records[key] = record
        elif previous is not None:
            del self._records[key]
        if record != previous:
            self._on_change(key, previous, record)

    def _drop(self, key: str, version: int) -> None:
        self._versions.pop(key, None)
        self._gone.pop(key, None)
        self._gone[key] = version
        if len(self._gone) > REMEMBERED_DELETIONS:
            del self._gone[next(iter(self._gone))]
        if (previous := self._records.pop(key, None)) is not None:
            self._on_change(key, previous, None)


def _asks_for_a_list(error: Exception) -> bool:
    """Tell whether a watch from this version would fail again: too old, or an event too long."""
    return isinstance(error, MalformedAnswerError) or (
        isinstance(error, ApiError) and error.is_expired
    )


def _key(metadata: Json) -> str:
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])
