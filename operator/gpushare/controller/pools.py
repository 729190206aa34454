"""The pools as they were last listed, and what the loop writes on them besides their status."""

import asyncio
import logging
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from gpushare import names
from gpushare.api.pool import Pool
from gpushare.api.status import PoolStatus
from gpushare.api.unreadablepool import UnreadablePool
from gpushare.core.leaving import has_stalled
from gpushare.core.observed import Timing
from gpushare.kube import pools as pools_api
from gpushare.kube.client import ApiServer
from gpushare.kube.errors import CALL_FAILURES, describe_failure
from gpushare.kube.events import Events, Subject
from gpushare.names import Reason
from gpushare.settings import Settings

log = logging.getLogger(__name__)

SHOWN = 10
BELIEVED_AFTER_SECONDS = 60.0


class Pools:
    """All pools.

    Kopf's watch only says that something changed: it never tells when it has seen all, and a pool
    that was deleted during an outage stays in its memory for ever. So they are listed.
    """

    def __init__(self, api: ApiServer, events: Events, settings: Settings, timing: Timing):
        self.all: tuple[Pool, ...] = ()
        self.unreadable: tuple[UnreadablePool, ...] = ()
        self.not_adopted: dict[str, str] = {}
        """By UID, why our finalizer is not on a pool."""
        self.must_retry = False
        """A write to a pool failed: list them anew soon."""
        self._api = api
        self._events = events
        self._settings = settings
        self._patience = timing.leaving_patience
        self._listed_at: float | None = None
        self._version = 0
        self._old_since: float | None = None

    def mark_changed(self) -> None:
        """List them at the next pass."""
        self._listed_at = None

    async def refresh(self) -> bool:
        """List them where they may have changed, and adopt new ones; whether it was done.

        Raises what a call may raise, where the list can't be had, and `CrdMissingError`.
        """
        age = self._settings.resync_seconds
        if self._listed_at is not None and time.monotonic() - self._listed_at < age:
            return False
        self.must_retry = False
        self._listed_at = time.monotonic()
        listed = await pools_api.list_pools(self._api)
        if self._is_old(listed.version):
            self.must_retry = True
            return False
        self.all, self.unreadable = listed.pools, listed.unreadable
        await asyncio.gather(*(self._adopt(pool) for pool in self.all))
        return True

    def _is_old(self, version: int) -> bool:
        """Whether a list shows the past; after a while it is believed: etcd may be a backup now."""
        if version >= self._version:
            self._version, self._old_since = version, None
            return False
        now = time.monotonic()
        self._old_since = self._old_since or now
        log.warning(
            "the list of pools is of version %d, and %d was seen before: nothing is done by it",
            version,
            self._version,
        )
        if now - self._old_since < BELIEVED_AFTER_SECONDS:
            return True
        self._version, self._old_since = version, None
        return False

    async def release(
        self, pools: Iterable[Pool], held: dict[str, list[str]], now: datetime
    ) -> None:
        """Take our finalizer off; `held` are the nodes that did not finish, by pool."""
        await asyncio.gather(*(self._release(pool, held[pool.name], now) for pool in pools))

    async def _release(self, pool: Pool, left: list[str], now: datetime) -> None:
        try:
            is_dropped = await pools_api.drop_finalizer(self._api, pool)
        except CALL_FAILURES as error:
            self._note_failure(pool.name, error)
            return
        level = logging.INFO if is_dropped else logging.DEBUG
        log.log(
            level,
            "finalizer taken off: nothing is left to do",
            extra=about(pool, Reason.LEAVING),
        )
        if left and has_stalled(pool, now, self._patience):
            shown = ", ".join(left[:SHOWN]) + (", ..." if len(left) > SHOWN else "")
            note = (
                f"no node finished for {self._patience.total_seconds():g} s, so the pool goes "
                f"without these {len(left)}, which keep their labels: {shown}"
            )
            log.warning("%s", note, extra=about(pool, Reason.NODES_LEFT_BEHIND))
            self.tell(pool, Reason.NODES_LEFT_BEHIND, note)
        self.mark_changed()

    async def write_status(self, pool: Pool | UnreadablePool, status: PoolStatus) -> bool:
        """Whether it went through; one that is refused must not stop the others."""
        try:
            await pools_api.apply_status(self._api, pool, status)
        except CALL_FAILURES as error:
            self._note_failure(pool.name, error)
            return False
        self._update(pool.uid, status=status)
        return True

    def tell(
        self, pool: Pool | UnreadablePool, reason: Reason, note: str, *, warns: bool = True
    ) -> None:
        """Post an Event on the pool."""
        subject = Subject(names.API_VERSION, names.KIND, pool.name, pool.uid)
        self._events.post(subject, reason, note, warns=warns)

    def version_of(self, name: str) -> tuple[str, int] | None:
        """UID and generation of a pool, as it was last listed."""
        return next(((p.uid, p.generation) for p in self.all if p.name == name), None)

    async def _adopt(self, pool: Pool) -> None:
        """Our finalizer is on a pool before the first label is on a node."""
        if pool.deleting or pool.has_our_finalizer or pool.observes:
            return
        try:
            await pools_api.apply_finalizer(self._api, pool)
        except CALL_FAILURES as error:
            self._note_failure(pool.name, error)
            self.not_adopted[pool.uid] = str(error)
            return
        self.not_adopted.pop(pool.uid, None)
        log.info("finalizer set: its nodes come next", extra=about(pool, Reason.UPDATING))
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


def about(pool: Pool | UnreadablePool, reason: str) -> dict[str, object]:
    """What a line of the log about `pool` carries."""
    return {"pool": pool.name, "generation": pool.generation, "reason": reason}
