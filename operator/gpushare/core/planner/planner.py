"""Makes all decisions for all pools, and again for each node that an event concerns.

Plans are kept by node and pool, so that an event plans one node and adds up a chunk of its pool.
Equal snapshots give equal plans, whatever the order of the events.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Set
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import chain

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
from gpushare.core.planner.sizing import Sizing
from gpushare.core.planner.starts import StartRequest
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
    (`_requeue`), since when nodes of pools with a size are idle, and pods wait (`_sizing`), and of
    each pool what need not be asked again (`PoolPlans.answers`, `stops`, `windows`) or has yet to
    be told (`moved`, `is_stale`).
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
        self.plans_by_pool: dict[str, PoolPlans] = {}
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
        self._sizing = Sizing(memory_unit)

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
        # Before it judges windows again: that they have changed is news for all nodes.
        due = set(list_due(self.plans_by_pool, now))
        snapshot, changed = self._sizing.assign(snapshot, changed, self._refresh_windows, now)
        ctx = self.build_context(snapshot, now)
        changed = {*changed, *self._requeue.take_due(now)}
        decisions = list(self._decide(snapshot, changed, due, ctx))
        edge = find_next_edge(self.plans_by_pool)
        dues = self._requeue.find_next(), edge, self._sizing.moves_due
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
        self, snapshot: ClusterSnapshot, changed: set[str], due: set[str], ctx: ReconcileContext
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
                self.plans_by_pool[pool].forget(name)
            if entered:
                self._entered[name] = frozenset(entered)
            touched |= entered
        touched |= due
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
        pool_plans, pool = self._plans_of(name), self._pools.get(name)
        ctx = self._narrow_context(planned_in, snapshot, name)

        def plan_again(nodes: Set[str], ctx: ReconcileContext) -> None:
            for node in sorted(nodes):
                task = self._find_task(snapshot, name, node)
                planned[node] = self._plan_and_enter(task, name, ctx)

        last_stops = pool_plans.stops
        if {last_stops[1], planned_in.closed} != {ctx.closed}:
            # A failed node may be tried again by now, and then halts the pool no more.
            plan_again((pool_plans.under_way | pool_plans.contested) - pool_plans.cordoned, ctx)
            ctx = self._narrow_context(ctx, snapshot, name)
        stops = ctx.is_halted, ctx.closed
        if {last_stops, (planned_in.is_halted, planned_in.closed)} != {stops}:
            pool_plans.stops = stops
            plan_again(pool_plans.cordoned, ctx)
        for node, plan in sorted(planned.items()):
            if plan is not None:
                self.seen.add(node)
                if plan.verdict.start is None:
                    yield NodeDecision(name, plan)
        if (pool is None or pool.acts) and name not in snapshot.unrecorded_pools:
            yield from self._admit(name, planned, snapshot, ctx)

    def _refresh_windows(self, pool: Pool, snapshot: ClusterSnapshot, now: datetime) -> PoolPlans:
        pool_plans = self._plans_of(pool.name)
        refresh_windows(pool_plans, pool, snapshot, self._timing, now)
        return pool_plans

    def _narrow_context(
        self, ctx: ReconcileContext, snapshot: ClusterSnapshot, pool: str
    ) -> ReconcileContext:
        """Return `ctx` with what holds for one pool alone: its halt, and what closes it."""
        pool_plans, found = self._plans_of(pool), self._pools.get(pool)
        if found is not None:
            self._refresh_windows(found, snapshot, ctx.now)
        acts = found is not None and found.acts and not found.deleting
        windows = pool_plans.windows
        closed = windows if windows is not None and windows.lets_go else None
        return replace(
            ctx,
            acting_since=snapshot.acting_since.get(pool),
            # A halt that ends automatically aborts nothing: else a refusal would abort itself.
            is_halted=acts and (halt := pool_plans.halt) is not None and not halt.resumes,
            closed=closed.refusal if closed is not None else None,
            closed_until=closed.until if closed is not None else None,
        )

    def _plan_and_enter(
        self, task: Task, name: str, ctx: ReconcileContext, service: Service | None = None
    ) -> NodePlan | None:
        plan = self._plan(task, self._pools.get(name), ctx)
        self._enter(name, task, plan, ctx, service)
        return plan

    # Which starts are admitted.

    def _admit(
        self,
        name: str,
        planned: _Plans,
        snapshot: ClusterSnapshot,
        ctx: ReconcileContext,
    ) -> Iterator[NodeDecision]:
        """Begin the queued nodes that may start, in their order, and show the others why not."""
        pool_plans = self.plans_by_pool[name]
        answers = self._answer(name)
        admitted = [
            (node in snapshot.refusals, node, request)
            for request, refusal in answers.items()
            if refusal is None and not request.needs_place
            for node in pool_plans.queue[request]
        ]
        # A node that the API server refuses goes last: it would take all others' turn for ever.
        for _, node, request in sorted(admitted):
            if answers[request] is None:
                yield from self._begin(name, node, planned, snapshot, ctx)
                answers = self._answer(name)
        if pool_plans.answers is None:
            pool_plans.answers = {}
        for request, refusal in answers.items():
            if refusal is not None:
                yield from self._refuse(name, request, refusal, planned)
            elif not pool_plans.is_ready(request):
                pool_plans.answers[request] = None

    def _answer(self, name: str) -> dict[StartRequest, Cause | None]:
        """Answer each request of the pool's queue."""
        pool_plans, pool = self.plans_by_pool[name], self._pools.get(name)
        gives_back, releasing = pool is None or pool.deleting, self.releases.count(name)
        progress = pool_plans.count_progress(gives_back=gives_back, releasing=releasing)
        return {
            request: request.find_refusal(pool, progress, pool_plans.windows)
            for request in pool_plans.queue
        }

    def _refuse(
        self, name: str, request: StartRequest, refusal: Cause, planned: _Plans
    ) -> Iterator[NodeDecision]:
        """Show why the nodes of a request wait: all of them where that is new."""
        pool_plans = self.plans_by_pool[name]
        assert pool_plans.answers is not None
        is_new = pool_plans.answers.get(request) != refusal
        pool_plans.answers[request] = refusal
        nodes = pool_plans.queue[request]
        for node in sorted(nodes if is_new else nodes & planned.keys()):
            self.seen.add(node)
            plan = replace(pool_plans.plan_of(node), refusal=refusal)
            pool_plans.show(plan)
            if node in planned or plan.action is not None:
                yield NodeDecision(name, plan)

    def _admit_joins(
        self, planned: Mapping[str, _Plans], snapshot: ClusterSnapshot, ctx: ReconcileContext
    ) -> Iterator[NodeDecision]:
        """Give free places to nodes that join, over all pools, and show the rest why they wait.

        Where no place is free, the cost does not depend on how many nodes wait.
        """
        # Most pools have no queue, and each event comes by here.
        every = self.plans_by_pool.items()
        waiting = {name: each for name, each in every if each.queue and each.list_ready()}
        while name := self._find_next_join(waiting):
            pool_plans = waiting[name]
            ready = (pool_plans.queue[request] for request in pool_plans.list_ready())
            # A node that the API server refuses goes last.
            node = min(chain.from_iterable(ready), key=lambda n: (n in snapshot.refusals, n))
            narrowed = self._narrow_context(ctx, snapshot, name)
            yield from self._begin(name, node, planned.get(name, {}), snapshot, narrowed)
        for name, pool_plans in waiting.items():
            refusal = refuse_join(name, self._max_joins)
            for request in pool_plans.list_ready():
                yield from self._refuse(name, request, refusal, planned.get(name, {}))

    def _find_next_join(self, waiting: Mapping[str, PoolPlans]) -> str:
        """Return which pool gives the next place to a node that joins; empty where none does."""
        joins = {name: each.sums.joins for name, each in waiting.items() if each.list_ready()}
        if not joins:
            return ""
        every = [each.sums.joins for each in self.plans_by_pool.values()]
        return find_next(joins, every, self._max_joins)

    def _begin(
        self,
        name: str,
        node: str,
        planned: _Plans,
        snapshot: ClusterSnapshot,
        ctx: ReconcileContext,
    ) -> Iterator[NodeDecision]:
        """Begin the change of a node that was admitted, unless it needs nothing more."""
        task, pool = self._find_task(snapshot, name, node), self._pools.get(name)
        plan = planned[node] if node in planned else self._plan(task, pool, ctx)
        if plan is not None and plan.verdict.start is not None:
            # What a pool holds up has no start, or is refused one.
            plan = hold(Proposal(plan.begin(), task.context, None, ctx))
        self.seen.add(node)
        self._enter(name, task, plan, ctx)
        if plan is not None:
            yield NodeDecision(name, plan)

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
        pool_plans = self._plans_of(pool)
        took = pool_plans.members.get(plan.node, UNKNOWN).took_seconds
        pool_plans.put(plan.node, Member(plan, took_seconds=took))

    def _find_task(self, snapshot: ClusterSnapshot, name: str, node: str) -> Task:
        # A node may be a member of a pool that observes, while it leaves the one that has it.
        is_member = self.plans_by_pool[name].members[node].capacity is not None
        return Task(build_node_context(snapshot, node), is_member)

    def _enter(
        self,
        name: str,
        task: Task,
        plan: NodePlan | None,
        ctx: ReconcileContext,
        service: Service | None = None,
    ) -> None:
        """Enter the plan of a node; without `service` it is in service as it was before."""
        pool_plans, pool, node = self._plans_of(name), self._pools.get(name), task.context.name
        member = pool_plans.members.get(node, UNKNOWN)
        service = service or member.service
        if plan is None:
            pool_plans.put(node, replace(member, plan=None, service=service, request=None))
            return
        plan = plan.keep()
        if plan.requeue_after is not None:
            self._requeue.set(node, ctx.now + min(plan.requeue_after, LONGEST_WAIT))
        if plan.uses_budget:
            # What has just begun, or an eviction, is on no record of the node.
            service = replace(service, is_unavailable=True, is_changing=True)
        elif plan.started is not None and plan.initializes:
            service = replace(service, joins=True)
        request = self._request(plan, task, service)
        if not task.is_member:
            # A node that is just being released is not reported; one that can't leave is.
            leaves = plan.state is NodeState.UPDATING and not (pool is not None and pool.deleting)
            shown, request = (None, None) if leaves else (plan, request)
            took, end = member.took_seconds, member.join_end
            gone = Member(shown, service, request=request, took_seconds=took, join_end=end)
            pool_plans.put(node, gone)
            return
        assert pool is not None
        applied = task.context.seen.records.applied
        labels = task.find_labels(plan)
        pool_plans.put(
            node,
            Member(
                plan,
                service,
                task.measure(plan, pool),
                combine(labels, self._published_keys) if labels is not None else None,
                request,
                observe_isolation(task.context.seen),
                applied.took_seconds if applied is not None else None,
                read_end(task.context, pool),
            ),
        )

    @staticmethod
    def _request(plan: NodePlan, task: Task, service: Service) -> StartRequest | None:
        """Return how the node waits for its start; None where its plan has none."""
        if plan.verdict.start is None:
            return None
        context = task.context
        return StartRequest(
            plan.kind,
            plan.initializes,
            is_leaving=not task.is_member,
            under_way=plan.facts.under_way,
            is_unavailable=service.is_unavailable,
            is_changing=service.is_changing,
            is_admitted=context.is_starting or context.is_join_starting,
            has_place=service.joins,
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
        self.plans_by_pool = {name: self._plans_of(name).start_over() for name in self._pools}
        self._entered.clear()
        self.releases = Releases()
        self._requeue = RequeueQueue()
        self._sizing.start_over(self._index, self.plans_by_pool)

    def _plans_of(self, pool: str) -> PoolPlans:
        if (found := self.plans_by_pool.get(pool)) is None:
            found = self.plans_by_pool[pool] = PoolPlans()
        return found

    def _is_over(self, pool: Pool, now: datetime) -> bool:
        """Return whether a pool that is being deleted has released its nodes, or has stalled."""
        if self.releases.count(pool.name) == 0:
            return True
        pool_plans = self._plans_of(pool.name)
        if pool_plans.refusal is not None:
            # What may not begin has not stalled: the status records until when that was so.
            pool_plans.is_stale = True
            return False
        return has_stalled(pool, now, self._timing.release_patience)
