"""Keeps the sums for metrics up to date, node by node and pod by pod.

Adding them up at each scrape would block the event loop for up to a second with 5,000 nodes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Pool
from gpushare.core.capacity.memory_sums import MemorySums, find_usual_unit
from gpushare.core.capacity.node_capacity import UNIT_BYTES, NodeCapacity
from gpushare.core.planner.pool_plans import PoolPlans
from gpushare.core.snapshot.actions import NodePlan
from gpushare.core.snapshot.isolation import NOTHING_SHARED, NodeIsolation
from gpushare.observe.metrics.applications import NOWHERE, ApplicationFigures


class MeasuredNode(NamedTuple):
    """A node's part of the figures of its pool."""

    pool: str
    capacity: NodeCapacity
    isolation: NodeIsolation
    plan: NodePlan | None


@dataclass(slots=True)
class PoolFigures:
    """The sums of a pool."""

    memory: MemorySums = field(default_factory=MemorySums)
    containers: int = 0
    isolated: int = 0
    stale: int = 0
    opted_out: int = 0
    unknown: int = 0

    def count_isolation(self, node: NodeIsolation, times: int) -> None:
        """Add the containers of a node, or with -1 remove them."""
        self.containers += node.containers * times
        self.isolated += node.isolated * times
        self.stale += node.stale * times
        self.opted_out += node.opted_out * times
        self.unknown += node.unknown * times


class Figures:
    """The figures of pools and applications, and the members of pools."""

    def __init__(self) -> None:
        self.pools: dict[str, PoolFigures] = {}
        """Figures of pools that have a node, or for which a pod waits."""
        self.members: dict[str, MeasuredNode] = {}
        """Members by node."""
        self.applications = ApplicationFigures()

    def find_bytes(self, pool: str, unit: str) -> int:
        """Return the bytes of `unit`, or if it is empty of the unit of most nodes of `pool`, or of
        all pools."""
        if not unit:
            pools = [self.pools[pool]] if pool in self.pools else self.pools.values()
            unit = find_usual_unit([figures.memory for figures in pools])
        return UNIT_BYTES[unit]

    def put_pod(self, key: str, old: Pod | None, new: Pod | None) -> None:
        """Record a pod that was added, changed or deleted; a listener of its informer."""
        for pod, times in ((old, -1), (new, 1)):
            if pod is None or not pod.gpu_memory or not pod.is_live:
                continue
            for pool in () if pod.node else pod.pools:
                self._find_or_add(pool).memory.count_waiting(pod, times)
                self._drop_if_empty(pool)
            self.applications.count(pod, times)

    def put_nodes(
        self, pools: Iterable[Pool], plans_by_pool: Mapping[str, PoolPlans], nodes: Iterable[str]
    ) -> None:
        """Record the current state of these nodes."""
        # A node in two pools counts in the one that acts.
        by_rank = sorted(pools, key=lambda pool: (pool.acts, pool.name), reverse=True)
        ranked = [(pool.name, plans_by_pool[pool.name]) for pool in by_rank]
        for node in nodes:
            self._put_node(node, _find_member(ranked, node))

    def _put_node(self, node: str, new: MeasuredNode | None) -> None:
        old = self.members.get(node)
        if new == old:
            return
        for member, times in ((new, 1), (old, -1)):
            if member is not None:
                self._count(member.pool, member.capacity, times, member.isolation)
        if new is None:
            del self.members[node]
        else:
            self.members[node] = new
        place = (new.pool, new.capacity.unit) if new is not None else NOWHERE
        self.applications.place(node, place)

    def _count(
        self,
        pool: str,
        capacity: NodeCapacity,
        times: int,
        isolation: NodeIsolation = NOTHING_SHARED,
    ) -> None:
        figures = self._find_or_add(pool)
        figures.memory.count(capacity, times)
        if isolation != NOTHING_SHARED:
            figures.count_isolation(isolation, times)
        self._drop_if_empty(pool)

    def _find_or_add(self, pool: str) -> PoolFigures:
        figures = self.pools.get(pool)
        if figures is None:
            figures = self.pools[pool] = PoolFigures()
        return figures

    def _drop_if_empty(self, pool: str) -> None:
        # Pods may select any name.
        if self.pools[pool].memory.is_empty:
            del self.pools[pool]


def _find_member(plans_by_pool: Iterable[tuple[str, PoolPlans]], node: str) -> MeasuredNode | None:
    for pool, pool_plans in plans_by_pool:
        member = pool_plans.members.get(node)
        if member is not None and member.capacity is not None:
            return MeasuredNode(pool, member.capacity, member.isolation, member.plan)
    return None
