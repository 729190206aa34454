"""Keeps what the assignment of nodes depends on, node by node."""

from collections.abc import Collection
from dataclasses import replace

from gpushare.core.ownership.claims import (
    find_cardless_pools,
    find_owner,
    list_acting,
    list_claimants,
)
from gpushare.core.ownership.pool_index import PoolIndex
from gpushare.core.sizing.assignment import (
    Claimant,
    ClaimedNode,
    NodeAssignment,
    assign_nodes,
)
from gpushare.core.snapshot.cluster import ClusterSnapshot, NodeContext, build_node_context


class SizedPools:
    """The nodes that pools with a size claim, and which pool has each.

    With `observing`, pools that only observe count as if they acted.
    """

    def __init__(self, index: PoolIndex, *, observing: bool = False) -> None:
        self._index, self._observing = index, observing
        self._claimants = {
            pool.name: Claimant(pool.name, pool.spec.priority, pool.created, pool.spec.nodes.size)
            for pool in index.pools
        }
        has_sizes = any(pool.spec.nodes.size is not None for pool in index.pools)
        self.is_needed = has_sizes and (not observing or any(p.observes for p in index.pools))
        """Whether any node may be assigned."""
        self._nodes: dict[str, ClaimedNode] = {}
        self.assignment = NodeAssignment()

    def update(self, snapshot: ClusterSnapshot, changed: Collection[str]) -> set[str]:
        """Observe the nodes `changed`; return those that are assigned to another pool by it."""
        if not self.is_needed:
            return set()
        is_same = True
        for name in changed:
            old, new = self._nodes.pop(name, None), self._observe(snapshot, name)
            if new is not None:
                self._nodes[name] = new
            is_same &= old == new
        if is_same:
            return set()
        before, self.assignment = self.assignment.pools, self._assign()
        after = self.assignment.pools
        return {name for name, _ in before.items() ^ after.items()}

    def _observe(self, snapshot: ClusterSnapshot, name: str) -> ClaimedNode | None:
        """Observe a node; None where no pool with a size claims it."""
        if name not in snapshot.nodes:
            return None
        context = build_node_context(snapshot, name)
        if context.unreadable or context.remembered_pools & snapshot.unreadable_pools:
            return None
        seen, owner = context.seen, find_owner(context.seen.node, context.seen.records)
        candidates = self._index.find_candidates(seen.node)
        cardless = find_cardless_pools(seen.node, seen.records, seen.resource_slices, candidates)
        if self._observing:
            candidates = [pool for pool in candidates if pool.name not in cardless]
        else:
            candidates = list_acting(candidates, cardless, owner)
        claimants = list_claimants(seen.node, candidates)
        if all(pool.spec.nodes.size is None for pool in claimants):
            return None
        change = seen.records.change
        return ClaimedNode(
            name,
            owner or "",
            frozenset(pool.name for pool in claimants),
            is_idle=is_idle(context),
            has_failed=seen.records.failure is not None,
            goes_to=change.pool if change is not None and change.is_under_way else "",
        )

    def _assign(self) -> NodeAssignment:
        claiming = frozenset[str]().union(*(node.claimants for node in self._nodes.values()))
        return assign_nodes(
            self._nodes.values(), [self._claimants[name] for name in sorted(claiming)]
        )


def is_idle(context: NodeContext) -> bool:
    """Return whether no pod holds, or may hold, a GPU of the node."""
    live = (pod for pod in context.seen.pods if pod.is_live)
    return not any(
        pod.requests or pod.has_claimed_cards is not False or pod.may_hold_cards for pod in live
    )


def assign(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """Return the snapshot with the pool of each node that a pool with a size claims."""
    sized = SizedPools(PoolIndex(snapshot.pools))
    sized.update(snapshot, snapshot.nodes)
    return replace(snapshot, assigned=sized.assignment.pools)
