"""What each pool's cards hold, and which pods wait: decided as the controller decides it."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpushare import names
from gpushare.api.k8s.node import MAX_CARDS, Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Pool
from gpushare.core.analysis.setup import Setup
from gpushare.core.capacity.cards import count_used, measure_cards
from gpushare.core.capacity.pool_capacity import Capacity
from gpushare.core.planner.planner import Planner
from gpushare.core.planner.pool_state import Book
from gpushare.core.records.node_records import NodeRecords
from gpushare.core.snapshot.actions import StepResult
from gpushare.core.snapshot.cluster import ClusterSnapshot, build_node_context
from gpushare.core.snapshot.isolation import NOTHING_SHARED, NodeIsolation
from gpushare.core.status.unschedulable_pods import PoolRoom, find_room, group_by_pool, judge_pod
from gpushare.editions.registry import find_schedule

_PENDING = "Pending"
_NOT_LOOKED_AT = "no scheduler has looked at it yet"


@dataclass(frozen=True, slots=True)
class Card:
    """One card of a node; memory in the plugin's unit."""

    index: int
    total: int
    """0 where an entry names a card that the node has not."""
    allocated: int
    held: Mapping[str, int]
    """What of it each pod holds, by namespace and name; 0 for one that has ended."""
    is_unhealthy: bool = False
    """The scheduler gives it to nobody."""

    @property
    def pods(self) -> tuple[str, ...]:
        """Namespace and name of those that hold it."""
        return tuple(self.held)

    @property
    def is_overcommitted(self) -> bool:
        """More of it is given out than it has; never of one that the node has not."""
        return 0 < self.total < self.allocated


@dataclass(frozen=True, slots=True)
class PoolNode:
    """A member, its cards, and where it is."""

    name: str
    plan: StepResult
    takes_pods: bool
    """It is Ready and not cordoned."""
    cordoned: bool
    labelled: str
    """The mode that its labels stand for."""
    records: NodeRecords
    isolation: NodeIsolation
    cards: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class PoolCards:
    """A pool's members, its sums, and how many members are ready."""

    pool: Pool
    nodes: tuple[PoolNode, ...]
    """By name."""
    ready: int
    capacity: Capacity


@dataclass(frozen=True, slots=True)
class OutsideNode:
    """A node with GPUs that no pool has, and its cards if it shares them."""

    name: str
    takes_pods: bool
    """It is Ready and not cordoned."""
    cordoned: bool
    cards: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class Why:
    """Why a pod waits: in the operator's words, else in the scheduler's."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pod that has no pool or no node, and why."""

    pod: Pod
    why: Why


@dataclass(frozen=True, slots=True)
class PoolsView:
    """All pools by name, and what waits by namespace and name."""

    pools: tuple[PoolCards, ...]
    waiting: tuple[Waiting, ...]
    unit: str
    """In which pods ask, whichever pool they select, or none: one for the cluster."""


def view_pools(
    snapshot: ClusterSnapshot,
    setup: Setup,
    unbound: Sequence[Pod],
    opted_out: Collection[str],
    now: datetime,
) -> PoolsView:
    """The pools of `snapshot`, whose controller, which is set as `setup` says, need not run.

    `unbound` are pods without a node; `opted_out` the namespaces whose pods are sent nowhere.
    """
    books = plan_snapshot(snapshot, setup, now).books
    pending = group_by_pool(unbound)
    views = tuple(
        _view_pool(pool, books[pool.name], snapshot, pending.get(pool.name, ()))
        for pool in sorted(snapshot.pools, key=lambda pool: pool.name)
    )
    waiting = find_waiting(snapshot, books, unbound, opted_out, now)
    # One that runs may have no pool, and waits for nothing.
    waiting = tuple(each for each in waiting if not each.pod.node)
    return PoolsView(views, waiting, setup.memory_unit)


def plan_snapshot(snapshot: ClusterSnapshot, setup: Setup, now: datetime) -> Planner:
    """What a controller that is set so would plan for all of `snapshot` at once."""
    planner = setup.build_planner()
    planner.update(snapshot, None, now)
    return planner


def find_waiting(
    snapshot: ClusterSnapshot,
    books: Mapping[str, Book],
    unbound: Sequence[Pod],
    opted_out: Collection[str],
    now: datetime,
) -> tuple[Waiting, ...]:
    """The pods that have no pool or no node, by namespace and name."""
    rooms: dict[str, PoolRoom | None] = {
        pool.name: find_room(books[pool.name]) for pool in snapshot.pools
    }
    rooms |= dict.fromkeys(snapshot.unreadable_pools)
    candidates = [*unbound, *(pod for pods in snapshot.pods.values() for pod in pods)]
    return tuple(_judge_all(candidates, rooms, opted_out, now))


def _judge_all(
    pods: Iterable[Pod],
    rooms: Mapping[str, PoolRoom | None],
    opted_out: Collection[str],
    now: datetime,
) -> list[Waiting]:
    # Who asks wants to know at once, and may have a clock that is behind the server's.
    at_once = timedelta.min
    waiting = []
    for pod in pods:
        opts_out = pod.namespace in opted_out
        context = judge_pod(pod, rooms, now, opted_out=opts_out, grace=at_once)
        if context is not None:
            waiting.append(Waiting(pod, Why(str(context.reason), context.message)))
        elif (why := find_schedulers_word(pod)) is not None:
            waiting.append(Waiting(pod, why))
    return sorted(waiting, key=lambda each: (each.pod.namespace, each.pod.name))


def find_schedulers_word(pod: Pod) -> Why | None:
    """What the scheduler says of a pod that asks for shared GPU and waits for a node; else None."""
    shares = pod.pools or not pod.requests.keys().isdisjoint(names.SHARED_RESOURCES)
    if not shares or pod.node or not pod.is_live or pod.deleting:
        return None
    reason, message = pod.unscheduled
    return Why(reason or _PENDING, message or _NOT_LOOKED_AT)


def _view_pool(
    pool: Pool, book: Book, snapshot: ClusterSnapshot, pending: Sequence[Pod]
) -> PoolCards:
    room = find_room(book, pending)
    return PoolCards(
        pool=pool,
        nodes=tuple(_view_node(name, pool, book, snapshot) for name in sorted(book.capacities)),
        ready=room.ready,
        capacity=room.capacity,
    )


def _view_node(name: str, pool: Pool, book: Book, snapshot: ClusterSnapshot) -> PoolNode:
    seen = build_node_context(snapshot, name).seen
    return PoolNode(
        name=name,
        plan=book.plans[name],
        takes_pods=_takes_pods(seen.node),
        cordoned=seen.node.unschedulable,
        labelled=str(find_schedule(pool.spec.edition, seen.node.labels)),
        records=seen.records,
        isolation=book.isolations.get(name, NOTHING_SHARED),
        cards=view_cards(seen.node, seen.pods, seen.unhealthy_cards),
    )


def view_outside(snapshot: ClusterSnapshot, view: PoolsView) -> tuple[OutsideNode, ...]:
    """The nodes with GPUs that are in none of the pools of `view`, by name."""
    members = {node.name for pool in view.pools for node in pool.nodes}
    others = (snapshot.nodes[name] for name in sorted(snapshot.nodes.keys() - members))
    viewed = (
        OutsideNode(
            name=node.name,
            takes_pods=_takes_pods(node),
            cordoned=node.unschedulable,
            cards=view_cards(
                node, snapshot.pods.get(node.name, ()), snapshot.unhealthy_cards.get(node.name, ())
            ),
        )
        for node in others
    )
    return tuple(each for each in viewed if each.cards or _has_gpus(snapshot.nodes[each.name]))


def _has_gpus(node: Node) -> bool:
    offered = any(node.allocatable.get(resource) for resource in names.GPU_RESOURCES)
    return offered or bool(node.gpu_count) or names.LABEL_CARDS in node.labels


def _takes_pods(node: Node) -> bool:
    return node.ready and not node.unschedulable


def view_cards(
    node: Node, pods: Sequence[Pod], unhealthy: Collection[int] = ()
) -> tuple[Card, ...]:
    """The cards of `node`, on which `pods` run, and those that only entries name."""
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
