"""Shows what each pool's cards hold, and which pods wait, by the controller's own decisions."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import chain

from gpushare import names
from gpushare.analysis.observed_cluster import ObservedCluster
from gpushare.api.k8s.node import MAX_CARDS, Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.k8s.taint import Taint
from gpushare.api.pool import Pool
from gpushare.api.status import PoolCapacity
from gpushare.core.capacity.cards import count_used, measure_cards
from gpushare.core.capacity.demand import NoDemand, NodeSize, find_no_demand
from gpushare.core.capacity.pool_capacity import find_own, list_sizes
from gpushare.core.cause import Cause
from gpushare.core.decision_settings import build_planner
from gpushare.core.nodechange.blockers import find_other_stack
from gpushare.core.planner.planner import Planner
from gpushare.core.planner.pool_plans import PoolPlans
from gpushare.core.records.node_records import NodeRecords
from gpushare.core.snapshot.actions import NodePlan
from gpushare.core.snapshot.cluster import ClusterSnapshot, build_node_context
from gpushare.core.snapshot.isolation import NOTHING_SHARED, NodeIsolation
from gpushare.core.status.unschedulable_pods import (
    PoolRoom,
    UnschedulablePod,
    find_room,
    group_by_pool,
    judge_pod,
)
from gpushare.editions.registry import find_schedule
from gpushare.settings import Settings

_PENDING = "Pending"
_NOT_TRIED = "No scheduler has tried to place the pod yet"


@dataclass(frozen=True, slots=True)
class Card:
    """One card of a node; memory in the plugin's unit."""

    index: int
    total: int
    """0 where an entry names a card that the node has not."""
    allocated: int
    held: Mapping[str, int]
    """Units that each pod holds, by namespace and name; 0 for a pod that has ended."""
    is_unhealthy: bool = False
    """The scheduler assigns it to no pod."""

    @property
    def pods(self) -> tuple[str, ...]:
        """Namespace and name of those that hold it."""
        return tuple(self.held)

    @property
    def is_overcommitted(self) -> bool:
        """Whether more is allocated than the card has; never for a card that the node does not
        have."""
        return 0 < self.total < self.allocated


@dataclass(frozen=True, slots=True)
class NodeCards:
    """A node with GPUs, and its cards if it shares them."""

    node: Node
    cards: tuple[Card, ...]

    @property
    def takes_pods(self) -> bool:
        """Whether the node is Ready and not cordoned."""
        return self.node.ready and not self.node.unschedulable


@dataclass(frozen=True, slots=True)
class OutsideNode(NodeCards):
    """A node that is in no pool."""

    stacks: Cause | None
    """The other stack that gives out its cards, or those that compete; None where a pool may have
    it."""


@dataclass(frozen=True, slots=True)
class PoolNode(NodeCards):
    """A member of a pool, and its state."""

    plan: NodePlan
    labelled: str
    """The mode that its labels stand for."""
    records: NodeRecords
    isolation: NodeIsolation
    requested: Mapping[str, int] = field(default_factory=dict)
    """Amounts that the node's pods request, by resource that it offers in place of memory."""
    taints: tuple[Taint, ...] = ()
    """Taints that the pool's pods do not tolerate."""

    @property
    def takes_pods(self) -> bool:
        return super(PoolNode, self).takes_pods and not self.taints


@dataclass(frozen=True, slots=True)
class PoolCards:
    """A pool's members, its sums, and how many members are ready."""

    pool: Pool
    nodes: tuple[PoolNode, ...]
    """Nodes of the pool, sorted by name."""
    ready: int
    capacity: PoolCapacity


@dataclass(frozen=True, slots=True)
class PoolsView:
    """All pools by name, and what waits by namespace and name."""

    pools: tuple[PoolCards, ...]
    outside: tuple[OutsideNode, ...]
    """Nodes with GPUs in none of them, by name."""
    waiting: tuple[UnschedulablePod, ...]
    unit: str
    """Unit of the GPU memory that pods request; the whole cluster has one."""


def view_pools(seen: ObservedCluster, now: datetime) -> PoolsView:
    """View the pools of a cluster, whose controller need not run."""
    snapshot, setup = seen.snapshot, seen.known.setup
    plans_by_pool = plan_snapshot(snapshot, setup, now).plans_by_pool
    pending = group_by_pool(seen.unbound)
    views = tuple(
        _view_pool(pool, plans_by_pool[pool.name], snapshot, pending.get(pool.name, ()), now)
        for pool in sorted(snapshot.pools, key=lambda pool: pool.name)
    )
    waiting = find_waiting(seen, plans_by_pool, now)
    # One that runs may have no pool, and waits for nothing.
    waiting = tuple(each for each in waiting if not each.pod.node)
    return PoolsView(views, tuple(_view_outside(snapshot, views)), waiting, setup.memory_unit)


def plan_snapshot(snapshot: ClusterSnapshot, setup: Settings, now: datetime) -> Planner:
    """Plan for all of `snapshot` at once, as a controller with this setup would."""
    planner = build_planner(setup)
    planner.update(snapshot, None, now)
    return planner


def find_waiting(
    seen: ObservedCluster, plans_by_pool: Mapping[str, PoolPlans], now: datetime
) -> tuple[UnschedulablePod, ...]:
    """Find the pods that have no pool or no node, by namespace and name."""
    snapshot = seen.snapshot
    rooms: dict[str, PoolRoom | None] = {
        pool.name: find_room(plans_by_pool[pool.name], now) for pool in snapshot.pools
    }
    rooms |= dict.fromkeys(snapshot.unreadable_pools)
    sizes = {
        name: list_sizes(each.capacities.values())
        for name, each in plans_by_pool.items()
        for name, pool_plans in plans_by_pool.items()
    }
    # Who asks wants to know at once, and may have a clock that is behind the server's.
    at_once = timedelta.min
    found = []
    for pod in (*seen.unbound, *chain.from_iterable(snapshot.pods.values())):
        opts_out = pod.namespace in seen.opted_out
        judged = judge_pod(pod, rooms, now, opted_out=opts_out, grace=at_once)
        if (waits := judged or find_schedulers_word(pod)) is not None:
            found.append(replace(waits, no_demand=_find_no_demand(pod, sizes, now)))
    return tuple(sorted(found, key=lambda each: (each.pod.namespace, each.pod.name)))


def find_schedulers_word(pod: Pod) -> UnschedulablePod | None:
    """Find the scheduler's message on a pod that asks for shared GPU and waits for a node."""
    shares = pod.pools or not pod.requests.keys().isdisjoint(names.SHARED_RESOURCES)
    if not shares or pod.node or not pod.is_live or pod.deleting:
        return None
    reason, message = pod.unscheduled
    if pod.gates:
        message = "No scheduler looks at the pod before its gates are removed: "
        message += ", ".join(pod.gates)
    return UnschedulablePod(pod, reason or _PENDING, message or _NOT_TRIED)


def _find_no_demand(
    pod: Pod, sizes: Mapping[str, Collection[NodeSize]], now: datetime
) -> NoDemand | None:
    """Find why a waiting pod is no demand of any pool that it selects, if it selects one; `sizes`
    are by pool."""
    selected = [sizes[name] for name in pod.pools if name in sizes]
    if pod.node or not pod.gpu_memory or not selected:
        return None
    found = [find_no_demand(pod, each, now) for each in selected]
    return None if None in found else found[0]


def _view_pool(
    pool: Pool,
    pool_plans: PoolPlans,
    snapshot: ClusterSnapshot,
    pending: Sequence[Pod],
    now: datetime,
) -> PoolCards:
    nodes = []
    own = find_own(pool_plans.capacities.values())
    for name in sorted(pool_plans.capacities):
        seen = build_node_context(snapshot, name).seen
        nodes.append(
            PoolNode(
                node=seen.node,
                cards=view_cards(seen.node, seen.pods, seen.unhealthy_cards),
                plan=pool_plans.plans[name],
                labelled=str(find_schedule(pool.spec.edition, seen.node.labels)),
                records=seen.records,
                isolation=pool_plans.isolations.get(name, NOTHING_SHARED),
                requested={
                    resource: sum(pod.requests.get(resource, 0) for pod in seen.pods if pod.is_live)
                    for resource in pool_plans.capacities[name].gpu_resources
                },
                taints=tuple(t for t in pool_plans.capacities[name].taints if t not in own),
            )
        )
    room = find_room(pool_plans, now, pending)
    return PoolCards(pool, tuple(nodes), room.ready, room.capacity)


def _view_outside(snapshot: ClusterSnapshot, pools: Sequence[PoolCards]) -> Iterator[OutsideNode]:
    members = {each.node.name for pool in pools for each in pool.nodes}
    for name in sorted(snapshot.nodes.keys() - members):
        seen = build_node_context(snapshot, name).seen
        cards = view_cards(seen.node, seen.pods, seen.unhealthy_cards)
        stacks = find_other_stack(seen)
        if cards or stacks or _has_gpus(seen.node):
            yield OutsideNode(seen.node, cards, stacks)


def _has_gpus(node: Node) -> bool:
    offered = any(node.allocatable.get(resource) for resource in names.GPU_RESOURCES)
    return offered or bool(node.gpu_count) or names.LABEL_CARDS in node.labels


def view_cards(
    node: Node, pods: Sequence[Pod], unhealthy: Collection[int] = ()
) -> tuple[Card, ...]:
    """View the cards of `node`, on which `pods` run, and those that only entries name."""
    cards, used = measure_cards(node, pods, unhealthy), count_used(pods)
    return tuple(
        Card(
            index=index,
            total=cards[index].total if index < len(cards) else 0,
            allocated=used.get(index, 0),
            held=dict(sorted(_list_held(pods, index))),
            is_unhealthy=index in unhealthy,
        )
        for index in sorted({*range(len(cards)), *used})[:MAX_CARDS]
    )


def _list_held(pods: Sequence[Pod], card: int) -> Iterator[tuple[str, int]]:
    for pod in pods:
        if card in pod.cards:
            yield f"{pod.namespace}/{pod.name}", count_used((pod,)).get(card, 0)
