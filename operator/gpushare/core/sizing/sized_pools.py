"""Keeps what the assignment of nodes depends on, node by node."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from gpushare.core.ownership.claims import (
    find_cardless_pools,
    find_owner,
    list_acting,
    list_claimants,
)
from gpushare.core.ownership.pool_index import PoolIndex
from gpushare.core.placement.fit import changes_by_itself
from gpushare.core.sizing.assignment import (
    ClaimedNode,
    NodeAssignment,
    SizedPool,
    assign_nodes,
)
from gpushare.core.sizing.moves import IdleNodeMove
from gpushare.core.snapshot.cluster import ClusterSnapshot, NodeContext, build_node_context


class SizedPools:
    """The nodes that pools with a size claim, and which pool has each.

    With `observing`, pools that only observe count as if they acted. `known` are nodes that were
    observed before, and `assigned` the pools that they were assigned to: since when a node is idle
    does not start anew.
    """

    def __init__(
        self,
        index: PoolIndex,
        *,
        observing: bool = False,
        known: Mapping[str, ClaimedNode] | None = None,
        assigned: Mapping[str, str] | None = None,
    ) -> None:
        self._index, self._observing = index, observing
        self._claimants = {
            pool.name: SizedPool(
                pool.name,
                pool.spec.priority,
                pool.created,
                pool.spec.nodes.size,
                is_elastic=pool.spec.demand is not None,
                acts=pool.acts or observing,
            )
            for pool in index.pools
        }
        has_sizes = any(pool.spec.nodes.size is not None for pool in index.pools)
        self.is_needed = has_sizes and (not observing or any(p.observes for p in index.pools))
        """Whether any node may be assigned."""
        self._known = dict(known or {})
        self.nodes: dict[str, ClaimedNode] = {}
        """Nodes that a pool with a size claims, by name."""
        self.assignment = NodeAssignment(pools=assigned or {})
        self._is_stale = True
        """Whether nodes must be assigned again."""
        self._is_at_rest = False
        """Whether each node is where it is assigned to, and no pool lacks one."""
        self._made: tuple[IdleNodeMove, ...] = ()

    def update(self, snapshot: ClusterSnapshot, changed: Iterable[str], now: datetime) -> None:
        """Observe the nodes `changed`."""
        for name in changed:
            old = self.nodes.pop(name, None) or self._known.pop(name, None)
            new = self._observe(snapshot, name, now)
            if new is None:
                self._is_stale |= old is not None
                continue
            if new.idle_since and old and old.idle_since and old.pool == new.pool:
                new = replace(new, idle_since=old.idle_since)
            self.nodes[name] = new
            # Where all nodes are where they are assigned to, none is chosen by its pods.
            same = old and replace(old, idle_since=new.idle_since, may_move=new.may_move)
            self._is_stale |= same != new or not self._is_at_rest

    def assign(self, moves: Iterable[IdleNodeMove] = ()) -> set[str]:
        """Assign each node; return those that are assigned to another pool than before.

        Of the `moves`, those are made that wait for nothing.
        """
        made = tuple(move for move in moves if not move.waits_for)
        if not (self._is_stale or made or self._made):
            return set()
        self._is_stale, self._made = False, made
        nodes = dict(self.nodes)
        for move in made:
            nodes[move.node] = replace(nodes[move.node], pool=move.target)
        claiming = frozenset[str]().union(*(node.claimants for node in nodes.values()))
        claimants = [self._claimants[name] for name in sorted(claiming)]
        before, self.assignment = self.assignment.pools, assign_nodes(nodes.values(), claimants)
        after = self.assignment.pools
        self._is_at_rest = not self.assignment.short and all(
            after[name] == node.pool for name, node in nodes.items()
        )
        return {name for name, _ in before.items() ^ after.items()}

    def list_assigned(self) -> list[ClaimedNode]:
        """List the nodes, each in the pool that it is assigned to; one that does not have it yet is
        coming to it."""
        pools = self.assignment.pools
        return [
            node
            if pools.get(node.name, node.pool) == node.pool
            else replace(node, pool=pools[node.name], is_coming=True, source=node.pool)
            for node in self.nodes.values()
        ]

    def _observe(self, snapshot: ClusterSnapshot, name: str, now: datetime) -> ClaimedNode | None:
        """Observe a node; None where no pool with a size claims it."""
        if name not in snapshot.nodes:
            return None
        context = build_node_context(snapshot, name)
        if context.remembered_pools & snapshot.unreadable_pools:
            return None
        seen, owner = context.seen, find_owner(context.seen.node, context.seen.records)
        candidates = self._index.find_candidates(seen.node)
        cardless: Mapping[str, str] = {}
        if not context.unreadable:
            cardless = find_cardless_pools(
                seen.node, seen.records, seen.resource_slices, candidates
            )
        if self._observing:
            candidates = [pool for pool in candidates if pool.name not in cardless]
        else:
            candidates = list_acting(candidates, cardless, owner)
        claimants = list_claimants(seen.node, candidates)
        if all(pool.spec.nodes.size is None for pool in claimants):
            return None
        change, applied, pool = seen.records.change, seen.records.applied, owner or ""
        under_way = change is not None and change.is_under_way
        has_failed = seen.records.failure is not None or bool(context.unreadable)
        is_leaving = (under_way or context.is_busy) and self.assignment.pools.get(name) == ""
        if change is not None and under_way and not is_leaving:
            pool = change.pool
        elif context.is_busy and not is_leaving:
            # The write that brings it to its pool is not observed yet.
            pool = self.assignment.pools.get(name, pool)
        is_serving = seen.node.ready and not seen.node.unschedulable
        source = applied.pool if applied is not None else ""
        return ClaimedNode(
            name,
            pool,
            frozenset(p.name for p in claimants),
            idle_since=now if _is_idle(context) and is_serving else None,
            has_failed=has_failed,
            reachable=frozenset(p.name for p in claimants if changes_by_itself(seen.node, p)),
            is_serving=is_serving,
            may_move=_may_move(context),
            is_coming=not (has_failed or is_leaving) and (under_way or pool != (owner or "")),
            source=source if source != pool else "",
            is_leaving=is_leaving,
        )


def _is_idle(context: NodeContext) -> bool:
    """Return whether no pod holds, or may hold, a GPU of the node."""
    live = (pod for pod in context.seen.pods if pod.is_live)
    return not any(
        pod.requests or pod.has_claimed_cards is not False or pod.may_hold_cards for pod in live
    )


def _may_move(context: NodeContext) -> bool:
    """Return whether the node is in service, and nobody works on it."""
    seen, node = context.seen, context.seen.node
    is_held = context.is_busy or context.refusal is not None or seen.maintenance is not None
    is_changing = seen.records.change is not None or seen.records.failure is not None
    return node.ready and not (node.unschedulable or is_held or is_changing)


_ANY_TIME = datetime.min.replace(tzinfo=UTC)


def assign(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """Return the snapshot with the pool of each node that a pool with a size claims."""
    sized = SizedPools(PoolIndex(snapshot.pools))
    if not sized.is_needed:
        return snapshot
    # It matters here whether a node is idle, not since when.
    sized.update(snapshot, snapshot.nodes, _ANY_TIME)
    sized.assign()
    return replace(snapshot, assigned=sized.assignment.pools)
