"""The figures that grow with the cluster, kept up to date node by node and pod by pod.

To add them up at each scrape takes up to a second for 5,000 nodes, in which nothing else happens.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Pool
from gpushare.core.capacity.memory_sums import MemorySums, find_usual_unit
from gpushare.core.capacity.node_capacity import MIB_PER_UNIT, NodeCapacity
from gpushare.core.planner.pool_state import PoolState
from gpushare.core.snapshot.actions import StepResult
from gpushare.core.snapshot.isolation import NOTHING_SHARED, NodeIsolation
from gpushare.observe.metrics.applications import NOWHERE, ApplicationFigures

UNIT_BYTES = {unit: mib * 2**20 for unit, mib in MIB_PER_UNIT.items()}


class Member(NamedTuple):
    """What a node contributes to the figures of its pool."""

    pool: str
    capacity: NodeCapacity
    isolation: NodeIsolation
    plan: StepResult | None


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
        """Count the containers of a node, or with -1 no more."""
        self.containers += node.containers * times
        self.isolated += node.isolated * times
        self.stale += node.stale * times
        self.opted_out += node.opted_out * times
        self.unknown += node.unknown * times


class Figures:
    """The figures of pools and applications, and what stands behind those of nodes and cards."""

    def __init__(self) -> None:
        self.pools: dict[str, PoolFigures] = {}
        """Those that have a node, or for which a pod waits."""
        self.members: dict[str, Member] = {}
        """By node."""
        self.applications = ApplicationFigures()

    def find_bytes(self, pool: str, unit: str) -> int:
        """Return a unit's bytes; an unknown one is that of most nodes of `pool`, or of all."""
        if not unit:
            pools = [self.pools[pool]] if pool in self.pools else self.pools.values()
            unit = find_usual_unit([figures.memory for figures in pools])
        return UNIT_BYTES[unit]

    def put_pod(self, key: str, old: Pod | None, new: Pod | None) -> None:
        """Take in a pod that came, changed or went; a listener of its informer."""
        for pod, times in ((old, -1), (new, 1)):
            if pod is None or not pod.gpu_memory or not pod.is_live:
                continue
            for pool in () if pod.node else pod.pools:
                self._find_or_add(pool).memory.count_waiting(pod, times)
                self._drop_if_empty(pool)
            self.applications.count(pod, times)

    def put_nodes(
        self, pools: Iterable[Pool], pool_states: Mapping[str, PoolState], nodes: Iterable[str]
    ) -> None:
        """Take in what is known of these nodes now."""
        # Of two pools that have a node, it counts in the one that acts.
        by_rank = sorted(pools, key=lambda pool: (pool.acts, pool.name), reverse=True)
        ranked = [(pool.name, pool_states[pool.name]) for pool in by_rank]
        for node in nodes:
            self._put_node(node, _find_member(ranked, node))

    def _put_node(self, node: str, new: Member | None) -> None:
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
        if isolation is not NOTHING_SHARED:
            figures.count_isolation(isolation, times)
        self._drop_if_empty(pool)

    def _find_or_add(self, pool: str) -> PoolFigures:
        figures = self.pools.get(pool)
        if figures is None:
            figures = self.pools[pool] = PoolFigures()
        return figures

    def _drop_if_empty(self, pool: str) -> None:
        # Pods may wait for any names that somebody can think of.
        if self.pools[pool].memory.is_empty:
            del self.pools[pool]


def _find_member(pool_states: Iterable[tuple[str, PoolState]], node: str) -> Member | None:
    for pool, pool_state in pool_states:
        if (capacity := pool_state.capacities.get(node)) is not None:
            isolation = pool_state.isolations.get(node, NOTHING_SHARED)
            return Member(pool, capacity, isolation, pool_state.plans.get(node))
    return None
