"""Writes what users see of a pool: its status, and the Events that go with it."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Pool, UnreadablePool
from gpushare.api.status import ConditionStatus, PoolStatus
from gpushare.controller.backoff import find_delay
from gpushare.controller.pool_store import Pools, about
from gpushare.core.planner.planner import Planner
from gpushare.core.planner.pool_plans import PoolPlans
from gpushare.core.snapshot.actions import NodePlan, NodeState
from gpushare.core.status.pool_status import build_status, build_unreadable_status, is_capacity_due
from gpushare.core.status.unschedulable_pods import group_by_pool
from gpushare.core.status.window_status import describe_closing
from gpushare.kube.errors import CALL_FAILURES, NotLeaderError, describe_failure
from gpushare.kube.events import Events, ObjectReference
from gpushare.names import Condition, Reason
from gpushare.observe.metrics.controller import ControllerMetrics

log = logging.getLogger(__name__)

_HELD_UP = (NodeState.BLOCKED, NodeState.FAILED)
_WARNINGS = frozenset(
    {
        Reason.LABEL_CONFLICT,
        Reason.ROLLOUT_HALTED,
        Reason.JOINS_HALTED,
        Reason.SPEC_CONTESTED,
        Reason.SPEC_INVALID,
        Reason.STALE_ISOLATION,
    }
)
_CALM: dict[str, tuple[str, Reason]] = {
    Condition.CONFLICTING: ("False", Reason.NO_CONFLICT),
    Condition.ISOLATION_CONSISTENT: ("True", Reason.ISOLATION_AS_LABELLED),
}
PERIOD_SECONDS = 0.5
"""A pool's status is written no more often: during a change its counts move all the time."""


class StatusWriter:
    """Writes the status of each pool whose state changed, where it says something new.

    Beside the pass, which a slow API server would hold up else: one write is in flight a pool, and
    after it comes what is true by then. `on_end` is called where a pass waits for its end.
    """

    def __init__(
        self,
        pools: Pools,
        planner: Planner,
        nodes: Mapping[str, Node],
        events: Events,
        metrics: ControllerMetrics,
        on_end: Callable[[], None],
    ):
        self._pools = pools
        self._nodes = nodes
        self._events = events
        self._planner = planner
        self._metrics = metrics
        self._on_end = on_end
        self._not_before: dict[str, float] = {}
        self._in_flight: dict[str, asyncio.Task[None]] = {}
        """Tasks that write a status, by UID of the pool."""
        self._failures: Counter[str] = Counter()
        """Number of failed writes in a row, by UID of the pool."""

    def write(self, waiting: Collection[Pod], now: datetime) -> float | None:
        """Begin to write what is due; return the seconds until more is, if anything is left.

        `waiting` are the GPU pods that have no node; others among them select no pool.
        """
        stale = [p for p in self._pools.all if self._planner.plans_by_pool[p.name].is_stale]
        due = [pool for pool in stale if self._is_due(pool)]
        pending = group_by_pool(waiting if due else ())
        for pool in due:
            self._write(pool, pending.get(pool.name, ()), now)
        left = {pool.uid for pool in self._pools.unreadable if not self._is_due(pool)}
        for unreadable in filter(self._is_due, self._pools.unreadable):
            self._write_unreadable(unreadable, now)
        self._forget()
        left |= {p.uid for p in self._pools.all if self._planner.plans_by_pool[p.name].is_stale}
        left -= self._in_flight.keys()
        rests = [self._not_before.get(uid, 0.0) - time.monotonic() for uid in left]
        return max(PERIOD_SECONDS, min(rests)) if rests else None

    def is_writing(self, pool: Pool | UnreadablePool) -> bool:
        """Tell whether a write is in flight, which may arrive at any time."""
        return pool.uid in self._in_flight

    async def close(self) -> None:
        """Give up what is in flight: nothing is written any more."""
        tasks = tuple(self._in_flight.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def mark_stale(self, pools: Collection[str]) -> None:
        """Note that the status of these pools may be out of date."""
        for name in self._planner.plans_by_pool.keys() & pools:
            self._planner.plans_by_pool[name].is_stale = True

    def _is_due(self, pool: Pool | UnreadablePool) -> bool:
        rests = self._not_before.get(pool.uid, 0.0) > time.monotonic()
        return not rests and not self.is_writing(pool)

    def _write(self, pool: Pool, pending: Sequence[Pod], now: datetime) -> None:
        pool_plans = self._planner.plans_by_pool[pool.name]
        held = self._planner.releases.count(pool.name)
        pool_plans.is_stale = not is_capacity_due(pool, now)
        for reason, times in pool_plans.take_waits().items():
            self._metrics.node_waits.labels(pool.name, reason).inc(times)
        refusal = None if pool.has_our_finalizer else self._pools.not_adopted.get(pool.uid)
        status = build_status(pool, pool_plans, now, held=held, pending=pending, refusal=refusal)
        is_released = pool.deleting and not (held and pool.has_our_finalizer)
        if status == pool.status or is_released:
            return
        # When it is answered, its state says something else.
        shown = [pool_plans.plans[sample.node] for sample in status.samples]
        closing = describe_closing(pool, pool_plans, status)
        tell = partial(self._tell, pool, status, _first_waiting(pool_plans), shown, closing)
        self._begin(pool, status, tell)

    def _write_unreadable(self, pool: UnreadablePool, now: datetime) -> None:
        status = build_unreadable_status(pool, now)
        if status == pool.status:
            return
        keys = about(pool, Reason.SPEC_INVALID)
        log.error("the %s can't be read: %s", pool.part, pool.error, extra=keys)
        self._begin(pool, status, partial(self._pools.tell, pool, Reason.SPEC_INVALID, pool.error))

    def _begin(
        self, pool: Pool | UnreadablePool, status: PoolStatus, tell: Callable[[], None]
    ) -> None:
        self._not_before[pool.uid] = time.monotonic() + PERIOD_SECONDS
        task = asyncio.create_task(self._send(pool, status, tell), name=f"status {pool.name}")
        self._in_flight[pool.uid] = task

    async def _send(
        self, pool: Pool | UnreadablePool, status: PoolStatus, tell: Callable[[], None]
    ) -> None:
        keys = {"pool": pool.name}
        try:
            await self._pools.write_status(pool, status)
            del self._failures[pool.uid]
            tell()
        except NotLeaderError:
            # The Lease's own task ends the process; nothing was sent.
            self._note_failure(pool, PERIOD_SECONDS)
        except Exception as error:
            if isinstance(error, CALL_FAILURES):
                log.warning("status not written: %s", describe_failure(error), extra=keys)
            else:
                log.exception("status not handled", extra=keys)
            self._note_failure(pool, find_delay(error, self._failures[pool.uid]))
        finally:
            del self._in_flight[pool.uid]
            if self._failures[pool.uid] or self._is_awaited(pool):
                self._on_end()

    def _note_failure(self, pool: Pool | UnreadablePool, rest_seconds: float) -> None:
        self._failures[pool.uid] += 1
        self._not_before[pool.uid] = time.monotonic() + rest_seconds
        self.mark_stale((pool.name,))

    def _is_awaited(self, pool: Pool | UnreadablePool) -> bool:
        """Tell whether a pass waits for this write: to begin the next, or to release the pool.

        One without a state can't be read, and its spec may be another one by now.
        """
        pool_plans = self._planner.plans_by_pool.get(pool.name)
        is_deleting = isinstance(pool, Pool) and pool.deleting
        return is_deleting or pool_plans is None or pool_plans.is_stale

    def _tell(
        self,
        pool: Pool,
        status: PoolStatus,
        waiting: Mapping[Reason, NodePlan],
        shown: Sequence[NodePlan],
        closing: str,
    ) -> None:
        """Post an Event for each condition that changed, and each reason that newly blocks nodes;
        the log has the former, and of the latter the nodes that the status shows."""
        changed = _find_changed(pool.status, status)
        _log_status(pool, status, changed)
        told: set[str] = set()
        for condition in changed:
            if condition.type == Condition.NODES_LABELLED or condition.reason in told:
                continue
            held_up = bool(status.nodes.blocked or status.nodes.failed)
            told.add(condition.reason)
            is_ready = condition.type == Condition.READY
            warns = condition.reason in _WARNINGS or (is_ready and held_up)
            self._pools.tell(pool, Reason(condition.reason), condition.message, warns=warns)
        if closing:
            self._pools.tell(pool, Reason.WINDOW_CLOSED, closing, warns=False)
        self._tell_started(pool, status)
        self._tell_recommended(pool, status)
        known = {sample.reason for sample in pool.status.samples}
        known |= {condition.reason for condition in pool.status.conditions}
        for reason, plan in waiting.items():
            if reason not in known | told:
                warns = plan.state is not NodeState.WAITING
                self._pools.tell(pool, reason, f"Node {plan.node}: {plan.message}", warns=warns)
                if not warns:
                    _log_plan(pool, plan)
        known_nodes = {(sample.node, sample.reason) for sample in pool.status.samples}
        for plan in shown:
            is_told = plan.state in _HELD_UP or plan.warns
            if is_told and (plan.node, plan.reason) not in known_nodes:
                self._tell_node(pool, plan)
                _log_plan(pool, plan)

    def _tell_started(self, pool: Pool, status: PoolStatus) -> None:
        """Post an Event where the annotation that starts a plan now was read, with its writer."""
        before, started = pool.status.started_now, status.started_now
        if started is None or (before is not None and before.value == started.value):
            return
        who = f"Field manager {pool.start_now_manager or 'unknown'} wrote {started.value!r} to "
        who += names.ANNOTATION_START_NOW
        if started.kinds:
            note = f"{who}. These changes begin outside the windows: {'; '.join(started.kinds)}"
            self._pools.tell(pool, Reason.STARTED_NOW, note)
            return
        what = "the hash of the pool's plan and a time of the last hour"
        note = f"{who}, which is not {what}. It has no effect"
        self._pools.tell(pool, Reason.START_NOW_OUTDATED, note)

    def _tell_recommended(self, pool: Pool, status: PoolStatus) -> None:
        """Post an Event on both pools where another move is recommended."""
        before, move = pool.status.recommendation, status.recommendation
        if move is None or (before is not None and before.hash == move.hash):
            return
        for each in self._pools.all:
            if each.name in (pool.name, move.source):
                self._pools.tell(each, Reason.MOVE_RECOMMENDED, move.message, warns=False)

    def _tell_node(self, pool: Pool, plan: NodePlan) -> None:
        node = self._nodes.get(plan.node)
        if node is not None:
            subject = ObjectReference("v1", "Node", node.name, node.uid)
            self._events.post(subject, plan.reason, f"Pool {pool.name}: {plan.message}", warns=True)

    def _forget(self) -> None:
        """Forget pools that are gone."""
        present = {p.uid for p in self._pools.all} | {p.uid for p in self._pools.unreadable}
        self._not_before = {k: v for k, v in self._not_before.items() if k in present}
        self._failures = Counter({k: v for k, v in self._failures.items() if k in present})


def _first_waiting(pool_plans: PoolPlans) -> dict[Reason, NodePlan]:
    """Return the first node, by name, for each reason that nodes wait for."""
    states = (NodeState.WAITING, *_HELD_UP)
    last_first = sorted(pool_plans.unready.values(), key=lambda plan: plan.node, reverse=True)
    return {plan.reason: plan for plan in last_first if plan.state in states}


def _find_changed(before: PoolStatus, now: PoolStatus) -> list[ConditionStatus]:
    """Find the conditions that changed; one without a problem counts only where it had one."""
    said = _CALM | {c.type: (c.status, c.reason) for c in before.conditions}
    return [c for c in now.conditions if said.get(c.type) != (c.status, c.reason)]


def _log_status(pool: Pool, status: PoolStatus, changed: Sequence[ConditionStatus]) -> None:
    """Log one line for the write: figures alone are no change of state."""
    if not changed:
        ready, matched = status.nodes.ready, status.nodes.matched
        keys = about(pool, status.conditions[0].reason)
        log.debug("new figures in the status: %d of %d nodes are ready", ready, matched, extra=keys)
        return
    said = ", ".join(f"{c.type} is {c.status} ({c.reason})" for c in changed)
    log.info("%s: %s", said, changed[0].message, extra=about(pool, changed[0].reason))


def _log_plan(pool: Pool, plan: NodePlan) -> None:
    keys = about(pool, plan.reason) | {"node": plan.node}
    log.info("node is %s: %s", plan.state, plan.message, extra=keys)
