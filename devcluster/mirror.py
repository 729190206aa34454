"""Keeps a copy of a list of the API server by a watch."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Generic, Protocol, TypeVar

from devcluster.apiobject import Object
from devcluster.apiserver import ApiError
from devcluster.client import Client

log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 2.0


class Seen(Protocol):
    """An object that a Mirror can keep."""

    @property
    def version(self) -> int: ...


T = TypeVar("T", bound=Seen)


class Mirror(Generic[T]):
    """A copy of a list of the API server, kept up to date by a watch.

    `parse` returns None for objects that are not kept. `on_change` gets the old and new objects.
    """

    def __init__(
        self,
        client: Client,
        path: str,
        params: Mapping[str, str],
        parse: Callable[[Object], T | None],
        on_change: Callable[[T | None, T | None], None],
    ) -> None:
        self._client, self._path, self._params = client, path, params
        self._parse, self._on_change = parse, on_change
        self._items: dict[str, T] = {}
        self._position = 0
        self.synced = asyncio.Event()

    async def run(self) -> None:
        """List and watch for ever, also when the API server restarts."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                if not self._position:
                    await self._relist()
                async for kind, raw in self._client.watch(self._path, self._params, self._position):
                    self._take(kind, raw)
                    pause = FIRST_PAUSE_SECONDS
            except ApiError as error:
                log.info("%s", error)
                if error.status == 410:
                    self._position = 0
                    continue
            except OSError as error:
                log.info("%s", error)
            else:
                continue
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def overlay(self, raw: Object) -> None:
        """Record the answer to a write, unless the watch has a newer version."""
        if int(raw["metadata"]["resourceVersion"]) > self._position:
            self._put(raw["metadata"]["uid"], self._parse(raw))

    async def _relist(self) -> None:
        items, position = await self._client.list(self._path, self._params)
        present = {raw["metadata"]["uid"]: self._parse(raw) for raw in items}
        for uid, item in list(self._items.items()):
            if uid not in present and item.version <= position:
                self._put(uid, None)
        for uid, new in present.items():
            self._put(uid, new)
        self._position = position
        self.synced.set()

    def _take(self, kind: str, raw: Object) -> None:
        metadata = raw["metadata"]
        if kind != "BOOKMARK":
            self._put(metadata["uid"], None if kind == "DELETED" else self._parse(raw))
        self._position = int(metadata["resourceVersion"])

    def _put(self, uid: str, new: T | None) -> None:
        old = self._items.get(uid)
        if old is not None and new is not None and new.version <= old.version:
            return
        if new is None:
            self._items.pop(uid, None)
        else:
            self._items[uid] = new
        if old is not None or new is not None:
            self._on_change(old, new)
