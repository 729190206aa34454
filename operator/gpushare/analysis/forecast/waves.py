"""Numbers the waves of a rollout, by the rules by which the planner admits starts.

A wave is as many nodes as may begin beside each other. It is taken to be over before the next one.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import reduce
from itertools import count, islice

from gpushare.api.k8s.node import Node
from gpushare.api.pool import Pool
from gpushare.api.rollout import Rollout
from gpushare.core.planner.decisions import NodeDecision
from gpushare.core.planner.joins import find_next
from gpushare.core.planner.planner import Planner
from gpushare.core.planner.pool_plans import PoolPlans, Sums, count_member
from gpushare.core.rollout.budget import RolloutProgress, count_max_unavailable, find_start_refusal
from gpushare.core.snapshot.actions import NodePlan, NodeState
from gpushare.core.snapshot.cluster import ClusterSnapshot


def find_waves(
    planner: Planner, snapshot: ClusterSnapshot, decisions: Collection[NodeDecision], max_joins: int
) -> Mapping[str, int]:
    """Find the wave in which each node's change begins; nodes of unknown waves are left out.

    `decisions` are the last ones of `planner` about each node of `snapshot`. Nodes whose change is
    under way are in wave 0, and those of the first wave begin beside them. Every change counts as
    approved, and any time as a window.
    """
    plans: defaultdict[str, list[NodePlan]] = defaultdict(list)
    for each in decisions:
        plans[each.pool].append(each.plan)
    pools = {pool.name: pool for pool in snapshot.pools}
    queues = {name: _Queue(planner, snapshot, name, pools.get(name), plans[name]) for name in plans}
    numbers: dict[str, int] = {}
    joins = _list_joins(planner, queues, max_joins)
    for waves in (joins, *(queue.list_changes() for queue in queues.values())):
        for number, nodes in enumerate(waves):
            numbers |= dict.fromkeys(nodes, number)
    # Where nothing begins beside the nodes under way, the first wave comes after them.
    first = min(numbers.values(), default=0)
    under_way = {node for queue in queues.values() for node in queue.under_way}
    return {n: number - first + 1 for n, number in numbers.items()} | dict.fromkeys(under_way, 0)


def _list_joins(planner: Planner, queues: Mapping[str, "_Queue"], most: int) -> Iterator[list[str]]:
    """List the nodes that join in each wave, over all pools."""
    every = {name: each.sums.joins for name, each in planner.plans_by_pool.items()}
    now = every | {name: each.joins_beside for name, each in queues.items()}
    then = every | {name: each.joins_after for name, each in queues.items()}
    left = {name: each.joins[::-1] for name, each in queues.items()}
    for wave in count():
        begun = []
        while name := find_next({n: now[n] for n in left if left[n]}, now.values(), most):
            now[name] = now[name]._replace(under_way=now[name].under_way + 1)
            begun.append(left[name].pop())
        if wave and not begun:
            return
        yield begun
        now = dict(then)


class _Queue:
    """The nodes of a pool whose change is under way, or due: those in the order of their turns."""

    def __init__(
        self,
        planner: Planner,
        snapshot: ClusterSnapshot,
        name: str,
        pool: Pool | None,
        plans: Collection[NodePlan],
    ) -> None:
        state, self._pool = planner.plans_by_pool[name], pool
        self._leaving = {plan.node for plan in plans if plan.node in planner.releases}
        self.under_way = {plan.node for plan in plans if _is_under_way(plan)}
        due = [plan for plan in plans if _is_due(plan) and not state.contest]
        # A node that the API server refuses goes last.
        due.sort(key=lambda plan: (plan.node in snapshot.refusals, plan.node))
        ending = self.under_way | {plan.node for plan in due if plan.facts.under_way}
        turns = [plan for plan in due if plan.node not in ending]
        others = state.members.keys() - {plan.node for plan in turns}
        beside, after = _add_up(state, others), _add_up(state, others - ending)
        progress = state.count_progress(
            gives_back=pool is None or pool.deleting, releasing=planner.releases.count(name)
        )
        # What others took out of service stays so. A pool that is deleted doesn't count it.
        nodes = {} if pool is not None and pool.deleting else snapshot.nodes
        self._down = {p.node for p in turns if p.node in nodes and _is_down(nodes[p.node])}
        self._beside, self._after = (
            replace(progress, unavailable=n.unavailable + len(self._down), changing=n.changing)
            for n in (beside, after)
        )
        self.joins_beside, self.joins_after = beside.joins, after.joins
        verified = progress.verified + _add_up(state, ending - self._leaving).changing
        self._after = replace(self._after, verified=verified)
        # What stayed cordoned when its change failed needs no further place.
        free = replace(progress, unavailable=0, changing=0, joins_halted_by="")
        self._retries = [p.node for p in due if p.facts.under_way and _admits(pool, free, p)]
        self.joins = [p.node for p in turns if p.initializes and _admits(pool, progress, p)]
        self._in_turn = {p.node: place for place, p in enumerate(turns) if not p.initializes}

    def list_changes(self) -> Iterator[list[str]]:
        """List the nodes that begin in each wave, without those of `joins`."""
        pool, left, down = self._pool, dict(self._in_turn), self._down
        rollout = pool.spec.rollout if pool is not None else Rollout()
        now, then = self._beside, self._after
        begun, ended = [*self._retries], {*self.under_way}
        for wave in count():
            # No other nodes can be admitted.
            most = count_max_unavailable(rollout, now.total) + len(down)
            for node in sorted({*islice(left, most), *down & left.keys()}, key=left.__getitem__):
                used = now.unavailable - (node in down)
                if find_start_refusal(pool, replace(now, unavailable=used), initializes=False):
                    continue
                now = replace(now, unavailable=used + 1, changing=now.changing + 1)
                del left[node]
                begun.append(node)
            if wave and not begun:
                return
            yield begun
            gone = (ended | {*begun}) & self._leaving
            is_given_back = pool is None or pool.deleting
            then = replace(
                then,
                total=then.total - (len(gone) if is_given_back else 0),
                unavailable=then.unavailable - len(gone & down),
                verified=then.verified + len({*begun} - gone - {*self._retries}),
            )
            now, begun, ended = then, [], set()


def _is_under_way(plan: NodePlan) -> bool:
    return plan.facts.under_way and plan.state is not NodeState.FAILED


def _is_due(plan: NodePlan) -> bool:
    """Tell whether the plan begins a change, now or in its turn."""
    begins = plan.started is not None and plan.action is not None
    return (begins or plan.verdict.start is not None) and not _is_under_way(plan)


def _admits(pool: Pool | None, progress: RolloutProgress, plan: NodePlan) -> bool:
    return find_start_refusal(pool, progress, initializes=plan.initializes) is None


def _is_down(node: Node) -> bool:
    return not node.ready or (node.unschedulable and not node.owns_cordon)


def _add_up(state: PoolPlans, nodes: Collection[str]) -> Sums:
    members = (count_member(n, state.members[n]) for n in nodes if n in state.members)
    return reduce(Sums.add, members, Sums())
