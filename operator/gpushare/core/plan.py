"""All decisions, for all pools: made anew for the nodes that something happened to.

Overlap makes decisions global, and budgets tie the nodes of a pool together; so what was decided is
kept in a book for each pool, and an event of one node costs the same at a hundred nodes and at
five thousand. Equal worlds lead to equal plans, whatever the order of the events.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum, auto

from gpushare.api.pool import Pool
from gpushare.api.rollout import ApprovalPolicy, Rollout
from gpushare.core.actions import NodePlan, NodeState
from gpushare.core.alarms import Alarms
from gpushare.core.book import Book
from gpushare.core.capacity import NodeCapacity, observe_node_capacity
from gpushare.core.holdings import Holdings
from gpushare.core.isolation import NOTHING_SHARED, observe_isolation
from gpushare.core.leaving import has_stalled, plan_leaving
from gpushare.core.member import plan_member
from gpushare.core.membership import decide_claim, find_owner
from gpushare.core.observed import Pass, Timing
from gpushare.core.restraint import explain_refusal, hold_back, keep_waiting, plan_ceded
from gpushare.core.turn import OPEN, UNAPPROVED, Progress, Turn, is_approved, plan_turn
from gpushare.core.world import Judged, World, judge
from gpushare.names import Reason

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

    def __init__(
        self,
        timing: Timing,
        *,
        may_evict: bool = False,
        may_tear_down: bool = False,
        memory_unit: str = "GiB",
    ):
        self.books: dict[str, Book] = {}
        self._timing = timing
        self._may_evict = may_evict
        self._may_tear_down = may_tear_down
        self._memory_unit = memory_unit
        self._listed: tuple[Pool, ...] | None = None
        self._pools: dict[str, Pool] = {}
        self._acting: list[Pool] = []
        self._observing: list[Pool] = []
        self._deleting: list[Pool] = []
        self._versions: list[object] = []
        self._basis: object = None
        """What all decisions rest on: where it changes, all are made anew."""
        self._entered: dict[str, frozenset[str]] = {}
        """By node, the pools whose books it is in."""
        self.seen: set[str] = set()
        """Nodes of which the last pass may have changed what the books say."""
        self.holdings = Holdings()
        self._alarms = Alarms()

    def update(self, world: World, changed: Collection[str] | None, now: datetime) -> Plan:
        """Decide anew for the nodes `changed` (None: all), and for those that depend on them."""
        self._sort(world.pools)
        basis = (self._versions, world.unreadable_pools, world.plugin_daemonsets)
        self.seen = set()
        if changed is None or basis != self._basis:
            self._basis = basis
            self.seen.update(self._entered)
            self._begin_anew()
            changed = world.nodes.keys()
        at = Pass(
            now,
            self._timing,
            world.plugin_daemonsets,
            may_evict=self._may_evict,
            may_tear_down=self._may_tear_down,
            memory_unit=self._memory_unit,
        )
        decisions = list(self._decide(world, {*changed, *self._alarms.take_due(now)}, at))
        return Plan(
            decisions=tuple(decisions),
            release=tuple(p for p in self._deleting if self._is_over(p, now)),
            wake_at=self._alarms.find_next(),
        )

    # The order of a pass.

    def _decide(self, world: World, changed: set[str], at: Pass) -> Iterator[Decision]:
        tasks: defaultdict[str, dict[str, _Task]] = defaultdict(dict)
        touched: set[str] = set()
        self.seen |= changed
        for name in sorted(changed):
            was_in = self._entered.pop(name, frozenset())
            touched |= was_in
            self.holdings.enter(name)
            self._alarms.stop(name)
            entered = set()
            if name in world.nodes:
                judged = judge(world, name)
                for pool, task in self._place(judged, world):
                    entered.add(pool)
                    if isinstance(task, NodePlan):
                        self.books[pool].cede(task)
                        continue
                    touched.add(pool)
                    tasks[pool][name] = task
                    self._serve(judged, pool)
            for pool in was_in - entered:
                self.books[pool].forget(name)
            if entered:
                self._entered[name] = frozenset(entered)
        for pool in sorted(touched):
            yield from self._decide_pool(pool, tasks[pool], world, at)

    def _decide_pool(
        self, name: str, tasks: dict[str, _Task], world: World, at: Pass
    ) -> Iterator[Decision]:
        """First what every node needs; then whose turn it is, since that depends on all of them."""
        book, pool = self.books[name], self._pools.get(name)
        at = replace(at, acting_since=world.acting_since.get(name))
        # A pool that only tells what it would do has no turns to wait for.
        acts = pool is None or pool.acts
        first = self._find_first_turn(name)
        planned: dict[str, NodePlan] = {}
        for node in sorted(tasks):
            plan = self._plan(tasks[node], pool, at, first if acts else OPEN)
            if plan is None:
                book.strike(node)
                continue
            self._enter(book, pool, tasks[node], plan, at)
            planned[node] = plan
        if acts and self._find_turn(name).is_halted != first.is_halted:
            planned |= self._plan_under_way(name, tasks, world, at)
        for _, plan in sorted(planned.items()):
            if not (plan.in_line and acts):
                yield Decision(name, plan)
        self.seen.update(planned)
        if not acts:
            return
        shared = self._find_turn(name)
        # Those out of service have a turn of their own each, which the sums decide; all others the
        # same one.
        moved = shared != book.told or self._count(name) != book.told_at
        own = {*tasks, *(book.unavailable | book.under_way if moved else ())}
        waiting = book.in_line.keys() if shared != book.told else book.in_line.keys() & own
        # One that the API server refuses goes last: it would take the turn of all others for ever.
        for node in sorted(waiting, key=lambda name: (name in world.refusals, name)):
            if node not in own and shared == book.told:
                continue
            self.seen.add(node)
            waits = book.in_line[node]
            turn = self._find_turn_of(waits, name)
            if not (turn.may_join if waits.joins else turn.may_begin):
                plan = keep_waiting(waits, turn)
                book.queue(plan)
                book.enter(plan)
                if node in tasks:
                    yield Decision(name, plan)
                continue
            task = tasks.get(node) or self._find_task(world, node)
            plan = self._plan(task, pool, at, OPEN)
            if plan is None:
                book.strike(node)
                continue
            self._enter(book, pool, task, plan, at)
            # It has had its turn: what comes of it is an event of its own.
            book.in_line.pop(node, None)
            if plan.takes_slot:
                book.occupy(node)
                shared = self._find_turn(name)
            yield Decision(name, plan)
        book.told, book.told_at = shared, self._count(name)

    def _plan_under_way(
        self, name: str, tasks: Mapping[str, _Task], world: World, at: Pass
    ) -> dict[str, NodePlan]:
        """The pool is halted from now on, and nodes that were only cordoned are let go of; or it
        is not any more."""
        book, pool = self.books[name], self._pools.get(name)
        planned: dict[str, NodePlan] = {}
        for node in sorted(book.under_way):
            task = tasks.get(node) or self._find_task(world, node)
            plan = self._plan(task, pool, at, self._find_first_turn(name))
            if plan is not None:
                self._enter(book, pool, task, plan, at)
                planned[node] = plan
        return planned

    # Whose turn it is.

    def _find_turn(self, name: str, node: str = "", *, is_out: bool = False) -> Turn:
        """Whether one more node of a pool may begin; what `node` itself takes up is not counted.

        One that `is_out` of service for a change that failed takes nothing more: nodes that failed
        together must not wait for each other's place.
        """
        pool, progress = self._pools.get(name), self._count(name, node)
        if is_out:
            progress = replace(progress, unavailable=0, changing=0)
        if pool is not None and not pool.deleting:
            return plan_turn(pool.spec.rollout, progress)
        # What is given back waits for its own kind only: nothing else must hold a deletion up.
        rollout = pool.spec.rollout if pool is not None else Rollout()
        alone = replace(progress, total=self.holdings.count(name), halted_by="")
        return plan_turn(rollout.model_copy(update={"canary": 0}), alone)

    def _count(self, name: str, node: str = "") -> Progress:
        book = self._book(name)
        return Progress(
            total=len(book.capacities),
            unavailable=len(book.unavailable) - (node in book.unavailable),
            changing=len(book.changing) - (node in book.changing),
            proven=len(book.proven),
            halted_by=book.halting[min(book.halting)].halts if book.halting else "",
        )

    def _find_first_turn(self, name: str) -> Turn:
        """Before turns are given out nobody begins; who joins waits only where a person must agree
        to each kind of change."""
        pool = self._pools.get(name)
        may_join = pool is None or pool.spec.rollout.approval is ApprovalPolicy.AUTOMATIC
        return replace(self._find_turn(name), may_begin=False, may_join=may_join)

    def _find_turn_of(self, plan: NodePlan, name: str) -> Turn:
        """Whether the change of a node that is in line may begin."""
        pool, kind = self._pools.get(name), plan.kind
        member = pool is not None and plan.node not in self.holdings
        if member and kind is not None and not is_approved(self._pools[name], kind):
            return UNAPPROVED
        return self._find_turn(name, plan.node, is_out=plan.under_way)

    def _serve(self, judged: Judged, name: str) -> None:
        """Enter whether a node is in service."""
        book, pool = self._book(name), self._pools.get(name)
        book.serve(judged.name)
        if judged.is_in_change:
            book.changing.add(judged.name)
        # A pool that is being deleted waits only for its own changes: a node that is down must
        # not keep the healthy ones from being given back.
        deleting = pool is not None and pool.deleting
        if judged.is_in_change if deleting else judged.is_unavailable:
            book.unavailable.add(judged.name)

    def _find_task(self, world: World, node: str) -> _Task:
        role = _Role.LEAVING if node in self.holdings else _Role.MEMBER
        return _Task(judge(world, node), role)

    def _enter(self, book: Book, pool: Pool | None, task: _Task, plan: NodePlan, at: Pass) -> None:
        book.queue(plan)
        if plan.wake_after_seconds is not None:
            seconds = min(plan.wake_after_seconds, LONGEST_WAIT_SECONDS)
            self._alarms.set(plan.node, at.now + timedelta(seconds=seconds))
        if task.role is _Role.MEMBER:
            book.enter(plan)
            book.measure(plan.node, _measure(task.judged, plan))
            book.claim(plan.node, observe_isolation(task.judged.seen))
            if plan.takes_slot and not plan.in_line:
                # It began earlier, and nothing on the node says so.
                book.occupy(plan.node)
            return
        book.measure(plan.node, None)
        book.claim(plan.node, NOTHING_SHARED)
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
            self.holdings.enter(judged.name, remembered)
            return
        owner = find_owner(node, judged.seen.records)
        # A pool that turned to observing keeps its nodes; one that never had them takes none.
        acting = [*self._acting, *(pool for pool in self._observing if pool.name == owner)]
        if claim := decide_claim(node, owner, acting):
            yield claim.winner.name, _Task(judged, _Role.MEMBER)
            for loser in claim.losers:
                yield loser.name, plan_ceded(judged.name, claim.winner, loser)
        elif remembered or node.carries_ours:
            self.holdings.enter(judged.name, remembered)
            yield owner or "", _Task(judged, _Role.LEAVING)
        for pool in self._observing:
            if pool.name != owner and (claim := decide_claim(node, owner, [*acting, pool])):
                if claim.winner is pool:
                    yield pool.name, _Task(judged, _Role.MEMBER)
                elif pool in claim.losers:
                    yield pool.name, plan_ceded(judged.name, claim.winner, pool)

    def _plan(self, task: _Task, pool: Pool | None, at: Pass, turn: Turn) -> NodePlan | None:
        judged = task.judged
        try:
            plan = judged.unreadable or _plan_role(task, pool, at, turn)
        except Exception as error:
            # One node that can't be judged must stop neither the others nor the process.
            message = f"not understood, and left alone; please report this: {error!r}"
            plan = NodePlan(judged.name, NodeState.BLOCKED, Reason.INTERNAL_ERROR, message)
        if plan is None:
            return None
        if pool is not None:
            plan = hold_back(plan, judged, pool)
        return explain_refusal(plan, judged)

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
        self._versions = [
            (p.uid, p.name, p.generation, p.has_our_finalizer, p.retry, p.status.approval)
            for p in ordered
        ]

    def _begin_anew(self) -> None:
        self.books = {name: self._book(name).begin_anew() for name in self._pools}
        self._entered.clear()
        self.holdings = Holdings()
        self._alarms = Alarms()

    def _book(self, pool: str) -> Book:
        return self.books.setdefault(pool, Book())

    def _is_over(self, pool: Pool, now: datetime) -> bool:
        """Whether a pool that is being deleted is done, or waits for nothing."""
        return self.holdings.count(pool.name) == 0 or has_stalled(
            pool, now, self._timing.leaving_patience
        )


def _plan_role(task: _Task, pool: Pool | None, at: Pass, turn: Turn) -> NodePlan | None:
    if task.role is _Role.LEAVING:
        plan = plan_leaving(task.judged.seen, pool, at, turn)
        if plan is None or pool is None or pool.deleting:
            return plan
        # What is given back needs nobody's agreement: it is no part of the plan for the members.
        return replace(plan, kind=None)
    assert pool is not None
    return plan_member(task.judged.seen, pool, at, turn)


def _measure(judged: Judged, plan: NodePlan) -> NodeCapacity:
    """What a member offers; of one that is not understood, nothing is known."""
    if plan.reason is Reason.INTERNAL_ERROR:
        return NodeCapacity()
    seen = judged.seen
    return observe_node_capacity(seen.node, seen.pods, seen.unhealthy_cards)
