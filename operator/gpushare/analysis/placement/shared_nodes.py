"""Finds the nodes that several pools may have, and divides them over the pools as a user says."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from gpushare import names
from gpushare.analysis.placement.search import SplitSearch
from gpushare.analysis.placement.split import plan_move
from gpushare.api.pool import Pool
from gpushare.core.ownership.claims import is_cardless, is_member
from gpushare.core.ownership.pool_index import PoolIndex
from gpushare.core.snapshot.cluster import ClusterSnapshot, build_node_context

MOST_POOLS = 8
"""Pools over which nodes are divided by hand; of more nobody keeps an overview."""

Label = tuple[str, str]
"""Key and value."""
_NO_POOL = ""


@dataclass(frozen=True, slots=True)
class SharedNodes:
    """All nodes with one label, of which each is claimed by some of two pools or more."""

    label: str
    """As `key=value`."""
    nodes: tuple[str, ...]
    sizes: Mapping[str, int]
    """Number of these nodes that each of the pools has, by pool; the others are in no pool."""


def find_shared_nodes(
    snapshot: ClusterSnapshot, members: Mapping[str, str]
) -> tuple[SharedNodes, ...]:
    """Find the labels whose nodes can be divided over the pools that claim them, those of node
    pools first. `members` has the pool of each node, by node.

    Without those of which a node shows no card, is claimed by a pool that changes no node, or has
    an owner whose spec can't be read. Of labels of the same nodes one is found.
    """
    index = PoolIndex(snapshot.pools)
    nodes: defaultdict[Label, list[str]] = defaultdict(list)
    claimants: defaultdict[Label, set[str]] = defaultdict(set)
    fixed: set[Label] = set()
    for name, node in sorted(snapshot.nodes.items()):
        pools = [p for p in index.find_candidates(node) if is_member(p.spec.nodes, node)]
        is_fixed = not _may_move(snapshot, name, members, pools)
        for label in node.labels.items():
            if label[0] in names.NODE_LABELS or label[0].startswith(f"{names.GROUP}/"):
                continue
            nodes[label].append(name)
            claimants[label].update(pool.name for pool in pools)
            if is_fixed:
                fixed.add(label)
    found: dict[tuple[str, ...], SharedNodes] = {}
    for label in sorted(nodes, key=lambda each: (each[0] != names.LABEL_NODE_POOL, each)):
        is_shared = len(nodes[label]) > 1 and 1 < len(claimants[label]) <= MOST_POOLS
        if is_shared and label not in fixed:
            counts = Counter(members.get(name) for name in nodes[label])
            sizes = {pool: counts[pool] for pool in sorted(claimants[label])}
            shared = SharedNodes("=".join(label), tuple(nodes[label]), sizes)
            found.setdefault(shared.nodes, shared)
    return tuple(found.values())


def _may_move(
    snapshot: ClusterSnapshot, name: str, members: Mapping[str, str], pools: Sequence[Pool]
) -> bool:
    if any(pool.deleting or not pool.acts for pool in pools):
        return False
    if name in members:
        return True
    context = build_node_context(snapshot, name)
    if context.remembered_pools & snapshot.unreadable_pools:
        return False
    return not is_cardless(context.seen.node, context.seen.records, context.seen.resource_slices)


def divide(
    search: SplitSearch,
    snapshot: ClusterSnapshot,
    members: Mapping[str, str],
    sizes: Mapping[str, int],
) -> dict[str, str]:
    """Divide the nodes of `search`, whose pools are those of `sizes` in this order, so that each
    pool gets its number of them; the rest is in no pool. Returns the pool of each node.

    Nodes stay in their pools as far as the numbers allow. Of those that move, first go those whose
    mode stays, then those with the fewest pods that must go before.
    """
    pools = {pool.name: pool for pool in snapshot.pools}
    left = [len(group) for group in search.groups]
    room = {**sizes, _NO_POOL: sum(left) - sum(sizes.values())}
    counts = [dict.fromkeys(room, 0) for _ in left]

    def weigh(pair: tuple[int, str]) -> tuple[bool, bool, int]:
        number, target = pair
        first = search.groups[number][0]
        pods = snapshot.pods.get(first, ())
        if members.get(first, _NO_POOL) == target:
            return False, False, -sum(pod.is_live and bool(pod.requests) for pod in pods)
        if target == _NO_POOL:
            return True, True, 0
        move = plan_move(snapshot.nodes[first], pods, pools[target])
        return True, move.changes, len(move.displaced)

    for number, target in sorted(product(range(len(left)), room), key=weigh):
        count = min(left[number], room[target])
        counts[number][target] += count
        left[number] -= count
        room[target] -= count
    return search.assign(tuple(tuple(each[pool] for pool in sizes) for each in counts))
