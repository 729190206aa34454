"""All decisions, for all pools: made anew for the nodes that something happened to.

Overlap makes decisions global, and budgets tie the nodes of a pool together; so what was decided is
kept in a book for each pool, and an event of one node costs the same at a hundred nodes and at
five thousand. Equal worlds lead to equal plans, whatever the order of the events.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto

from gpushare.api.pool import Pool
from gpushare.core.actions import NodePlan, NodeState
from gpushare.core.book import Book
from gpushare.core.capacity import NodeCapacity, observe_node_capacity
from gpushare.core.leaving import plan_leaving
from gpushare.core.member import plan_member
from gpushare.core.membership import decide_claim, find_owner
from gpushare.core.observed import Timing
from gpushare.core.restraint import explain_refusal, hold_back, plan_ceded
from gpushare.core.world import Judged, World, judge
from gpushare.names import Reason

MAX_UNAVAILABLE = 1
"""Members of a pool that may be out of service at once."""


LONGEST_WAIT_SECONDS = 600.0
"""Every node is looked at again after this, whatever its plan says."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done to one node, for which pool."""

    pool: str
    plan: NodePlan


@dataclass(frozen=True, slots=True)
class Plan:
    """What a pass decided, for the nodes that it looked at."""

    decisions: tuple[Decision, ...]
    release: tuple[Pool, ...]
    """Pools that are being deleted and need our finalizer no more."""
    wake_at: datetime | None
    """When to decide again even if nothing happens."""


class _Role(Enum):
    MEMBER = auto()
    LEAVING = auto()


@dataclass(frozen=True, slots=True)
class _Task:
    judged: Judged
    role: _Role


class Planner:
    """The books of all pools, and what they are kept up to date with."""

    def __init__(self, timing: Timing):
        self.books: dict[str, Book] = {}
        self._timing = timing
        self._listed: tuple[Pool, ...] | None = None
        self._pools: dict[str, Pool] = {}
        self._acting: list[Pool] = []
        self._observing: list[Pool] = []
        self._deleting: list[Pool] = []
        self._versions: list[tuple[str, str, int, bool]] = []
        self._basis: object = None
        """What all decisions rest on: where it changes, all are made anew."""
        self._entered: dict[str, frozenset[str]] = {}
        """By node, the pools whose books it is in."""
        self._holds: dict[str, frozenset[str]] = {}
        """By node, the pools that can't be let go of because of it."""
        self._held: Counter[str] = Counter()
        self._due: dict[str, datetime] = {}
        self._wakes: list[tuple[datetime, str]] = []

    def update(self, world: World, changed: Collection[str] | None, now: datetime) -> Plan:
        """Decide anew for the nodes `changed` (None: all), and for those that depend on them."""
        self._sort(world.pools)
        basis = (self._versions, world.unreadable_pools, world.daemonsets)
        if changed is None or basis != self._basis:
            self._basis = basis
            self._begin_anew()
            changed = world.nodes.keys()
        decisions = list(self._decide(world, {*changed, *self._take_due(now)}, now))
        return Plan(
            decisions=tuple(decisions),
            release=tuple(p for p in self._deleting if self._is_over(p, now)),
            wake_at=self._next_wake(),
        )

    def nodes_held(self, pool: str) -> list[str]:
        """Names of the nodes that the pool must still give back."""
        return sorted(node for node, pools in self._holds.items() if pool in pools)

    def count_held(self, pool: str) -> int:
        """How many these are."""
        return self._held[pool]

    # The order of a pass.

    def _decide(self, world: World, changed: set[str], now: datetime) -> Iterator[Decision]:
        tasks: defaultdict[str, dict[str, _Task]] = defaultdict(dict)
        out_before: dict[str, frozenset[str]] = {}
        for name in sorted(changed):
            before = self._entered.pop(name, frozenset())
            for pool in before:
                out_before.setdefault(pool, frozenset(self.books[pool].unavailable))
            self._hold(name, frozenset())
            self._due.pop(name, None)
            entered = set()
            if name in world.nodes:
                judged = judge(world, name)
                for pool, task in self._place(judged, world):
                    entered.add(pool)
                    if isinstance(task, NodePlan):
                        self.books[pool].cede(task)
                        continue
                    book = self._book(pool)
                    out_before.setdefault(pool, frozenset(book.unavailable))
                    tasks[pool][name] = task
                    if self._is_out(judged, pool):
                        book.unavailable.add(name)
                    else:
                        book.unavailable.discard(name)
            for pool in before - entered:
                self.books[pool].forget(name)
            if entered:
                self._entered[name] = frozenset(entered)
        for pool in sorted(out_before):
            book = self.books[pool]
            waiting = book.in_line if book.unavailable != out_before[pool] else ()
            yield from self._decide_pool(pool, tasks[pool], waiting, world, now)

    def _decide_pool(
        self,
        name: str,
        tasks: dict[str, _Task],
        waiting: Collection[str],
        world: World,
        now: datetime,
    ) -> Iterator[Decision]:
        """No more go out of service than the budget lets, the first by name before the others."""
        book, pool = self.books[name], self._pools.get(name)
        # One that the API server refuses goes last: it would take the turn of all others for ever.
        for node in sorted({*tasks, *waiting}, key=lambda name: (name in world.refusals, name)):
            out = len(book.unavailable) - (node in book.unavailable)
            # A pool that only tells what it would do has no turns to wait for.
            may_start = out < MAX_UNAVAILABLE or (pool is not None and not pool.acts)
            task = tasks.get(node)
            if task is None:
                old = book.plans.get(node)
                if not may_start and old is not None and not old.takes_slot:
                    continue
                role = _Role.LEAVING if node in self._holds else _Role.MEMBER
                task = _Task(judge(world, node), role)
            plan = self._plan(task, pool, world, now, may_start=may_start)
            if plan is None:
                book.strike(node)
                continue
            book.queue(plan)
            if plan.takes_slot:
                book.unavailable.add(node)
            if plan.wake_after_seconds is not None:
                seconds = min(plan.wake_after_seconds, LONGEST_WAIT_SECONDS)
                self._wake(node, now + timedelta(seconds=seconds))
            self._enter(book, pool, task, plan)
            yield Decision(name, plan)

    def _is_out(self, judged: Judged, name: str) -> bool:
        """Whether a node uses its pool's budget up.

        A pool that is being deleted waits only for its own changes: a node that is down must not
        keep the healthy ones from being given back.
        """
        pool = self._pools.get(name)
        if pool is not None and pool.deleting:
            return judged.is_in_change
        return judged.is_unavailable

    def _enter(self, book: Book, pool: Pool | None, task: _Task, plan: NodePlan) -> None:
        if task.role is _Role.MEMBER:
            book.enter(plan)
            book.measure(plan.node, _measure(task.judged, plan))
            return
        book.measure(plan.node, None)
        # A node that is just being let go of says nothing; one that can't leave does.
        if plan.state is NodeState.UPDATING and not (pool is not None and pool.deleting):
            book.strike(plan.node)
        else:
            book.enter(plan)

    # One node.

    def _place(self, judged: Judged, world: World) -> Iterator[tuple[str, _Task | NodePlan]]:
        """The pools that a node matters to, each with what is to be planned or is clear already."""
        node, remembered = judged.seen.node, judged.remembered_pools
        if remembered & world.unreadable_pools:
            self._hold(judged.name, remembered)
            return
        owner = find_owner(node, judged.seen.records)
        # A pool that turned to observing keeps its nodes; one that never had them takes none.
        acting = [*self._acting, *(pool for pool in self._observing if pool.name == owner)]
        if claim := decide_claim(node, owner, acting):
            yield claim.winner.name, _Task(judged, _Role.MEMBER)
            for loser in claim.losers:
                yield loser.name, plan_ceded(judged.name, claim.winner, loser)
        elif remembered or node.owned or node.owns_cordon or node.annotations:
            self._hold(judged.name, remembered)
            yield owner or "", _Task(judged, _Role.LEAVING)
        for pool in self._observing:
            if pool.name != owner and (claim := decide_claim(node, owner, [*acting, pool])):
                if claim.winner is pool:
                    yield pool.name, _Task(judged, _Role.MEMBER)
                elif pool in claim.losers:
                    yield pool.name, plan_ceded(judged.name, claim.winner, pool)

    def _plan(
        self, task: _Task, pool: Pool | None, world: World, now: datetime, *, may_start: bool
    ) -> NodePlan | None:
        judged = task.judged
        try:
            plan = judged.unreadable or self._plan_role(task, pool, world, now, may_start=may_start)
        except Exception as error:
            # One node that can't be judged must stop neither the others nor the process.
            message = f"not understood, and left alone; please report this: {error!r}"
            plan = NodePlan(judged.name, NodeState.BLOCKED, Reason.INTERNAL_ERROR, message)
        if plan is None:
            return None
        if pool is not None:
            plan = hold_back(plan, judged, pool)
        return explain_refusal(plan, judged)

    def _plan_role(
        self, task: _Task, pool: Pool | None, world: World, now: datetime, *, may_start: bool
    ) -> NodePlan | None:
        seen = task.judged.seen
        if task.role is _Role.LEAVING:
            return plan_leaving(
                seen,
                pool,
                daemonsets=world.daemonsets,
                may_start=may_start,
                now=now,
                timing=self._timing,
            )
        assert pool is not None
        return plan_member(
            seen,
            pool,
            daemonsets=world.daemonsets,
            may_start=may_start,
            now=now,
            timing=self._timing,
        )

    # What is kept between passes.

    def _sort(self, pools: tuple[Pool, ...]) -> None:
        """Sort the pools by what they do, where they are others than before."""
        if pools is self._listed:
            return
        self._listed = pools
        ordered = sorted(pools, key=lambda pool: pool.name)
        self._pools = {pool.name: pool for pool in ordered}
        # Before our finalizer is on it, a pool takes nobody's nodes.
        self._acting = [p for p in ordered if not p.observes and p.has_our_finalizer]
        self._observing = [pool for pool in ordered if pool.observes]
        self._deleting = [p for p in ordered if p.deleting and p.has_our_finalizer]
        self._versions = [(p.uid, p.name, p.generation, p.has_our_finalizer) for p in ordered]

    def _begin_anew(self) -> None:
        self.books = {name: Book() for name in self._pools}
        self._entered.clear()
        self._holds.clear()
        self._held.clear()
        self._due.clear()
        self._wakes.clear()

    def _book(self, pool: str) -> Book:
        return self.books.setdefault(pool, Book())

    def _hold(self, node: str, pools: frozenset[str]) -> None:
        self._held.subtract(self._holds.pop(node, ()))
        if pools:
            self._holds[node] = pools
            self._held.update(pools)

    def _is_over(self, pool: Pool, now: datetime) -> bool:
        """Whether a pool that is being deleted is done, or waits for nothing."""
        return self._held[pool.name] == 0 or has_stalled(pool, now, self._timing.leaving_patience)

    def _wake(self, node: str, at: datetime) -> None:
        at = min(at, self._due.get(node, at))
        self._due[node] = at
        heapq.heappush(self._wakes, (at, node))

    def _take_due(self, now: datetime) -> Iterable[str]:
        due = []
        while self._wakes and self._wakes[0][0] <= now:
            at, node = heapq.heappop(self._wakes)
            if self._due.get(node) == at:
                due.append(node)
        return due

    def _next_wake(self) -> datetime | None:
        while self._wakes and self._due.get(self._wakes[0][1]) != self._wakes[0][0]:
            heapq.heappop(self._wakes)
        return self._wakes[0][0] if self._wakes else None


def has_stalled(pool: Pool, now: datetime, patience: timedelta) -> bool:
    """Whether no node of a pool that is being deleted finished for so long."""
    leaving = pool.status.leaving
    return pool.deleting and leaving is not None and now - leaving.since >= patience


def _measure(judged: Judged, plan: NodePlan) -> NodeCapacity:
    """What a member offers; of one that is not understood, nothing is known."""
    if plan.reason is Reason.INTERNAL_ERROR:
        return NodeCapacity()
    return observe_node_capacity(judged.seen.node, judged.seen.pods)
