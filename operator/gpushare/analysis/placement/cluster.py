"""A cluster on which pods are placed: its nodes, which pool has each, and the pools' figures."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from gpushare.api.k8s.namespace import Namespace
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.k8s.pod_request import PodInfo
from gpushare.api.k8s.taint import Taint, Tolerations
from gpushare.api.pool import DEFAULT_EDITION, Pool, Schedule
from gpushare.api.status import NodeLabels, PoolCapacity
from gpushare.core.admission.pool_view import PoolView, build_view
from gpushare.core.admission.request import Rules, build_rules
from gpushare.core.capacity.node_capacity import (
    NodeCapacity,
    observe_node_capacity,
    sum_node_capacity,
)
from gpushare.core.capacity.node_labels import combine, list_combinations
from gpushare.core.capacity.pool_capacity import CapacitySums, find_own
from gpushare.core.capacity.taints import read_tolerations
from gpushare.core.decision_settings import list_published_keys
from gpushare.core.ownership.claims import (
    decide_claim,
    find_cardless_pools,
    find_owner,
    list_acting,
)
from gpushare.core.ownership.pool_index import PoolIndex
from gpushare.core.placement.node_info import NodeInfo, build_node_info
from gpushare.core.sizing.sized_pools import assign
from gpushare.core.snapshot.cluster import ClusterSnapshot, NodeContext, build_node_context
from gpushare.editions.registry import find_edition
from gpushare.settings import Settings

_NO_LABELS = NodeLabels()


@dataclass(frozen=True, slots=True)
class PlacementPool:
    """A pool with the nodes that it has."""

    pool: Pool
    view: PoolView
    """The pool as admission sees it."""
    nodes: tuple[str, ...]
    tolerations: Tolerations
    own_taints: frozenset[Taint]
    """Taints of all its nodes, which its pods tolerate."""

    def measure(self, info: NodeInfo) -> NodeCapacity:
        """Measure the capacity of one of the nodes, as the pool's status counts it."""
        added = self.tolerations if info.node.taints else ()
        capacity = sum_node_capacity(info.node, info.pods, info.cards, added)
        if self.own_taints.issuperset(capacity.taints):
            return capacity
        return replace(capacity, free_blocks=(), free_pods=None)


@dataclass(frozen=True, slots=True)
class PlacementCluster:
    """Everything that the placement of pods depends on."""

    pools: tuple[PlacementPool, ...]
    nodes: Mapping[str, NodeInfo]
    namespaces: Mapping[str, Namespace]
    rules: Rules
    unit: str
    now: datetime


class LivePool:
    """The capacity of a pool, and its view, which follow each pod that is placed or waits."""

    def __init__(self, pool: PlacementPool, infos: Mapping[str, NodeInfo], now: datetime) -> None:
        self._pool, self._now = pool, now
        self._nodes = {name: pool.measure(infos[name]) for name in pool.nodes}
        self._sums = CapacitySums()
        for capacity in self._nodes.values():
            self._sums.count(capacity)
        self._view: PoolView | None = None

    def update(self, info: NodeInfo) -> None:
        """Count one of the nodes anew."""
        old = self._nodes[info.node.name]
        new = self._nodes[info.node.name] = self._pool.measure(info)
        self._sums.count(old, -1)
        self._sums.count(new)
        self._view = None

    def count_waiting(self, pod: Pod, times: int = 1) -> None:
        """Count a pod that selects the pool and stays pending; with `times` -1 no longer."""
        self._sums.count_waiting(pod, times)
        self._view = None

    @property
    def capacity(self) -> PoolCapacity:
        """The capacity as of now."""
        return self._sums.sum_up(self._now)

    @property
    def view(self) -> PoolView:
        """The pool as admission sees it now; the same object while nothing changes."""
        if self._view is None:
            self._view = self._pool.view.with_room(self._sums.measure_room(self._now))
        return self._view


def find_members(snapshot: ClusterSnapshot) -> dict[str, str]:
    """Find the pool that gets each node, by node, as the controller decides it."""
    index, members = PoolIndex(snapshot.pools), {}
    snapshot = assign(snapshot)
    for name, node in snapshot.nodes.items():
        context = build_node_context(snapshot, name)
        if context.remembered_pools & snapshot.unreadable_pools:
            continue
        owner = find_owner(node, context.seen.records)
        acting = _list_acting(context, owner, index)
        claim = decide_claim(node, owner, acting, context.assigned)
        if claim is not None:
            members[name] = claim.winner.name
    return members


def _list_acting(context: NodeContext, owner: str | None, index: PoolIndex) -> Sequence[Pool]:
    """List the pools that may take the node."""
    seen = context.seen
    candidates = index.find_candidates(seen.node)
    cardless = find_cardless_pools(seen.node, seen.records, seen.resource_slices, candidates)
    return list_acting(candidates, cardless, owner)


def build_cluster(
    snapshot: ClusterSnapshot,
    members: Mapping[str, str],
    namespaces: Collection[Namespace],
    hosts: Mapping[str, PodInfo],
    setup: Settings,
    now: datetime,
) -> PlacementCluster:
    """Build the cluster in which pools have the nodes that `members` says, by node. `hosts` are the
    infos of bound pods, by UID."""
    by_pool: dict[str, list[Node]] = {pool.name: [] for pool in snapshot.pools}
    for name, pool in members.items():
        by_pool[pool].append(snapshot.nodes[name])
    keys = tuple(sorted(list_published_keys(setup)))
    pools = {
        pool.name: _build_pool(pool, by_pool[pool.name], snapshot, keys) for pool in snapshot.pools
    }
    nodes = {}
    for name, node in sorted(snapshot.nodes.items()):
        if name in members:
            view = pools[members[name]].view
        else:
            edition = find_edition(node.labels) or DEFAULT_EDITION
            view = PoolView("", Schedule.SHARE, edition=edition)
        pods, unhealthy = snapshot.pods.get(name, ()), snapshot.unhealthy_cards.get(name, ())
        nodes[name] = build_node_info(node, view, pods, unhealthy, hosts)
    known = {each.name: each for each in namespaces}
    ordered = tuple(pools[name] for name in sorted(pools))
    return PlacementCluster(ordered, nodes, known, build_rules(setup), setup.memory_unit, now)


def _build_pool(
    pool: Pool, nodes: Sequence[Node], snapshot: ClusterSnapshot, keys: tuple[str, ...]
) -> PlacementPool:
    tolerations = read_tolerations(pool)
    tainted = [node for node in nodes if node.taints]
    # Without a taint on each node none is the pool's own.
    own = frozenset[Taint]()
    if tainted and len(tainted) == len(nodes):
        own = find_own(
            observe_node_capacity(node, (), (), tolerations) for node in nodes if node.taints
        )
    labels = list_combinations(Counter(combine(node.labels, keys) for node in nodes))
    view = build_view(
        pool.name,
        pool.spec,
        None,
        labels or _NO_LABELS,
        nodes=len(nodes),
        is_deleting=pool.deleting,
    )
    names = tuple(sorted(node.name for node in nodes))
    return PlacementPool(pool, view, names, tolerations, own)
