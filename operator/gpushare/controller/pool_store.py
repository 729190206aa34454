"""Holds the pools as the API server last showed them, and writes to them."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from gpushare import names
from gpushare.api.pool import Pool, UnreadablePool
from gpushare.api.status import PoolStatus
from gpushare.controller.backoff import RETRY_SECONDS, find_delay
from gpushare.core.nodechange.releasing import has_stalled
from gpushare.core.rollout.contest import is_unrecorded
from gpushare.core.snapshot.node import Timing
from gpushare.kube.client import ApiClient, Json
from gpushare.kube.errors import CALL_FAILURES, describe_failure
from gpushare.kube.events import Events, ObjectReference
from gpushare.kube.resources import pools as pools_api
from gpushare.names import Reason

log = logging.getLogger(__name__)

SHOWN = 10
BELIEVED_AFTER_SECONDS = 60.0
LIST_SECONDS = 60.0
"""Seconds between two lists of the pools, which do not depend on events."""


class Pools:
    """All pools: the events that Kopf delivers, and a list each minute beside them.

    Kopf does not report that it has seen all pools, nor which were deleted while it did not watch.
    `on_change` is called for each event that is no echo of our own writes, `on_list` for each list.
    """

    def __init__(
        self,
        api: ApiClient,
        events: Events,
        timing: Timing,
        on_change: Callable[[], None],
        on_list: Callable[[], None],
    ):
        self.all: tuple[Pool, ...] = ()
        """The pools when the last pass began, with later writes of the operator."""
        self.unreadable: tuple[UnreadablePool, ...] = ()
        self.not_adopted: dict[str, str] = {}
        """Why a pool does not have our finalizer, by UID."""
        self.must_retry = False
        """A write to a pool failed: try again soon."""
        self._api = api
        self._events = events
        self._patience = timing.release_patience
        self._notify = on_change
        self._note_list = on_list
        self._known: dict[str, Pool | UnreadablePool] = {}
        """The newest copy of each pool, by name."""
        self._gone: deque[str] = deque(maxlen=1_000)
        """UIDs of pools that were deleted since the last list that was taken in was begun."""
        self._changed: set[str] = set()
        self._in_flight: dict[str, PoolStatus] = {}
        """The status that is being written, by UID of the pool."""
        self._list_at = 0.0
        """Time of the next list, on the monotonic clock."""
        self._is_shown = False
        """Whether `all` and `unreadable` show `_known`."""
        self._listed = 0
        """resourceVersion of the last list: it showed all that came before. 0 before the first."""
        self._seen = 0
        """The highest resourceVersion of a list or a pool."""
        self._old_since: float | None = None

    def take(self, raw: Json, *, deleted: bool = False) -> None:
        """Take in a pool as an event shows it."""
        new = pools_api.parse_pool(raw)
        old = self._known.get(new.name)
        version = max(self._listed, old.resource_version if old is not None else 0)
        if new.uid in self._gone or new.resource_version <= version:
            return
        self._seen = max(self._seen, new.resource_version)
        self._is_shown = False
        if deleted:
            self._gone.append(new.uid)
            self._known.pop(new.name, None)
        else:
            self._known[new.name] = new
            if old is not None and self._is_echo(old, new):
                return
        self._changed.add(new.name)
        self._notify()

    def _is_echo(self, old: Pool | UnreadablePool, new: Pool | UnreadablePool) -> bool:
        """Tell whether nothing but the status differs, and that by a write of ours."""
        if new.status not in (old.status, self._in_flight.get(new.uid)):
            return False
        version = old.resource_version
        if isinstance(new, Pool):
            same = {"status": old.status, "resource_version": version}
            return new.model_copy(update=same) == old
        return replace(new, status=old.status, resource_version=version) == old

    def take_changed(self) -> set[str]:
        """Return the names of pools that something happened to since the last call."""
        changed, self._changed = self._changed, set()
        return changed

    @property
    def list_in_seconds(self) -> float:
        """Seconds until the next list is due; below 0 where it is overdue."""
        return self._list_at - time.monotonic()

    async def refresh(self) -> None:
        """Begin a pass with the pools as they are now, and adopt new ones.

        Lists them where a list is due. Before the first list that is taken in, raises what a call
        may raise; each list may raise `CrdMissingError`.
        """
        self.must_retry = False
        if not self._listed:
            # A refused first list is not hastened by events.
            await asyncio.sleep(self.list_in_seconds)
        if self.list_in_seconds <= 0:
            delay_seconds = RETRY_SECONDS
            try:
                if await self._list():
                    delay_seconds = LIST_SECONDS
            except CALL_FAILURES as error:
                delay_seconds = find_delay(error)
                if not self._listed:
                    raise
                log.warning("pools not listed: %s", describe_failure(error))
            finally:
                self._list_at = time.monotonic() + delay_seconds
        if not self._is_shown:
            self._is_shown = True
            known = [pool for _, pool in sorted(self._known.items())]
            self.all = tuple(pool for pool in known if isinstance(pool, Pool))
            self.unreadable = tuple(p for p in known if isinstance(p, UnreadablePool))
        new = [p for p in self.all if not (p.deleting or p.has_our_finalizer or p.observes)]
        if new:
            await asyncio.gather(*map(self._adopt, new))

    async def _list(self) -> bool:
        """Take in a list; return False where it is outdated."""
        gone, seen = set(self._gone), self._seen
        listed = await pools_api.list_pools(self._api)
        self._note_list()
        if self._is_old(listed.version, seen):
            return False
        self._listed, self._seen = listed.version, max(self._seen, listed.version)
        old = self._known
        found = {pool.name: pool for pool in listed.pools if pool.uid not in self._gone}
        # What came by an event while the list was under way may be newer than the list.
        newer = {k: v for k, v in old.items() if v.resource_version > listed.version}
        new = found | newer
        changed = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
        # An equal pool stays the same object: nothing need compare it again.
        self._known = new | {name: pool for name, pool in old.items() if name not in changed}
        self._gone = deque((uid for uid in self._gone if uid not in gone), self._gone.maxlen)
        self._is_shown = False
        self._changed |= changed
        return True

    def _is_old(self, version: int, seen: int) -> bool:
        """Tell whether a list is outdated; after a while it is believed: etcd may be restored."""
        if version >= seen:
            self._old_since = None
            return False
        now = time.monotonic()
        self._old_since = self._old_since or now
        log.warning(
            "the list of pools has version %d, older than %d, and is ignored",
            version,
            seen,
        )
        if now - self._old_since < BELIEVED_AFTER_SECONDS:
            return True
        self._old_since, self._seen = None, version
        self._known.clear()
        return False

    async def release(
        self, pools: Iterable[Pool], held: dict[str, list[str]], now: datetime
    ) -> None:
        """Remove our finalizer; `held` are the nodes that did not finish, by pool."""
        await asyncio.gather(*(self._release(pool, held[pool.name], now) for pool in pools))

    async def _release(self, pool: Pool, left: list[str], now: datetime) -> None:
        try:
            is_dropped = await pools_api.drop_finalizer(self._api, pool)
        except CALL_FAILURES as error:
            self._note_failure(pool.name, error)
            return
        self._update(pool.uid, finalizers=pool.finalizers - {names.FINALIZER})
        if not is_dropped:
            # Done before, and its event is on its way.
            return
        log.info("finalizer removed: nothing is left to do", extra=about(pool, Reason.RELEASING))
        if left and has_stalled(pool, now, self._patience):
            shown = ", ".join(left[:SHOWN]) + (", ..." if len(left) > SHOWN else "")
            note = (
                f"No node was released for {self._patience.total_seconds():g} s. The pool is gone, "
                f"and these nodes keep its labels: {shown}"
            )
            log.warning("%s", note, extra=about(pool, Reason.NODES_LEFT_BEHIND))
            self.tell(pool, Reason.NODES_LEFT_BEHIND, note)

    async def write_status(self, pool: Pool | UnreadablePool, status: PoolStatus) -> None:
        """Write the status. Raises what a call may raise."""
        self._in_flight[pool.uid] = status
        try:
            self.take(await pools_api.apply_status(self._api, pool, status))
        finally:
            del self._in_flight[pool.uid]
        self._update(pool.uid, status=status)
        if _list_needed(status) != _list_needed(pool.status):
            # What is agreed to, or wanted now, may begin now that it is stored.
            self._notify()

    def tell(
        self, pool: Pool | UnreadablePool, reason: Reason, note: str, *, warns: bool = True
    ) -> None:
        """Post an Event on the pool."""
        subject = ObjectReference(names.API_VERSION, names.KIND, pool.name, pool.uid)
        self._events.post(subject, reason, note, warns=warns)

    def list_names(self) -> tuple[list[str], list[str]]:
        """List the names of the pools that can be read, and of the others."""
        return [pool.name for pool in self.all], [pool.name for pool in self.unreadable]

    def list_unrecorded(self, now: datetime) -> set[str]:
        """List the pools with a change of their spec that is not in their status yet."""
        return {p.name for p in self.all if not p.deleting and is_unrecorded(p, now)}

    def version_of(self, name: str) -> tuple[str, int] | None:
        """Return UID and generation of a pool, as the last pass saw it."""
        return next(((p.uid, p.generation) for p in self.all if p.name == name), None)

    async def _adopt(self, pool: Pool) -> None:
        """Put our finalizer on a pool before the first label is on a node."""
        try:
            self.take(await pools_api.apply_finalizer(self._api, pool))
        except CALL_FAILURES as error:
            self._note_failure(pool.name, error)
            self.not_adopted[pool.uid] = str(error)
            self._changed.add(pool.name)
            return
        self.not_adopted.pop(pool.uid, None)
        log.info("finalizer set: nodes can be changed", extra=about(pool, Reason.UPDATING))
        self._update(pool.uid, finalizers=pool.finalizers | {names.FINALIZER})

    def _update(self, uid: str, **written: Any) -> None:
        """Show what was written to a pool; whatever else of it was listed meanwhile stays."""
        self.all = tuple(
            pool.model_copy(update=written) if pool.uid == uid else pool for pool in self.all
        )
        self.unreadable = tuple(
            replace(pool, **written) if pool.uid == uid else pool for pool in self.unreadable
        )

    def _note_failure(self, pool: str, error: BaseException) -> None:
        log.warning("pool not written: %s", describe_failure(error), extra={"pool": pool})
        self.must_retry = True


def _list_needed(status: PoolStatus) -> tuple[object, ...]:
    """List what must be stored before anything begins for it."""
    return status.approval, status.started_now, status.spec_changes


def about(pool: Pool | UnreadablePool, reason: str) -> dict[str, object]:
    """Build the fields of a log line about `pool`."""
    return {"pool": pool.name, "generation": pool.generation, "reason": reason}
