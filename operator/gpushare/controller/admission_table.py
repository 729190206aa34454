"""Keeps the admission table equal to the pools, beside the loop and without it."""

import asyncio
import contextlib
import logging
import math
import time
from dataclasses import replace

from gpushare import names
from gpushare.controller.backoff import find_delay
from gpushare.core.admission.pool_view import PoolView, view_pool
from gpushare.core.admission.table import build_table
from gpushare.kube.client import ApiClient, Json
from gpushare.kube.errors import CALL_FAILURES, ApiError, NotLeaderError, describe_failure
from gpushare.kube.informer import Informer
from gpushare.kube.resources import pools
from gpushare.kube.resources.admission_tables import find_table, write_table
from gpushare.observe.metrics.controller import ControllerMetrics

log = logging.getLogger(__name__)

PERIOD_SECONDS = 1.0
"""Shortest time between two writes; it also takes in bursts of changes."""
RECHECK_SECONDS = 20.0
"""Longest time between two looks at the table, which others may change or delete."""
_OBJECT = f"{names.TABLE_PLURAL}.{names.GROUP}/{names.TABLE_NAME}"
_COMMAND = f"kubectl get {names.TABLE_PLURAL} {names.TABLE_NAME} -o yaml"


class AdmissionTableKeeper:
    """Writes the table where it differs from the pools, as admission reads them.

    `api` must refuse writes while the Lease is not held. Failures are logged once for each new
    reason, and end nothing.
    """

    def __init__(self, api: ApiClient, metrics: ControllerMetrics) -> None:
        self._api, self._metrics = api, metrics
        self._changed = asyncio.Event()
        self._heard_at = math.nan
        """Time of the last word about the pools, as a Unix time."""
        self._pools: Informer[PoolView] = Informer(
            api,
            pools.PATH,
            _view_without_room,
            on_change=lambda key, old, new: self._changed.set(),
            on_alive=self._note_alive,
        )
        self._problem = ""
        """What prevents the table, as it was logged; empty where nothing does."""
        self._omitted = 0

    def _note_alive(self) -> None:
        self._heard_at = time.time()

    async def run(self) -> None:
        """Keep the table for ever. Raises `SyncLostError` where etcd was restored from a backup."""
        self._metrics.table_verified.set(0)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._pools.run())
                await self._pools.synced.wait()
                await self._keep_for_ever()
        finally:
            self._metrics.table_verified.set(math.nan)
            self._metrics.table_omitted.set(0)

    async def _keep_for_ever(self) -> None:
        failures = 0
        while True:
            self._changed.clear()
            try:
                problem = await self._keep()
            except NotLeaderError:
                # The Lease's own task ends the process; nothing was sent.
                await asyncio.sleep(PERIOD_SECONDS)
                continue
            except Exception as error:
                if isinstance(error, CALL_FAILURES):
                    self._tell(_describe(error))
                else:
                    log.exception("admission table not handled")
                await asyncio.sleep(find_delay(error, failures))
                failures += 1
                continue
            failures = 0
            self._tell(problem)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RECHECK_SECONDS):
                    await self._changed.wait()
            await asyncio.sleep(PERIOD_SECONDS)

    async def _keep(self) -> str:
        """Write the table where it differs; return why it still does, else an empty text."""
        heard_at = self._heard_at
        table = build_table(self._pools.records.values())
        self._note_omitted(table.omitted)
        spec = table.dump()
        found = await find_table(self._api)
        if found is None or found.get("spec") != spec:
            found = await write_table(self._api, found, spec)
            log.info("admission table written, with %d pools", table.count)
        if found.get("spec") != spec:
            return "the API server does not store all that was written: its CRD is another one"
        self._metrics.table_verified.set(heard_at)
        return ""

    def _note_omitted(self, omitted: int) -> None:
        self._metrics.table_omitted.set(omitted)
        if omitted > self._omitted:
            log.warning("%d pools are left out of the admission table for lack of space", omitted)
        self._omitted = omitted

    def _tell(self, problem: str) -> None:
        if problem and problem != self._problem:
            log.warning(
                "admission table not kept: %s. Expected: %s shows the pools, by which pods get one "
                "while no webhook answers. To look at it, run: %s",
                *(problem, _OBJECT, _COMMAND),
            )
        elif self._problem and not problem:
            log.info("admission table is kept again")
        self._problem = problem


def _view_without_room(raw: Json) -> PoolView | None:
    """View a pool; free memory, which changes all the time, is no part of the table."""
    view = view_pool(raw)
    return None if view is None else replace(view, room=None, observed_at="")


def _describe(error: Exception) -> str:
    if isinstance(error, ApiError) and error.is_not_found:
        crd = f"CustomResourceDefinition {names.TABLE_PLURAL}.{names.GROUP}"
        return f"{crd} is not installed (apply crds/{names.TABLE_PLURAL}.yaml)"
    return describe_failure(error)
