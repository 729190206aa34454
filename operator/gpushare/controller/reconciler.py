"""The loop: observe, plan, apply; level-based, for all pools at once.

Overlap makes every decision global, so one loop decides. It reads from memory, does at most what
the plan allows, and comes back whenever something changed.
"""

import asyncio
import logging
import time
from collections import Counter, OrderedDict
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from uuid import uuid4

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.controller.backoff import LONGEST_RETRY_SECONDS, RETRY_SECONDS, find_delay
from gpushare.controller.executor import Executor
from gpushare.controller.informers import Informers
from gpushare.controller.pool_store import LIST_SECONDS, Pools
from gpushare.controller.status_writer import StatusWriter
from gpushare.controller.unschedulable_pods import UnschedulablePods
from gpushare.core.cause import Cause
from gpushare.core.decision_settings import build_planner, build_timing
from gpushare.core.nodechange.phases.teardown import asks_for_commands
from gpushare.core.planner.decisions import NodeDecision, Plan
from gpushare.core.records.node_records import parse_records
from gpushare.core.records.record import RecordError
from gpushare.core.sizing.moves import IdleNodeMove
from gpushare.core.snapshot.actions import (
    Action,
    ApplyNode,
    DeletePlugins,
    NodePlan,
    ReleaseNode,
)
from gpushare.core.status.move_status import describe_move
from gpushare.kube.client import ApiClient
from gpushare.kube.errors import (
    CALL_FAILURES,
    ApiError,
    EvictionRefusedError,
    JobTakenError,
    NotLeaderError,
    describe_failure,
)
from gpushare.kube.events import Events, ObjectReference
from gpushare.names import Reason
from gpushare.observe.logs import reporting
from gpushare.observe.metrics.controller import ControllerMetrics
from gpushare.observe.metrics.figures import Figures
from gpushare.observe.metrics.pools import Sight
from gpushare.render.teardown import render_teardown_commands
from gpushare.settings import Settings

log = logging.getLogger(__name__)

COALESCE_SECONDS = 0.05
"""Changes come in bursts; one pass answers all that came within this time."""
STANDSTILL_SECONDS = 600.0
"""A pause that is longer than the longest planned one by this means that the loop hangs. A pass
makes up to five calls one after the other, each of which an API server may hold off for 60 s and
answer after 30."""
CONFLICT_SECONDS = 0.2
_AGAIN = "It is tried again automatically"
EVICTION_RETRY_SECONDS = 5.0
"""Seconds before the eviction of a node's pods is retried after a refusal, as in `kubectl drain`.
"""
FULL_PASS_SECONDS = 600.0
"""At least this often everything is decided anew, whatever the events said."""


class Reconciler:
    """The loop's state: what is known of the pools, and which nodes are being worked on."""

    def __init__(self, api: ApiClient, settings: Settings, metrics: ControllerMetrics):
        self._figures = Figures()
        self._planner = build_planner(settings)
        self.informers = Informers(
            api,
            settings,
            on_change=self.mark_changed,
            on_pod=self._figures.put_pod,
            is_relevant=self._planner.is_relevant,
            metrics=metrics,
        )
        self._settings, self._metrics = settings, metrics
        metrics.look = self._look
        timing = build_timing(settings)
        self._events = Events(api, settings.identity)
        note_list = partial(self.informers.note_event, names.PLURAL, LIST_SECONDS)
        self.pools = Pools(api, self._events, timing, self.mark_changed, note_list)
        """The pools; Kopf's handlers deliver their events to this object."""
        self._status_writer = StatusWriter(
            self.pools,
            self._planner,
            self.informers.nodes.records,
            self._events,
            metrics,
            on_end=self.mark_changed,
        )
        self._unschedulable_pods = UnschedulablePods(
            self._events, self._planner, self.informers.namespaces.records
        )
        self._executor = Executor(api, self.informers, settings, timing, metrics, self._events)
        self._changed = asyncio.Event()
        self._process = uuid4().hex[:8]
        self._passes = 0
        self._acting_since: dict[str, datetime] = {}
        """Time since when each pool acts without interruption under this controller, by pool."""
        self._pass_started_at: float | None = None
        self._full_pass_at = 0.0
        self._has_decided = False
        self._waiting: OrderedDict[str, NodeDecision] = OrderedDict()
        """Writes that wait for others, by node: a task for each would take 4 KiB, and for good."""
        self._writing: set[str] = set()
        """Nodes that waited, and whose write is not over: the limit of these tasks."""
        self._busy: dict[str, asyncio.Task[None]] = {}
        self._busy_for: dict[str, str] = {}
        """The pool for which a node is being changed, by node."""
        self._starting: dict[str, bool] = {}
        """Nodes among them whose change begins with that, and whether it uses the budget."""
        self._moving: dict[str, IdleNodeMove] = {}
        """Moves to another pool that begin with the write under way, by node."""
        self._refusals: dict[str, Cause] = {}
        """Refusal of our last write to each node, by node, for as long as it lasts."""
        self._refused: Counter[str] = Counter()
        """Number of such refusals in a row, by node."""
        self._mode_unsaved: set[str] = set()
        """Nodes on which a write is not stored yet that says that their mode is unknown."""

    def mark_changed(self) -> None:
        """Note that something in the caches, or a pool, changed: decide again."""
        self._changed.set()

    def _look(self) -> Sight:
        """Collect what the metrics show, when they are read.

        Nothing while it stands by: its caches are full, and what they hold another tells of.
        """
        if not self._has_decided:
            return Sight()
        return Sight(
            pools=self.pools.all,
            plans_by_pool=self._planner.plans_by_pool,
            unschedulable=self._unschedulable_pods.list_those_in(self.informers.unschedulable_pods),
            figures=self._figures,
        )

    def find_standstill(self) -> str | None:
        """Tell why the process should be restarted; None while it works or stands by."""
        if self._pass_started_at is None:
            return None
        age = time.monotonic() - self._pass_started_at
        limit = self._settings.resync_seconds + STANDSTILL_SECONDS
        return f"no pass has begun for {age:.0f} s" if age > limit else None

    async def run(self) -> None:
        """Reconcile for ever, from caches that have synced.

        Raises `NotLeaderError` once another controller may be active, and `CrdMissingError`.
        """
        self._acting_since.clear()
        # From here on the pools are listed.
        self.informers.note_event(names.PLURAL)
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
            self._has_decided = False
            self._waiting.clear()
            for task in self._busy.values():
                task.cancel()
            await asyncio.gather(*self._busy.values(), return_exceptions=True)
            await self._status_writer.close()
            await self._events.close()

    async def _pass_safely(self) -> float:
        """Run one pass; return the seconds until the next, even if nothing changes."""
        self._changed.clear()
        self._pass_started_at = time.monotonic()
        self._passes += 1
        with reporting(reconcile_id=f"{self._process}-{self._passes}"):
            try:
                with self._metrics.reconcile_seconds.time():
                    wake = await self._pass()
            except CALL_FAILURES as error:
                log.warning("pass not finished: %s", describe_failure(error))
                self._metrics.reconciles.labels("error").inc()
                return find_delay(error)
        self._metrics.reconciles.labels("ok").inc()
        return wake

    async def _pass(self) -> float:
        now = datetime.now(UTC)
        await self.pools.refresh()
        plan = self._decide(now)
        self._has_decided = True
        news = self.pools.take_changed() | self.informers.take_waited_for()
        self._status_writer.mark_stale(news)
        # Nothing that is under way for a pool may come after its release.
        served = {*self._busy_for.values(), *(each.pool for each in self._waiting.values())}
        free = [
            pool
            for pool in plan.release
            if pool.name not in served and not self._status_writer.is_writing(pool)
        ]
        held = {pool.name: self._planner.releases.nodes_of(pool.name) for pool in free}
        await self.pools.release(free, held, now)
        self._start(plan)
        known, unreadable = self.pools.list_names()
        unschedulable_pods = self.informers.unschedulable_pods
        waits = (
            self._status_writer.write(unschedulable_pods.values(), now),
            self._unschedulable_pods.report(unschedulable_pods, known, unreadable, now),
            (plan.requeue_at - now).total_seconds() if plan.requeue_at is not None else None,
            self._settings.resync_seconds,
            self.pools.list_in_seconds,
        )
        if self.pools.must_retry:
            return RETRY_SECONDS
        return max(COALESCE_SECONDS, min(wait for wait in waits if wait is not None))

    def _decide(self, now: datetime) -> Plan:
        acting = [pool.name for pool in self.pools.all if pool.acts]
        self._acting_since = {name: self._acting_since.get(name, now) for name in acting}
        self._mode_unsaved = {
            name for name in self._mode_unsaved if name in self.informers.nodes.records
        }
        snapshot = replace(
            self.informers.observe(),
            pools=self.pools.all,
            unreadable_pools=frozenset(pool.name for pool in self.pools.unreadable),
            busy=self._busy.keys(),
            starting=self._starting,
            refusals=self._refusals,
            mode_unsaved=self._mode_unsaved,
            acting_since=self._acting_since,
            unrecorded_pools=self.pools.list_unrecorded(now),
            waiting_pods=self.informers.unschedulable_pods.values(),
        )
        changed: set[str] | None = self.informers.take_changed()
        if time.monotonic() >= self._full_pass_at:
            self._full_pass_at = time.monotonic() + FULL_PASS_SECONDS
            changed = None
        plan = self._planner.update(snapshot, changed, now)
        self._figures.put_nodes(self.pools.all, self._planner.plans_by_pool, self._planner.seen)
        return plan

    def _start(self, plan: Plan) -> None:
        ending = {pool.name for pool in plan.release}
        adopted = {pool.name for pool in self.pools.all if pool.has_our_finalizer} - ending
        known = {pool.name for pool in self.pools.all}
        decided: dict[str, NodeDecision] = {}
        for decision in plan.decisions:
            node, may_start = decision.plan.node, decision.pool in adopted
            if (observed := self.informers.nodes.records.get(node)) is not None:
                tell_commands(self._events, decision.pool, decision.plan, observed)
            if decision.plan.action is None or node in self._busy:
                continue
            # A node that leaves a pool which is gone has nobody to wait for.
            if may_start or decision.pool not in known:
                decided.setdefault(node, decision)
        for node in self._waiting.keys() & self._planner.seen - decided.keys():
            del self._waiting[node]
        for node, decision in decided.items():
            action = decision.plan.action
            # Also where it waits: the label that brought the doubt may change until its turn.
            if isinstance(action, ApplyNode) and action.is_mode_unsaved:
                self._mode_unsaved.add(node)
            if _may_wait(decision.plan):
                self._waiting[node] = decision
            else:
                self._waiting.pop(node, None)
                self._start_one(decision)
        self._start_waiting()

    def _start_waiting(self) -> None:
        while self._waiting and len(self._writing) < self._settings.write_concurrency:
            node, decision = self._waiting.popitem(last=False)
            self._writing.add(node)
            self._start_one(decision)

    def _start_one(self, decision: NodeDecision) -> None:
        node, work = decision.plan.node, self._work_on(decision.pool, decision.plan)
        self._busy[node] = asyncio.create_task(work, name=f"node {node}")
        self._busy_for[node] = decision.pool
        if (move := self._find_move(decision)) is not None:
            self._moving[node] = move
        if decision.plan.started is not None:
            self._starting[node] = decision.plan.uses_budget

    def _find_move(self, decision: NodeDecision) -> IdleNodeMove | None:
        """Find the move that begins with this write; None where none does."""
        pool_plans = self._planner.plans_by_pool.get(decision.pool)
        move = pool_plans.move if pool_plans is not None else None
        if move is None or move.waits_for or move.node != decision.plan.node:
            return None
        return move

    def _tell_move(self, move: IdleNodeMove) -> None:
        """Count a move that has begun, and post an Event on both pools."""
        self._metrics.node_moves.labels(move.target, move.source).inc()
        for pool in self.pools.all:
            if pool.name in (move.source, move.target):
                self.pools.tell(pool, Reason.NODE_MOVES, describe_move(move), warns=False)

    async def _work_on(self, pool: str, member: NodePlan) -> None:
        version = self.pools.version_of(pool)
        generation = version[1] if version is not None else None
        about = {"node": member.node, "reason": member.reason, "rule": member.rule or None}
        with reporting(pool=pool, generation=generation, **about):
            await self._carry_out(pool, member, version)

    async def _carry_out(
        self, pool: str, member: NodePlan, version: tuple[str, int] | None
    ) -> None:
        assert member.action is not None
        try:
            rest_seconds = await self._execute(pool, member, member.action, version)
            if (move := self._moving.get(member.node)) is not None:
                self._tell_move(move)
            self._forget_refusal(member.node)
            if member.node in self._mode_unsaved and _is_mode_saved(member.action):
                self._mode_unsaved.remove(member.node)
            await asyncio.sleep(rest_seconds)
        except EvictionRefusedError as error:
            self._note_refusal(member.node, Reason.EVICTION_REFUSED, f"{error}. {_AGAIN}")
            await asyncio.sleep(EVICTION_RETRY_SECONDS)
        except JobTakenError as error:
            self._note_refusal(member.node, Reason.WRITE_REFUSED, f"{error}. {_AGAIN}")
            await asyncio.sleep(LONGEST_RETRY_SECONDS)
        except CALL_FAILURES as error:
            if isinstance(error, ApiError) and error.is_refusal:
                message = f"The API server refused a request, which is tried again: {error}"
                self._note_refusal(member.node, Reason.WRITE_REFUSED, message)
                self._refused[member.node] += 1
            await self._rest(error, member.node)
        except NotLeaderError:
            # The Lease's own task ends the process; nothing was sent.
            return
        except Exception:
            # One node that can't be dealt with must not stop the others.
            log.exception("node not handled")
            await asyncio.sleep(RETRY_SECONDS)
        finally:
            del self._busy[member.node], self._busy_for[member.node]
            self._starting.pop(member.node, None)
            self._moving.pop(member.node, None)
            if member.node not in self.informers.nodes.records:
                self._forget_refusal(member.node)
            self.informers.mark_changed(member.node)

    async def _execute(
        self, pool: str, member: NodePlan, action: Action, version: tuple[str, int] | None
    ) -> float:
        try:
            return await self._executor.carry_out(
                action,
                pool=pool,
                reason=member.reason,
                is_wanted=lambda: self.pools.version_of(pool) == version,
            )
        finally:
            # Before the node rests: meanwhile it is another's turn.
            self._writing.discard(member.node)
            self._start_waiting()

    def _note_refusal(self, node: str, reason: Reason, message: str) -> None:
        self._refusals[node] = Cause(reason, message)
        self.informers.mark_changed(node)

    def _forget_refusal(self, node: str) -> None:
        self._refusals.pop(node, None)
        del self._refused[node]

    async def _rest(self, error: BaseException, node: str) -> None:
        """Wait before a node is tried again after a call failed."""
        if isinstance(error, ApiError) and error.is_conflict:
            # Somebody wrote meanwhile, and our copy does not show it yet: else the same would be
            # tried for as long as the watch is behind.
            log.debug("node changed meanwhile: %s", error)
            await asyncio.sleep(CONFLICT_SECONDS)
            with suppress(*CALL_FAILURES):
                await self._executor.relist(node)
            return
        log.warning("tried again: %s", describe_failure(error))
        await asyncio.sleep(find_delay(error, self._refused[node]))


def _may_wait(plan: NodePlan) -> bool:
    """Tell whether a write may wait for others: not where the budget counts its node already."""
    is_write = isinstance(plan.action, ApplyNode | ReleaseNode)
    return is_write and not (plan.facts.under_way or plan.uses_budget)


def _is_mode_saved(done: Action) -> bool:
    """Tell whether the action leaves no mode in doubt: it is recorded, or a plugin starts anew."""
    return isinstance(done, DeletePlugins | ReleaseNode) or (
        isinstance(done, ApplyNode) and done.is_mode_unsaved
    )


def tell_commands(events: Events, pool: str, plan: NodePlan, node: Node) -> None:
    """Post the commands that a user is to run on `node` to remove the kernel module, where its
    `plan` waits for that: once for each teardown, also by a process that starts anew.
    """
    if not asks_for_commands(plan):
        return
    try:
        change = parse_records(node).change
    except RecordError:
        # It was edited since that was planned.
        return
    if change is not None and change.teardown is not None:
        commands = render_teardown_commands(node.name, node.container_runtime)
        note = f"Pool {pool}: Run these commands:\n{commands}"
        occasion = f"{change.since.isoformat()}/{change.teardown.attempt}"
        subject = ObjectReference("v1", "Node", node.name, node.uid)
        events.post(subject, plan.reason, note, warns=True, once=True, occasion=occasion)
