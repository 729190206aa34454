"""Assigns nodes to pools with a size, and moves idle ones to where pods wait, pass by pass."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial

from gpushare.api.pool import Pool
from gpushare.api.rollout import ApprovalPolicy
from gpushare.api.selector import PoolSize
from gpushare.core.ownership.pool_index import PoolIndex
from gpushare.core.placement.fit import FitAnswers
from gpushare.core.planner.pool_plans import PoolPlans
from gpushare.core.sizing.accepted_move import find_accepted
from gpushare.core.sizing.moves import ElasticPool, IdleNodeMove, find_moves
from gpushare.core.sizing.sized_pools import SizedPools
from gpushare.core.sizing.waiting_pods import WaitingTimes
from gpushare.core.snapshot.cluster import ClusterSnapshot

RefreshWindows = Callable[[Pool, ClusterSnapshot, datetime], PoolPlans]
"""Judges the windows of a pool again, and returns its plans."""


class Sizing:
    """Which pool each node is assigned to, since when nodes are idle, and since when pods wait.

    The times start anew with a new process: nodes then move later, never earlier.
    """

    def __init__(self, memory_unit: str) -> None:
        self._fit = FitAnswers(memory_unit)
        self._plans_by_pool: Mapping[str, PoolPlans] = {}
        self._sized = SizedPools(PoolIndex())
        self._observing = SizedPools(PoolIndex(), observing=True)
        self._waiting = WaitingTimes()
        self._is_full = False
        """Whether all nodes are planned anew in this pass."""
        self.moves_due: datetime | None = None
        """When another node may move, though nothing happens."""

    def start_over(self, index: PoolIndex, plans_by_pool: Mapping[str, PoolPlans]) -> None:
        """Assign all nodes anew, of which those are known that are idle since a while."""
        self._plans_by_pool = plans_by_pool
        known, assigned = self._sized.nodes, self._sized.assignment.pools
        self._sized = SizedPools(index, known=known, assigned=assigned)
        self._is_full = True
        self._fit.clear()
        self._observing = SizedPools(index, observing=True)

    def assign(
        self,
        snapshot: ClusterSnapshot,
        changed: Collection[str],
        refresh_windows: RefreshWindows,
        now: datetime,
    ) -> tuple[ClusterSnapshot, Collection[str]]:
        """Assign nodes to the pools with a size; return the nodes changed by that, too."""
        self.moves_due = None
        if not self._sized.is_needed:
            return snapshot, changed
        self._sized.update(snapshot, changed, now)
        moved = self._sized.assign()
        moves = self._find_moves(snapshot, refresh_windows, now)
        moved |= self._sized.assign(moves)
        if self._observing.is_needed:
            self._observing.update(snapshot, changed, now)
            moved |= self._observing.assign()
        short, by_target = self._sized.assignment.short, {move.target: move for move in moves}
        for name, pool_plans in self._plans_by_pool.items():
            pool_plans.note_size(short.get(name), by_target.get(name))
        assigned = replace(
            snapshot,
            assigned=self._sized.assignment.pools,
            assigned_observing=self._observing.assignment.pools,
        )
        return assigned, {*changed, *moved} if moved else changed

    def _find_moves(
        self, snapshot: ClusterSnapshot, refresh_windows: RefreshWindows, now: datetime
    ) -> list[IdleNodeMove]:
        """Find the idle nodes that move to where pods wait."""
        pools = {pool.name: pool for pool in snapshot.pools}
        elastic = {name: p for name, p in pools.items() if p.spec.demand and not p.deleting}
        if not elastic:
            return []
        if self._is_full:
            # Halts and windows are known once all nodes are planned.
            self._is_full, self.moves_due = False, now
            return []
        nodes = self._sized.list_assigned()
        count = Counter(node.pool for node in nodes)
        members = {name: count[name] for name in elastic}
        waiting = self._waiting.update(snapshot.waiting_pods, members, now)
        if not waiting:
            return []
        asked = [
            ElasticPool(
                name,
                pool.spec.nodes.size or PoolSize(),
                pool.spec.demand,
                waiting.get(name, ()),
                _find_refusal(pool, snapshot, refresh_windows, now),
                find_accepted(pool),
            )
            for name, pool in elastic.items()
            if pool.spec.demand is not None
        ]
        fits = partial(self._fit.would_run, snapshot, pools, self._waiting.infos)
        moves, self.moves_due = find_moves(asked, nodes, fits, now)
        return moves


def _find_refusal(
    pool: Pool, snapshot: ClusterSnapshot, refresh_windows: RefreshWindows, now: datetime
) -> str:
    """Return what must come before a node may move to or from the pool; empty where one may."""
    if snapshot.unreadable_pools:
        return f"pool {min(snapshot.unreadable_pools)} can be read"
    if not pool.acts:
        return f"spec.reconcile of pool {pool.name} is Enforce"
    if pool.spec.rollout.approval is ApprovalPolicy.MANUAL:
        return f"rollout.approval of pool {pool.name} is Automatic"
    pool_plans = refresh_windows(pool, snapshot, now)
    if pool_plans.refusal is not None:
        return f"pool {pool.name} may change: {pool_plans.refusal.message}"
    halt = pool_plans.halt
    return f"the rollout of pool {pool.name} is resumed: {halt.message}" if halt else ""
