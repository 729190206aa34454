"""What people see of a pool: its status, and the Events that go with it."""

import asyncio
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from gpushare.api.node import Node
from gpushare.api.pod import Pod
from gpushare.api.pool import Pool
from gpushare.api.status import ConditionStatus, PoolStatus
from gpushare.controller.pools import Pools, about
from gpushare.core.actions import NodePlan, NodeState
from gpushare.core.book import Book
from gpushare.core.plan import Planner
from gpushare.core.status import build_status, is_capacity_due
from gpushare.core.unplaced import group_by_pool
from gpushare.kube.events import Events, Subject
from gpushare.names import Condition, Reason
from gpushare.observe.metrics import Metrics

log = logging.getLogger(__name__)

_HELD_UP = (NodeState.BLOCKED, NodeState.FAILED)
_WARNINGS = frozenset({Reason.LABEL_CONFLICT, Reason.ROLLOUT_HALTED, Reason.STALE_ISOLATION})
_CALM: dict[str, tuple[str, Reason]] = {
    Condition.CONFLICTING: ("False", Reason.NO_CONFLICT),
    Condition.ISOLATION_CONSISTENT: ("True", Reason.ISOLATION_AS_LABELLED),
}
PERIOD_SECONDS = 0.5
"""A pool's status is written no more often: during a change its counts move all the time."""


class Statuses:
    """Writes the status of each pool whose book changed, where it says something new."""

    def __init__(
        self,
        pools: Pools,
        planner: Planner,
        nodes: Mapping[str, Node],
        events: Events,
        metrics: Metrics,
    ):
        self._pools = pools
        self._nodes = nodes
        self._events = events
        self._planner = planner
        self._metrics = metrics
        self._not_before: dict[str, float] = {}

    async def write(self, waiting: Collection[Pod], now: datetime) -> float | None:
        """Write what is due; seconds until more is, if anything is left.

        `waiting` are the GPU pods that have no node; others among them select no pool.
        """
        stale = [p for p in self._pools.all if self._planner.books[p.name].is_stale]
        due = [p for p in stale if self._not_before.get(p.uid, 0.0) <= time.monotonic()]
        pending = group_by_pool(waiting if due else ())
        writes = (self._write(pool, pending.get(pool.name, ()), now) for pool in due)
        await asyncio.gather(*writes)
        self._forget()
        if any(self._planner.books[pool.name].is_stale for pool in self._pools.all):
            return PERIOD_SECONDS
        return None

    def mark_stale(self, pools: Collection[str] | None = None) -> None:
        """What stands in these pools (None: all) may not be what is."""
        for name, book in self._planner.books.items():
            book.is_stale |= pools is None or name in pools

    async def _write(self, pool: Pool, pending: Sequence[Pod], now: datetime) -> None:
        book = self._planner.books[pool.name]
        held = self._planner.holdings.count(pool.name)
        # A write takes a while, and the book may change meanwhile.
        book.is_stale = not is_capacity_due(pool, now)
        for reason, times in book.take_turned().items():
            self._metrics.node_waits.labels(pool.name, reason).inc(times)
        refusal = None if pool.has_our_finalizer else self._pools.not_adopted.get(pool.uid)
        status = build_status(pool, book, now, held=held, pending=pending, refusal=refusal)
        if status == pool.status or (pool.deleting and not held):
            return
        self._not_before[pool.uid] = time.monotonic() + PERIOD_SECONDS
        if not await self._pools.write_status(pool, status):
            book.is_stale = True
            return
        self._tell(pool, status, book)

    def _tell(self, pool: Pool, status: PoolStatus, book: Book) -> None:
        """An Event for each condition that changed, and each reason that newly holds nodes up; the
        log has the former, and of the latter the nodes that the status shows."""
        changed = _find_changed(pool.status, status)
        _log_status(pool, status, changed)
        told: set[str] = set()
        for condition in changed:
            if condition.type == Condition.NODES_LABELLED:
                continue
            held_up = bool(status.nodes.blocked or status.nodes.failed)
            told.add(condition.reason)
            self._pools.tell(
                pool,
                Reason(condition.reason),
                condition.message,
                warns=condition.reason in _WARNINGS
                or (condition.type == Condition.READY and held_up),
            )
        known = {sample.reason for sample in pool.status.samples}
        for reason, plan in _first_waiting(book).items():
            if reason not in known | told:
                warns = plan.state is not NodeState.WAITING
                self._pools.tell(pool, reason, f"{plan.node}: {plan.message}", warns=warns)
                if not warns:
                    _log_plan(pool, plan)
        shown = {(sample.node, sample.reason) for sample in pool.status.samples}
        for sample in status.samples:
            plan = book.plans[sample.node]
            if plan.state in _HELD_UP and (sample.node, sample.reason) not in shown:
                self._tell_node(pool, plan)
                _log_plan(pool, plan)

    def _tell_node(self, pool: Pool, plan: NodePlan) -> None:
        node = self._nodes.get(plan.node)
        if node is not None:
            subject = Subject("v1", "Node", node.name, node.uid)
            self._events.post(subject, plan.reason, f"pool {pool.name}: {plan.message}", warns=True)

    def _forget(self) -> None:
        """Pools that are gone leave nothing behind."""
        present = {pool.uid for pool in self._pools.all}
        self._not_before = {k: v for k, v in self._not_before.items() if k in present}


def _first_waiting(book: Book) -> dict[Reason, NodePlan]:
    """One node for each reason that nodes wait for."""
    states = (NodeState.WAITING, *_HELD_UP)
    return {plan.reason: plan for plan in book.unready.values() if plan.state in states}


def _find_changed(before: PoolStatus, now: PoolStatus) -> list[ConditionStatus]:
    """Conditions that say something else: that nothing is wrong, only where something was."""
    said = _CALM | {c.type: (c.status, c.reason) for c in before.conditions}
    return [c for c in now.conditions if said.get(c.type) != (c.status, c.reason)]


def _log_status(pool: Pool, status: PoolStatus, changed: Sequence[ConditionStatus]) -> None:
    """One line for the write: figures that move are no change of state."""
    if not changed:
        ready, matched = status.nodes.ready, status.nodes.matched
        keys = about(pool, status.conditions[0].reason)
        log.debug("new figures in the status: %d of %d nodes are ready", ready, matched, extra=keys)
        return
    said = ", ".join(f"{c.type} is {c.status} ({c.reason})" for c in changed)
    log.info("%s: %s", said, changed[0].message, extra=about(pool, changed[0].reason))


def _log_plan(pool: Pool, plan: NodePlan) -> None:
    keys = about(pool, plan.reason) | {"node": plan.node}
    log.info("%s: %s", plan.state, plan.message, extra=keys)
