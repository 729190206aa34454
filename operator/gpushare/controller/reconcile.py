"""The loop: observe, plan, apply; level-based, for all pools at once.

Overlap makes every decision global, so one loop decides. It reads from memory, does at most what
the plan allows, and comes back whenever something changed.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import chain

from gpushare import names
from gpushare.api.pool import Pool
from gpushare.controller.apply import Applier
from gpushare.controller.caches import Caches
from gpushare.core.actions import LookAgain, NodePlan, NodeState
from gpushare.core.plan import Plan, plan_world
from gpushare.core.rollout import Timing
from gpushare.core.status import build_status
from gpushare.kube import pools as pools_api
from gpushare.kube.client import ApiServer
from gpushare.kube.errors import CALL_FAILURES, ApiError, NotLeaderError
from gpushare.kube.events import Subject, post_event
from gpushare.observe.metrics import Metrics
from gpushare.settings import Settings

log = logging.getLogger(__name__)

COALESCE_SECONDS = 0.05
"""Changes come in bursts; one pass answers all that came within this time."""
STANDSTILL_SECONDS = 60.0
"""So much longer than the longest planned pause means that the loop hangs."""
CONFLICT_SECONDS = 0.2
RETRY_SECONDS = 1.0
"""How long a node rests after a write to it failed."""


class Reconciler:
    """The loop's state: what is known of the pools, and which nodes are being worked on."""

    def __init__(self, api: ApiServer, settings: Settings, metrics: Metrics):
        self.caches = Caches(
            api,
            plugin_namespace=settings.plugin_namespace,
            on_change=self.mark_changed,
            metrics=metrics,
        )
        self._api = api
        self._settings = settings
        self._metrics = metrics
        self._timing = Timing(
            backoff=timedelta(seconds=settings.backoff_seconds),
            ready_timeout=timedelta(seconds=settings.ready_timeout_seconds),
            settle=timedelta(seconds=settings.resource_settle_seconds),
        )
        self._applier = Applier(api, self.caches, settings, self._timing, metrics)
        self._writes = asyncio.Semaphore(settings.write_concurrency)
        self._changed = asyncio.Event()
        self._pass_started_at: float | None = None
        self._pools: tuple[Pool, ...] = ()
        self._unreadable: dict[str, str] = {}
        self._pools_listed_at: float | None = None
        self._retry_pools = False
        self._busy: dict[str, asyncio.Task[None]] = {}
        self._refusals: dict[str, str] = {}
        """By node, what the API server says to our last write, for as long as it does."""

    def mark_changed(self) -> None:
        """Something in the caches changed: decide anew."""
        self._changed.set()

    def mark_pools_changed(self) -> None:
        """A pool changed: list the pools, and decide anew."""
        self._pools_listed_at = None
        self._changed.set()

    def find_standstill(self) -> str | None:
        """Why the process should be restarted; None while it works or stands by."""
        if self._pass_started_at is None:
            return None
        age = time.monotonic() - self._pass_started_at
        limit = self._settings.resync_seconds + STANDSTILL_SECONDS
        return f"no pass was begun for {age:.0f} s" if age > limit else None

    async def run(self) -> None:
        """Reconcile for ever. Raises `NotLeaderError` once another controller may be active."""
        await self.caches.wait_synced()
        try:
            while True:
                wake = await self._pass_safely()
                try:
                    async with asyncio.timeout(wake):
                        await self._changed.wait()
                except TimeoutError:
                    continue
                await asyncio.sleep(COALESCE_SECONDS)
        finally:
            for task in self._busy.values():
                task.cancel()
            await asyncio.gather(*self._busy.values(), return_exceptions=True)

    async def _pass_safely(self) -> float:
        """One pass; seconds until the next even if nothing changes."""
        self._changed.clear()
        self._pass_started_at = time.monotonic()
        started = time.perf_counter()
        try:
            wake = await self._pass()
        except CALL_FAILURES as error:
            log.warning("pass not finished: %s", error or type(error))
            self._pools_listed_at = None
            self._metrics.reconciles.labels("error").inc()
            return RETRY_SECONDS
        self._metrics.reconciles.labels("ok").inc()
        self._metrics.reconcile_seconds.observe(time.perf_counter() - started)
        return wake

    async def _pass(self) -> float:
        self._retry_pools = False
        await self._list_pools()
        now = datetime.now(UTC)
        world = self.caches.observe_world(
            self._pools, frozenset(self._unreadable), frozenset(self._busy)
        )
        plan = plan_world(world, now, self._timing)
        self._refusals = {k: v for k, v in self._refusals.items() if k in world.nodes}
        await self._settle_finalizers(plan)
        adopted = {pool.name for pool in self._pools if pool.has_our_finalizer}
        for name, members in plan.members.items():
            if name in adopted:
                self._start(name, members)
        for name, leaving in plan.leaving.items():
            self._start(name, leaving)
        await self._write_statuses(plan, now)
        if self._retry_pools:
            self._pools_listed_at = None
            return RETRY_SECONDS
        planned = chain(*plan.members.values(), *plan.leaving.values())
        waits = (p.wake_after_seconds for p in planned if p.wake_after_seconds is not None)
        return max(COALESCE_SECONDS, min((self._settings.resync_seconds, *waits)))

    async def _list_pools(self) -> None:
        """List the pools where they may have changed.

        Kopf's watch only says that something did: it never tells when it has seen all, and a
        pool that was deleted during an outage stays in its memory for ever.
        """
        age = self._settings.resync_seconds
        listed_at = self._pools_listed_at
        if listed_at is not None and time.monotonic() - listed_at < age:
            return
        self._pools_listed_at = time.monotonic()
        self._pools, self._unreadable = await pools_api.list_pools(self._api)
        for name, error in self._unreadable.items():
            log.error(
                "pool can't be read, its nodes are left alone: %s", error, extra={"pool": name}
            )

    async def _settle_finalizers(self, plan: Plan) -> None:
        """Ours goes on before the first label, and off after the last node."""
        for pool in plan.adopt:
            await self._write_pool(pool, pools_api.apply_finalizer(self._api, pool))
        # Nothing that is under way for a pool may come after its release.
        released = () if self._busy else plan.release
        for pool in released:
            await self._write_pool(pool, pools_api.drop_finalizer(self._api, pool))
        if (plan.adopt or released) and not self._retry_pools:
            self.mark_pools_changed()

    def _start(self, pool: str, members: tuple[NodePlan, ...]) -> None:
        for member in members:
            if member.action is not None and member.node not in self._busy:
                task = asyncio.create_task(self._work_on(pool, member), name=f"node {member.node}")
                self._busy[member.node] = task

    async def _work_on(self, pool: str, member: NodePlan) -> None:
        assert member.action is not None
        try:
            # The second look only reads and waits: it must not hold up others' writes.
            turn = nullcontext() if isinstance(member.action, LookAgain) else self._writes
            async with turn:
                await self._applier.carry_out(member.action, pool=pool, reason=member.reason)
            self._refusals.pop(member.node, None)
        except CALL_FAILURES as error:
            if isinstance(error, ApiError) and error.is_refusal:
                self._refusals[member.node] = f"a write was refused, and is tried again: {error}"
            await self._rest(error, pool, member.node)
        except NotLeaderError:
            # The Lease's own task ends the process; nothing was sent.
            return
        except Exception:
            # One node that can't be dealt with must not stop the others.
            log.exception("node not dealt with", extra={"pool": pool, "node": member.node})
            await asyncio.sleep(RETRY_SECONDS)
        finally:
            del self._busy[member.node]
            self.mark_changed()

    async def _write_pool(self, pool: Pool, write: Awaitable[None]) -> bool:
        """Whether a write to a pool went through; one that is refused must not stop the others."""
        try:
            await write
        except CALL_FAILURES as error:
            log.warning("pool not written: %s", error or type(error), extra={"pool": pool.name})
            self._retry_pools = True
            return False
        return True

    def _members_of(self, pool: Pool, plan: Plan) -> list[NodePlan]:
        """What the pool's status speaks of: its members, and nodes that can't leave it."""
        leaving = [self._explain(node) for node in plan.leaving.get(pool.name, ())]
        held = [node for node in leaving if pool.deleting or node.state is not NodeState.UPDATING]
        return [*(self._explain(member) for member in plan.members[pool.name]), *held]

    def _explain(self, member: NodePlan) -> NodePlan:
        """`member`, or why nothing comes of what is planned for it."""
        refusal = self._refusals.get(member.node)
        # A node that rests after a refusal has no action planned, and is refused all the same.
        if refusal is None or (member.action is None and member.node not in self._busy):
            return member
        return replace(
            member, state=NodeState.BLOCKED, reason=names.Reason.WRITE_REFUSED, message=refusal
        )

    async def _rest(self, error: BaseException, pool: str, node: str) -> None:
        """Leave a node alone for a while after a call failed."""
        if isinstance(error, ApiError) and error.is_conflict:
            # Somebody wrote meanwhile: the watch brings it, and it is decided anew.
            log.info("node changed meanwhile: %s", error, extra={"pool": pool, "node": node})
            await asyncio.sleep(CONFLICT_SECONDS)
            return
        log.warning("tried again: %s", error or type(error), extra={"pool": pool, "node": node})
        wanted = error.retry_after_seconds if isinstance(error, ApiError) else None
        await asyncio.sleep(wanted or RETRY_SECONDS)

    async def _write_statuses(self, plan: Plan, now: datetime) -> None:
        by_pool = {pool.name: self._members_of(pool, plan) for pool in self._pools}
        self._metrics.pool_nodes.clear()
        for name, members in by_pool.items():
            for state in NodeState:
                count = sum(member.state is state for member in members)
                self._metrics.pool_nodes.labels(name, state).set(count)
        for pool in self._pools:
            members = by_pool[pool.name]
            status = build_status(pool, members, now)
            if status == pool.status or (pool.deleting and not members):
                continue
            if not await self._write_pool(pool, pools_api.apply_status(self._api, pool, status)):
                continue
            before = pool.status.conditions[0].reason if pool.status.conditions else None
            ready, counts = status.conditions[0], status.nodes
            if ready.reason != before:
                await post_event(
                    self._api,
                    Subject(names.API_VERSION, names.KIND, pool.name, pool.uid),
                    names.Reason(ready.reason),
                    ready.message,
                    instance=self._settings.identity,
                    kind="Warning" if counts.blocked or counts.failed else "Normal",
                )
            updated = pool.model_copy(update={"status": status})
            self._pools = tuple(updated if p.uid == pool.uid else p for p in self._pools)
