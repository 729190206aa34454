"""Assigns nodes to pools whose number of nodes is bounded by `spec.nodes.size`.

The rules, in their order; each pool's turn comes by its priority, then by its age:

1. **Keep.** A node stays with its pool as long as that claims it, also one that is on its way.
2. **Maximum.** Of more nodes than its maximum, a pool gives up those that `_sort_to_leave` has
   first.
3. **Minimum.** A pool below its minimum takes nodes that no pool has, then nodes of other pools
   with a size that have more than their minimum, then nodes of pools without a size that have a
   lower priority.
4. **More.** Up to its maximum, a pool takes nodes that no pool has, then those that pools of a
   lower priority have beyond their minimum. A pool with `spec.demand` takes none from others, and
   none takes one from it: there, moves decide (`moves.py`). A pool without a size has a minimum of
   0 and no maximum.

No pool takes a node from another, into whose mode the operator does not change it by itself, nor
from or to a pool that is paused.

So a pool without a size keeps a node for as long as without pools with one: only a higher priority
takes it away. What is assigned stays assigned once all nodes are where they are assigned to.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from math import inf

from gpushare.api.selector import PoolSize

_NO_SIZE = PoolSize()


@dataclass(frozen=True, slots=True)
class SizedPool:
    """A pool that claims nodes."""

    name: str
    priority: int
    created: datetime
    size: PoolSize | None
    """None: it has each node that it can get."""
    is_elastic: bool = False
    """Whether nodes move to it and from it where pods wait."""
    acts: bool = True
    """Whether it acts; one that is paused takes no node, and keeps those that it has."""

    @property
    def fewest(self) -> int:
        """The fewest nodes that it wants."""
        return (self.size or _NO_SIZE).min

    @property
    def most(self) -> float:
        """The most nodes that it wants; infinite without a limit."""
        most = (self.size or _NO_SIZE).max
        return inf if most is None else most


@dataclass(frozen=True, slots=True)
class ClaimedNode:
    """A node that a pool with a size claims."""

    name: str
    pool: str
    """The pool that has it, or for which it is being changed; empty where none is."""
    claimants: frozenset[str]
    """Pools that claim it."""
    idle_since: datetime | None = None
    """Since when it has been in its pool and in service, without a pod that holds a GPU of it; None
    where that is not so."""
    has_failed: bool = False
    """Whether a change failed on it: it stays where it is."""
    reachable: frozenset[str] | None = None
    """Pools that claim it and into whose mode the operator changes it without a user; None: all."""
    is_serving: bool = True
    """Whether it is Ready and not cordoned."""
    may_move: bool = True
    """Whether it is in service, nobody works on it, and no change failed on it."""
    is_coming: bool = False
    """Whether the change that brings it to its pool is under way."""
    source: str = ""
    """The pool that a node leaves which is coming."""
    is_leaving: bool = False
    """Whether it is being released, since its pool had too many nodes."""


@dataclass(frozen=True, slots=True)
class NodeAssignment:
    """Which pool each node is to have."""

    pools: Mapping[str, str] = field(default_factory=dict)
    """The pool of each claimed node, by node; empty for a node that no pool is to have."""
    short: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Pools with fewer nodes than their minimum, each with the pools that have the nodes which it
    claims."""


def assign_nodes(nodes: Iterable[ClaimedNode], claimants: Collection[SizedPool]) -> NodeAssignment:
    """Assign each node to one of the pools that claim it, or to none."""
    assigner = _Assigner(nodes, claimants)
    ranked = sorted(claimants, key=lambda each: (-each.priority, each.created, each.name))
    for claimant in ranked:
        assigner.give_up(claimant)
    before = None
    while before != assigner.pools:
        # What a pool took may be beyond its minimum, and then another's by its priority.
        before = dict(assigner.pools)
        for claimant in ranked:
            assigner.take(claimant, claimant.fewest, is_minimum=True)
        for claimant in ranked:
            assigner.take(claimant, claimant.most, is_minimum=False)
    return NodeAssignment(
        assigner.pools,
        {
            each.name: assigner.list_others(each)
            for each in ranked
            if assigner.count[each.name] < each.fewest
        },
    )


class _Assigner:
    """The nodes and where they are, while the rules are applied."""

    def __init__(self, nodes: Iterable[ClaimedNode], claimants: Iterable[SizedPool]) -> None:
        self._claimants = {each.name: each for each in claimants}
        self._claimed: defaultdict[str, list[ClaimedNode]] = defaultdict(list)
        self.pools: dict[str, str] = {}
        """The pool of each node; empty where none has it."""
        for node in sorted(nodes, key=lambda node: node.name):
            for name in node.claimants:
                self._claimed[name].append(node)
            self.pools[node.name] = node.pool if node.pool in node.claimants else ""
        self.count = Counter(pool for pool in self.pools.values() if pool)
        """The number of nodes of each pool."""

    def give_up(self, claimant: SizedPool) -> None:
        """Take the nodes beyond its maximum from a pool."""
        surplus = self.count[claimant.name] - claimant.most
        if surplus <= 0 or not claimant.acts:
            return
        own = [node for node in self._claimed[claimant.name] if self._has(claimant, node)]
        leaving = sorted((node for node in own if not node.has_failed), key=_sort_to_leave)
        for node in leaving[: int(surplus)]:
            self._move(node, "")

    def take(self, claimant: SizedPool, wanted: float, *, is_minimum: bool) -> None:
        """Give nodes to a pool until it has `wanted`, or can get no more."""
        if self.count[claimant.name] >= wanted or not claimant.acts:
            return
        found = [node for node in self._claimed[claimant.name] if not self._has(claimant, node)]
        for node in sorted(found, key=lambda node: self._sort_to_take(claimant, node)):
            if self.count[claimant.name] >= wanted:
                return
            if self._may_take(claimant, node, is_minimum=is_minimum):
                self._move(node, claimant.name)

    def list_others(self, claimant: SizedPool) -> tuple[str, ...]:
        """List the pools that have nodes which the pool claims."""
        pools = {self.pools[node.name] for node in self._claimed[claimant.name]}
        return tuple(sorted(pools - {"", claimant.name}))

    def _may_take(self, claimant: SizedPool, node: ClaimedNode, *, is_minimum: bool) -> bool:
        pool = self.pools[node.name]
        if not pool:
            return True
        is_stuck = node.has_failed and pool == node.pool
        if is_stuck or self.count[pool] <= self._claimants[pool].fewest:
            return False
        owner = self._claimants[pool]
        is_reachable = node.reachable is None or claimant.name in node.reachable
        if not (owner.acts and is_reachable):
            return False
        if is_minimum and owner.size is not None:
            return True
        is_left = owner.is_elastic or (claimant.is_elastic and not is_minimum)
        return owner.priority < claimant.priority and not is_left

    def _sort_to_take(self, claimant: SizedPool, node: ClaimedNode) -> tuple[object, ...]:
        pool = self.pools[node.name]
        owner = self._claimants.get(pool)
        return (
            bool(pool),
            owner is not None and owner.size is None,
            not node.is_serving,
            node.idle_since is None,
            owner.priority if owner is not None else 0,
            node.name,
        )

    def _has(self, claimant: SizedPool, node: ClaimedNode) -> bool:
        return self.pools[node.name] == claimant.name

    def _move(self, node: ClaimedNode, pool: str) -> None:
        self.count[self.pools[node.name]] -= 1
        self.count[pool] += 1
        self.pools[node.name] = pool


def _sort_to_leave(node: ClaimedNode) -> tuple[object, ...]:
    """Sort the nodes of a pool that has too many: those whose release has begun first, then those
    out of service, then those without GPU pods, of these the last by name."""
    begins = not node.is_leaving, node.is_serving, node.idle_since is None
    return *begins, *(-ord(letter) for letter in node.name)
