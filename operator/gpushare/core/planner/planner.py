"""Makes all decisions for all pools, and again for each node that an event concerns.

Plans are kept by node and pool, so that an event plans one node and adds up a chunk of its pool.
Equal snapshots give equal plans, whatever the order of the events.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Set
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from gpushare.api.k8s.node import Node
from gpushare.api.pool import Pool
from gpushare.core.capacity.node_labels import PUBLISHED_KEYS, combine
from gpushare.core.cause import Cause
from gpushare.core.nodechange.releasing import has_stalled
from gpushare.core.ownership.pool_index import PoolIndex
from gpushare.core.ownership.releases import Releases
from gpushare.core.planner.decisions import NodeDecision, Plan
from gpushare.core.planner.holds import Proposal, hold
from gpushare.core.planner.joins import find_next, is_under_way, read_end
from gpushare.core.planner.node_predicate import is_relevant, list_label_keys
from gpushare.core.planner.pool_plans import IN_SERVICE, UNKNOWN, Member, PoolPlans, Service
from gpushare.core.planner.pool_windows import find_next_edge, list_due, refresh_windows
from gpushare.core.planner.requeue import RequeueQueue
from gpushare.core.planner.starts import count_progress, find_refusal_of, find_shared_refusals
from gpushare.core.planner.task import Task, list_tasks
from gpushare.core.rollout.budget import refuse_join
from gpushare.core.rollout.start_now import find_active
from gpushare.core.snapshot.actions import NodePlan, NodeState, Verdict
from gpushare.core.snapshot.cluster import ClusterSnapshot, NodeContext, build_node_context
from gpushare.core.snapshot.isolation import observe_isolation
from gpushare.core.snapshot.node import ReconcileContext, Timing
from gpushare.names import Reason

LONGEST_WAIT = timedelta(minutes=10)
"""The longest time until a node with a requeue time is decided about again."""
_Plans = dict[str, NodePlan | None]


class Planner:
    """Keeps a plan for each node of each pool, and folds them to decide what begins next.

    Beside the plans it remembers only what follows from the last snapshots: which pools hold a node
    (`_entered`), which nodes pools must still give back (`releases`), when nodes are due again
    (`_requeue`), and each pool's `LastPass`.
    """

    def __init__(
        self,
        timing: Timing,
        *,
        may_evict: bool = False,
        may_tear_down: bool = False,
        memory_unit: str = "GiB",
        published_keys: Collection[str] = PUBLISHED_KEYS,
        max_joins: int = 16,
    ):
        self.pool_states: dict[str, PoolPlans] = {}
        self._timing = timing
        self._build_context = partial(
            ReconcileContext,
            may_evict=may_evict,
            may_tear_down=may_tear_down,
            memory_unit=memory_unit,
        )
        self._published_keys = tuple(sorted(published_keys))
        self._max_joins = max_joins
        self._listed: tuple[Pool, ...] | None = None
        self._pools: dict[str, Pool] = {}
        self._index = PoolIndex()
        self._deleting: list[Pool] = []
        self._versions: list[object] = []
        self._label_keys: Set[str] = frozenset()
        """Keys of the node labels that decisions read."""
        self._basis: object = None
        """Versions of all that concerns every node: when it changes, all nodes are decided anew."""
        self._entered: dict[str, frozenset[str]] = {}
        """By node, the names of the pools that have a plan of it."""
        self.seen: set[str] = set()
        """Nodes whose plans the last pass may have changed."""
        self.releases = Releases()
        self._requeue = RequeueQueue()

    def update(
        self, snapshot: ClusterSnapshot, changed: Collection[str] | None, now: datetime
    ) -> Plan:
        """Decide for the nodes `changed` (None: all), those that are due, and those they affect."""
        self._sort(snapshot.pools)
        plugins = snapshot.plugin_daemonsets
        basis = self._versions, snapshot.unreadable_pools, plugins, snapshot.freeze
        self.seen = set()
        if changed is None or basis != self._basis:
            self._basis = basis
            self._label_keys = list_label_keys(
                snapshot.pools, plugins.daemonsets, self._published_keys
            )
            self.seen.update(self._entered)
            self._begin_anew()
            changed = snapshot.nodes.keys()
        ctx = self.build_context(snapshot, now)
        decisions = list(self._decide(snapshot, {*changed, *self._requeue.take_due(now)}, ctx))
        dues = self._requeue.find_next(), find_next_edge(self.pool_states)
        return Plan(
            decisions=tuple(decisions),
            release=tuple(p for p in self._deleting if self._is_over(p, now)),
            requeue_at=min(filter(None, dues), default=None),
        )

    def is_relevant(self, old: Node, new: Node) -> bool:
        """Return whether the change of a node from `old` to `new` needs a new decision.

        Valid while pools and DaemonSets stay the same; where they change, all nodes get one.
        """
        return is_relevant(old, new, self._label_keys)

    def build_context(self, snapshot: ClusterSnapshot, now: datetime) -> ReconcileContext:
        """Build the context of all decisions about `snapshot`."""
        return self._build_context(now, self._timing, snapshot.plugin_daemonsets)

    # The order of a pass.

    def _decide(
        self, snapshot: ClusterSnapshot, changed: set[str], ctx: ReconcileContext
    ) -> Iterator[NodeDecision]:
        """Plan each changed node, then decide pool by pool what depends on all nodes of the pool.

        Only a node's plan is kept in between: the contexts of thousands would take much memory.
        """
        planned: defaultdict[str, _Plans] = defaultdict(dict)
        contexts: dict[str, ReconcileContext] = {}
        touched: set[str] = set()
        self.seen |= changed
        for name in sorted(changed):
            was_in = self._entered.pop(name, frozenset())
            touched |= was_in
            self.releases.enter(name)
            self._requeue.stop(name)
            entered = set()
            if name in snapshot.nodes:
                context = build_node_context(snapshot, name)
                candidates = self._index.find_candidates(context.seen.node)
                unreadable = snapshot.unreadable_pools
                for pool, task in list_tasks(context, candidates, unreadable, self.releases):
                    entered.add(pool)
                    if isinstance(task, NodePlan):
                        self._lose_claim(pool, task)
                        continue
                    if pool not in contexts:
                        contexts[pool] = self._narrow_context(ctx, snapshot, pool)
                    service = self._judge_service(context, pool)
                    planned[pool][name] = self._plan_and_enter(task, pool, contexts[pool], service)
            for pool in was_in - entered:
                self.pool_states[pool].forget(name)
            if entered:
                self._entered[name] = frozenset(entered)
        touched.update(list_due(self.pool_states, ctx.now))
        for pool in sorted(touched | planned.keys()):
            planned_in = contexts.get(pool) or self._narrow_context(ctx, snapshot, pool)
            yield from self._decide_pool(pool, planned[pool], snapshot, planned_in)
        yield from self._admit_joins(planned, snapshot, ctx)

    def _decide_pool(
        self, name: str, planned: _Plans, snapshot: ClusterSnapshot, planned_in: ReconcileContext
    ) -> Iterator[NodeDecision]:
        """Decide what depends on all nodes of a pool, and admit starts if the pool acts.

        Where a halt or a window begins or ends, nodes that are only cordoned, failed, or held by a
        contest are planned again first: no other plan depends on that.
        """
        pool_state, pool = self._pool_state(name), self._pools.get(name)
        ctx = self._narrow_context(planned_in, snapshot, name)

        def plan_again(nodes: Set[str], ctx: ReconcileContext) -> None:
            for node in sorted(nodes):
                planned[node] = self._plan_and_enter(self._find_task(snapshot, node), name, ctx)

        last_stops = pool_state.last_pass.stops
        if {last_stops[1], planned_in.closed} != {ctx.closed}:
            # A failed node may be tried again by now, and then halts the pool no more.
            plan_again((pool_state.under_way | pool_state.contested) - pool_state.cordoned, ctx)
            ctx = self._narrow_context(ctx, snapshot, name)
        stops = ctx.is_halted, ctx.closed
        if {last_stops, (planned_in.is_halted, planned_in.closed)} != {stops}:
            pool_state.last_pass = replace(pool_state.last_pass, stops=stops)
            plan_again(pool_state.cordoned, ctx)
        for node, plan in sorted(planned.items()):
            if plan is not None:
                self.seen.add(node)
                if plan.verdict.start is None:
                    yield NodeDecision(name, plan)
        if (pool is None or pool.acts) and name not in snapshot.unrecorded_pools:
            yield from self._admit(name, planned, snapshot, ctx)

    def _narrow_context(
        self, ctx: ReconcileContext, snapshot: ClusterSnapshot, pool: str
    ) -> ReconcileContext:
        """Return `ctx` with what holds for one pool alone: its halt, and what closes it."""
        pool_state, found = self._pool_state(pool), self._pools.get(pool)
        refresh_windows(pool_state, found, snapshot, self._timing, ctx.now)
        acts = found is not None and found.acts and not found.deleting
        windows = pool_state.windows
        closed = windows if windows is not None and windows.lets_go else None
        return replace(
            ctx,
            acting_since=snapshot.acting_since.get(pool),
            # A halt that ends automatically aborts nothing: else a refusal would abort itself.
            is_halted=acts and (halt := pool_state.halt) is not None and not halt.resumes,
            closed=closed.refusal if closed is not None else None,
            closed_until=closed.until if closed is not None else None,
        )

    def _plan_and_enter(
        self, task: Task, name: str, ctx: ReconcileContext, service: Service | None = None
    ) -> NodePlan | None:
        """Plan a node, and enter its plan; without `service` it is in service as it was before."""
        pool_state, pool = self._pool_state(name), self._pools.get(name)
        if service is None:
            service = pool_state.members.get(task.context.name, UNKNOWN).service
        plan = self._plan(task, pool, ctx)
        if plan is None:
            self._withdraw(pool_state, task.context.name, service)
        else:
            self._enter(pool_state, pool, task, plan, ctx, service)
        return plan

    # Which starts are admitted.

    def _admit(
        self,
        name: str,
        planned: _Plans,
        snapshot: ClusterSnapshot,
        ctx: ReconcileContext,
    ) -> Iterator[NodeDecision]:
        pool_state, pool = self.pool_states[name], self._pools.get(name)
        releasing = self.releases.count(name)
        shared = find_shared_refusals(pool, pool_state, releasing)
        # Each node out of service has an answer of its own, which the counts decide; all other
        # nodes share one.
        progress = count_progress(pool, pool_state, releasing)
        last = pool_state.last_pass
        moved = shared != last.refusals or progress != last.progress
        own = {*planned, *(pool_state.list_queued_out_of_service() if moved else ())}
        queued = pool_state.queued if shared != last.refusals else pool_state.queued & own
        # A node that the API server refuses goes last: it would take all others' turn for ever.
        for node in sorted(queued, key=lambda name: (name in snapshot.refusals, name)):
            if node not in own and shared == last.refusals:
                continue
            self.seen.add(node)
            plan, refusal = pool_state.plan_of(node), None
            is_leaving = node in self.releases
            # A node whose cordon is being written has been admitted already.
            if node not in snapshot.starting:
                refusal = find_refusal_of(plan, pool, pool_state, releasing, is_leaving=is_leaving)
                # A node that is cordoned already needs no further place.
                under_way = plan.facts.under_way
                if refusal is None and plan.initializes and not (under_way or is_leaving):
                    pool_state.join_queue.wait(node)
                    continue
            pool_state.join_queue.leave(node)
            if refusal is not None:
                plan = self._keep_waiting(name, plan, refusal)
                if node in planned or plan.action is not None:
                    yield NodeDecision(name, plan)
            elif started := self._begin(name, node, planned, snapshot, ctx):
                if started.uses_budget:
                    pool_state.take_out_of_service(node)
                    shared = find_shared_refusals(pool, pool_state, releasing)
                yield NodeDecision(name, started)
        progress = count_progress(pool, pool_state, releasing)
        pool_state.last_pass = replace(pool_state.last_pass, refusals=shared, progress=progress)

    def _admit_joins(
        self, planned: Mapping[str, _Plans], snapshot: ClusterSnapshot, ctx: ReconcileContext
    ) -> Iterator[NodeDecision]:
        """Give free places to nodes that join, over all pools, and yield the rest's wait once.

        Where no place is free, the cost does not depend on how many nodes wait.
        """
        waiting = {name: each for name, each in self.pool_states.items() if each.join_queue.waiting}
        while name := self._find_next_join(waiting):
            pool_state = waiting[name]
            # A node that the API server refuses goes last.
            node = min(pool_state.join_queue.waiting, key=lambda n: (n in snapshot.refusals, n))
            pool_state.join_queue.leave(node)
            pool_state.serve(node, joins=True)
            self.seen.add(node)
            narrowed = self._narrow_context(ctx, snapshot, name)
            started = self._begin(name, node, planned.get(name, {}), snapshot, narrowed)
            if started is None or started.started is None:
                pool_state.serve(node, joins=False)
            if started is not None:
                yield NodeDecision(name, started)
        for name, pool_state in waiting.items():
            refusal = refuse_join(name, self._max_joins)
            for node in sorted(pool_state.join_queue.arrived):
                plan = self._keep_waiting(name, pool_state.plan_of(node), refusal)
                yield NodeDecision(name, plan)
            pool_state.join_queue.arrived.clear()

    def _find_next_join(self, waiting: Mapping[str, PoolPlans]) -> str:
        """Return which pool gives the next place to a node that joins; empty where none does."""
        joins = {name: each.sums.joins for name, each in waiting.items() if each.join_queue.waiting}
        if not joins:
            return ""
        every = [each.sums.joins for each in self.pool_states.values()]
        return find_next(joins, every, self._max_joins)

    def _keep_waiting(self, name: str, plan: NodePlan, refusal: Cause) -> NodePlan:
        plan = replace(plan, refusal=refusal)
        self.pool_states[name].show(plan)
        return plan

    def _begin(
        self,
        name: str,
        node: str,
        planned: _Plans,
        snapshot: ClusterSnapshot,
        ctx: ReconcileContext,
    ) -> NodePlan | None:
        """Begin the change of a node that was admitted; None where the node needs nothing more."""
        pool_state, pool = self.pool_states[name], self._pools.get(name)
        task = self._find_task(snapshot, node)
        started = planned[node] if node in planned else self._plan(task, pool, ctx)
        service = pool_state.members.get(node, UNKNOWN).service
        if started is None:
            self._withdraw(pool_state, node, service)
            return None
        if started.verdict.start is not None:
            # What a pool holds up has no start, or is refused one.
            started = hold(Proposal(started.begin(), task.context, None, ctx))
        self._enter(pool_state, pool, task, started, ctx, service)
        return started

    def _judge_service(self, context: NodeContext, name: str) -> Service:
        """Judge whether a node is in service, in its change, or joining its pool."""
        pool = self._pools.get(name)
        # A pool that is being deleted waits only for its own changes: a node that is down must
        # not keep the healthy ones from being given back.
        deleting = pool is not None and pool.deleting
        service = Service(
            is_unavailable=context.is_in_change if deleting else context.is_unavailable,
            is_changing=context.is_in_change,
            is_cordoned=context.is_only_cordoned,
            joins=is_under_way(context),
        )
        return IN_SERVICE if service == IN_SERVICE else service

    def _lose_claim(self, pool: str, plan: NodePlan) -> None:
        """Show that the pool claims a node that another pool has, which `plan` names."""
        pool_state = self._pool_state(pool)
        took = pool_state.members.get(plan.node, UNKNOWN).took_seconds
        pool_state.put(plan.node, Member(plan, took_seconds=took))

    def _withdraw(self, pool_state: PoolPlans, node: str, service: Service) -> None:
        """Show no plan of a node for which nothing is planned any more."""
        member = pool_state.members.get(node, UNKNOWN)
        pool_state.put(node, replace(member, plan=None, service=service))

    def _find_task(self, snapshot: ClusterSnapshot, node: str) -> Task:
        return Task(build_node_context(snapshot, node), node not in self.releases)

    def _enter(
        self,
        pool_state: PoolPlans,
        pool: Pool | None,
        task: Task,
        plan: NodePlan,
        ctx: ReconcileContext,
        service: Service,
    ) -> None:
        plan, name = plan.keep(), plan.node
        if plan.requeue_after is not None:
            self._requeue.set(name, ctx.now + min(plan.requeue_after, LONGEST_WAIT))
        member = pool_state.members.get(name, UNKNOWN)
        if not task.is_member:
            # A node that is just being released is not reported; one that can't leave is.
            leaves = plan.state is NodeState.UPDATING and not (pool is not None and pool.deleting)
            shown = None if leaves else plan
            took, end = member.took_seconds, member.join_end
            pool_state.put(name, Member(shown, service, took_seconds=took, join_end=end))
            return
        assert pool is not None
        applied = task.context.seen.records.applied
        if plan.facts.uses_budget:
            # The eviction began earlier, and nothing on the node records that.
            service = replace(service, is_unavailable=True, is_changing=True)
        labels = task.find_labels(plan)
        pool_state.put(
            name,
            Member(
                plan,
                service,
                task.measure(plan, pool),
                combine(labels, self._published_keys) if labels is not None else None,
                observe_isolation(task.context.seen),
                applied.took_seconds if applied is not None else None,
                read_end(task.context, pool),
            ),
        )

    # The plan of one node.

    def _plan(self, task: Task, pool: Pool | None, ctx: ReconcileContext) -> NodePlan | None:
        context = task.context
        if context.unreadable:
            unreadable = Verdict(NodeState.BLOCKED, Reason.RECORD_UNREADABLE, context.unreadable)
            return NodePlan(context.name, unreadable)
        try:
            plan = task.plan(pool, ctx)
        except Exception as error:
            # One node that can't be judged must stop neither the others nor the process.
            message = f"Internal error; the node was not changed. Please report: {error!r}"
            plan = NodePlan(
                context.name, Verdict(NodeState.BLOCKED, Reason.INTERNAL_ERROR, message)
            )
        return hold(Proposal(plan, context, pool, ctx)) if plan is not None else None

    # State that is kept between passes.

    def _sort(self, pools: tuple[Pool, ...]) -> None:
        """Refresh what is derived from the pools' specs, where the pools have changed."""
        if pools is self._listed:
            return
        self._listed = pools
        ordered = sorted(pools, key=lambda pool: pool.name)
        self._pools = {pool.name: pool for pool in ordered}
        # Before our finalizer is on it, a pool takes nobody's nodes.
        self._index = PoolIndex(p for p in ordered if p.observes or p.has_our_finalizer)
        self._deleting = [p for p in ordered if p.deleting and p.has_our_finalizer]
        self._versions = [
            (
                *(p.uid, p.name, p.generation, p.has_our_finalizer, p.retry, p.start_now),
                *(p.status.approval, find_active(p)),
            )
            for p in ordered
        ]

    def _begin_anew(self) -> None:
        self.pool_states = {name: self._pool_state(name).start_over() for name in self._pools}
        self._entered.clear()
        self.releases = Releases()
        self._requeue = RequeueQueue()

    def _pool_state(self, pool: str) -> PoolPlans:
        if (found := self.pool_states.get(pool)) is None:
            found = self.pool_states[pool] = PoolPlans()
        return found

    def _is_over(self, pool: Pool, now: datetime) -> bool:
        """Return whether a pool that is being deleted has released its nodes, or has stalled."""
        if self.releases.count(pool.name) == 0:
            return True
        pool_state = self._pool_state(pool.name)
        if pool_state.refusal is not None:
            # What may not begin has not stalled: the status records until when that was so.
            pool_state.is_stale = True
            return False
        return has_stalled(pool, now, self._timing.release_patience)
