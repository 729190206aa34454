"""Places a queue of pods: admission chooses the pool, the schedulers a node and its cards.

What is promised is how many pods run and which stay pending, not where: of several nodes that fit,
kube-scheduler takes any of those with the best score.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from enum import StrEnum
from heapq import heapify, heappop, heappush
from operator import itemgetter
from random import Random

import msgspec

from gpushare import names
from gpushare.analysis.explain.admitted_pod import apply_decision
from gpushare.analysis.placement.cluster import LivePool, PlacementCluster
from gpushare.analysis.placement.pending import PendingCause, explain_pending
from gpushare.api.k8s.namespace import Namespace
from gpushare.api.k8s.pod import NOTHING, Pod
from gpushare.api.k8s.pod_request import PodInfo, PodRequest, read_pod_info, read_pod_request
from gpushare.api.k8s.pod_shape import Metadata, PodShape
from gpushare.api.pool import ModeName
from gpushare.api.status import PoolCapacity
from gpushare.core.admission.decide import decide
from gpushare.core.admission.decision import AdmissionDecision
from gpushare.core.admission.gangs import Gangs, read_gang
from gpushare.core.admission.pool_view import PoolView
from gpushare.core.admission.shortlist import Shortlists
from gpushare.core.placement.node_info import NodeInfo, find_cards, put_pod, score

_MOST_TIMES = 25
"""How often a queue is placed, with equal nodes in another order."""
_QUICK = 50_000
"""Nodes that are looked at in about two seconds, over all times."""
_COST_OF_POD = 6
"""What a pod costs, in nodes."""


class PodOrigin(StrEnum):
    """Why a pod is in the queue."""

    DISPLACED = "displaced"
    """It runs on a node that changes, and must go before."""
    WAITING = "waiting"
    """It waits for a node now."""
    NEW = "new"
    """It does not exist yet."""


@dataclass(frozen=True, slots=True)
class QueuedPod:
    """A pod that needs a node."""

    namespace: str
    name: str
    shape: PodShape
    origin: PodOrigin = PodOrigin.NEW
    has_controller: bool = True
    """Whether a controller creates it again where it is evicted."""


@dataclass(frozen=True, slots=True)
class PodPlacement:
    """Where a pod of the queue runs, or why it stays pending."""

    pod: QueuedPod
    pool: str
    """The pool that it was assigned to or selects; empty where that is none."""
    node: str = ""
    """Empty while it is pending."""
    cards: Mapping[int, int] = field(default_factory=lambda: NOTHING)
    """Units of GPU memory by index of the card; empty where the kubelet chooses the cards."""
    cause: PendingCause | None = None
    """Why it stays pending; None where it runs."""


@dataclass(frozen=True, slots=True)
class PoolPlacement:
    """A pool once the queue is placed."""

    name: str
    schedule: ModeName
    nodes: int
    capacity: PoolCapacity
    resources: Mapping[str, tuple[int, int]]
    """Requested and allocatable amount of each resource that it offers in place of memory."""
    placed: int = 0
    """Pods of the queue that got a node of the pool."""
    pending: int = 0
    """Pods of the queue that were assigned to the pool, and stay pending."""


@dataclass(frozen=True, slots=True)
class PlacementResult:
    """The queue with what became of each pod, and the pools after it."""

    pods: tuple[PodPlacement, ...]
    pools: tuple[PoolPlacement, ...]
    nodes: Mapping[str, NodeInfo]
    fewest: int = 0
    """Number of pods that get a node where equal nodes are taken in the worst order tried."""
    most: int = 0
    """The same in the best order tried."""

    @property
    def placed(self) -> int:
        """Number of pods that got a node."""
        return sum(bool(each.node) for each in self.pods)


@dataclass(frozen=True, slots=True, eq=False)
class _Ask:
    """What pods ask for that are alike as their owners wrote them."""

    shape: PodShape
    request: PodRequest
    _admitted: dict[tuple[object, ...], PodInfo] = field(default_factory=dict)

    def admit(self, decision: AdmissionDecision) -> PodInfo:
        """Return the pods on which admission decided so."""
        # What admission adds to a pod follows from the pool.
        key = decision.pool, decision.selector
        if (found := self._admitted.get(key)) is None:
            found = self._admitted[key] = read_pod_info(apply_decision(self.shape, decision))
        return found


class PodAsks:
    """What pods ask for, read once for those that are alike, on the same pools."""

    def __init__(self) -> None:
        self._by_text: dict[bytes, _Ask] = {}
        self._by_shape: dict[int, tuple[PodShape, _Ask]] = {}
        """By the identity of the shape: the pods of a manifest have one, of any size."""

    def read(self, pod: PodShape) -> _Ask:
        """Read what a pod asks for."""
        if (known := self._by_shape.get(id(pod))) is not None:
            return known[1]
        text = encode_pod(pod)
        if (ask := self._by_text.get(text)) is None:
            ask = self._by_text[text] = _Ask(pod, read_pod_request(pod))
        self._by_shape[id(pod)] = pod, ask
        return ask


_Scored = tuple[int, str, int, NodeInfo]
"""Negative score and name of a node, the number of changes so far, and the node as it was then."""
_Fitting = tuple[_Scored, Mapping[int, int]]
"""A node with the cards that the pod gets there."""


@dataclass(slots=True)
class _Kind:
    """Pods that are alike for the schedulers, and the nodes that may take one more."""

    info: PodInfo
    waiting: Pod
    """The first of them, while it has no node."""
    pools: tuple[str, ...]
    """Pools that they select; none where they may go anywhere."""
    candidates: Set[str]
    """Names of the nodes of these pools."""
    heap: list[_Scored]
    """Nodes that may fit, best first."""
    seen: int
    """Number of changes of nodes that the heap contains."""
    best: list[_Fitting] = field(default_factory=list)
    """Nodes that fit, by name, with a score that is equal, and was the best when it was found."""
    cause: PendingCause | None = None
    """Why no node takes another; None as long as one may."""


class FillingCluster:
    """The cluster while it fills: all that changes from one pod to the next.

    Of nodes with an equal score `choice` takes one, or without it the first by name.
    """

    def __init__(
        self,
        cluster: PlacementCluster,
        choice: Random | None = None,
        asks: PodAsks | None = None,
    ) -> None:
        self._cluster, self._choice, self._asks = cluster, choice, asks or PodAsks()
        self.nodes = dict(cluster.nodes)
        self._labelled: defaultdict[str, list[str]] = defaultdict(list)
        """Names of nodes by their pool's label."""
        for name, info in cluster.nodes.items():
            self._labelled[info.node.labels.get(names.LABEL_POOL, "")].append(name)
        self.figures = {
            pool.view.name: LivePool(pool, cluster.nodes, cluster.now) for pool in cluster.pools
        }
        self._changed: list[str] = []
        """Names of nodes in the order in which they changed."""
        self._taken_back = 0
        """Number of changes that are taken back."""
        self._waiting: list[tuple[str, Pod]] = []
        """Pods that wait for a pool, by its name."""
        self._views: tuple[PoolView, ...] | None = None
        """The pools as admission sees them; None once one of them has changed."""
        self._shortlists = Shortlists()
        self._gangs = Gangs()
        self._kinds: dict[int, _Kind] = {}
        """By the identity of their `PodInfo`."""

    def place(self, pod: QueuedPod) -> PodPlacement:
        """Place one more pod, or let it wait."""
        ask = self._asks.read(pod.shape)
        decision = self._decide(ask.request, pod)
        if decision.is_refused:
            return PodPlacement(pod, "", cause=PendingCause(decision.reason, decision.message))
        admitted = ask.admit(decision)
        if (kind := self._kinds.get(id(admitted))) is None:
            waiting = _build_pod(pod, "waiting", ask.request)
            kind = self._kinds[id(admitted)] = self._build_kind(admitted, waiting)
        if (found := self._take_best(kind)) is not None:
            info, cards = found
            uid = f"placed-{len(self._changed)}"
            bound = _build_pod(pod, uid, ask.request, info.node.name, cards)
            self.change(put_pod(info, kind.info, bound))
            return PodPlacement(pod, info.pool.name, info.node.name, cards)
        for name in self.figures.keys() & kind.pools:
            self._count_waiting(name, kind.waiting)
        if kind.cause is None:
            nodes = [self.nodes[name] for name in self._list_candidates(kind.pools)]
            kind.cause = explain_pending(kind.info, nodes, decision, self._cluster.unit)
        return PodPlacement(pod, decision.pool or " or ".join(kind.pools), cause=kind.cause)

    def change(self, info: NodeInfo) -> None:
        """Change what is on a node."""
        self.nodes[info.node.name] = info
        self._changed.append(info.node.name)
        if info.pool.name:
            self.figures[info.pool.name].update(info)
            self._views = None

    def take_back(self) -> None:
        """Take back every change: the cluster is as it was built."""
        for name in dict.fromkeys(self._changed[self._taken_back :]):
            # Another object: what was found about the node before is out of date all the same.
            self.change(replace(self._cluster.nodes[name]))
        self._taken_back = len(self._changed)
        self._gangs = Gangs()
        for name, pod in self._waiting:
            self.figures[name].count_waiting(pod, -1)
            self._views = None
        self._waiting.clear()
        for kind in self._kinds.values():
            kind.cause = None

    def _count_waiting(self, pool: str, pod: Pod) -> None:
        self.figures[pool].count_waiting(pod)
        self._waiting.append((pool, pod))
        self._views = None

    def _decide(self, request: PodRequest, pod: QueuedPod) -> AdmissionDecision:
        # The shortlists are kept for as long as this is the same object.
        if self._views is None:
            self._views = tuple([figures.view for figures in self.figures.values()])
        cluster = self._cluster
        where = cluster.namespaces.get(pod.namespace) or Namespace(pod.namespace)
        gang = self._gangs.recall(read_gang(pod.shape), where.name, 0.0)
        decision = decide(
            request,
            where,
            self._views,
            cluster.rules,
            shortlists=self._shortlists,
            gang=gang,
        )
        if gang is not None and decision.pool is not None:
            self._gangs.note(gang, where.name, decision.pool, 0.0)
        return decision

    def _build_kind(self, info: PodInfo, waiting: Pod) -> _Kind:
        pools = tuple(sorted(info.request.selection.find_values(names.LABEL_POOL)))
        candidates = {name: self.nodes[name] for name in self._list_candidates(pools)}
        now = len(self._changed)
        heap = [(-score(node, info), name, now, node) for name, node in candidates.items()]
        heapify(heap)
        return _Kind(info, waiting, pools, candidates.keys(), heap, now)

    def _list_candidates(self, pools: Sequence[str]) -> Iterable[str]:
        if not pools:
            return self.nodes
        return [name for pool in pools for name in self._labelled.get(pool, ())]

    def _take_best(self, kind: _Kind) -> tuple[NodeInfo, Mapping[int, int]] | None:
        """Find a node with the best score, and the cards that the pod gets there."""
        heap = kind.heap
        for name in dict.fromkeys(self._changed[kind.seen :]):
            if name in kind.candidates:
                node = self.nodes[name]
                heappush(heap, (-score(node, kind.info), name, len(self._changed), node))
        kind.seen = len(self._changed)
        best = [each for each in kind.best if self._is_current(each[0])]
        if best and heap and heap[0] < best[0][0]:
            for scored, _ in best:
                heappush(heap, scored)
            best = []
        while heap and (not best or (self._choice is not None and heap[0][0] == best[0][0][0])):
            scored = heappop(heap)
            # Room only falls: a node that does not fit once never does.
            if self._is_current(scored) and (cards := find_cards(scored[3], kind.info)) is not None:
                best.append((scored, cards))
        kind.best = best = sorted(best, key=itemgetter(0))
        if not best:
            return None
        (*_, info), cards = best[0] if self._choice is None else self._choice.choice(best)
        return info, cards

    def _is_current(self, scored: _Scored) -> bool:
        return scored[3] is self.nodes[scored[1]]


def _build_pod(
    pod: QueuedPod,
    uid: str,
    request: PodRequest,
    node: str = "",
    cards: Mapping[int, int] = NOTHING,
) -> Pod:
    return Pod(
        pod.namespace,
        pod.name,
        uid,
        node,
        "Running" if node else "Pending",
        requests=request.requests,
        card_memory=request.card_memory,
        card_count=request.card_count or 1,
        cards=cards,
    )


def encode_pod(pod: PodShape) -> bytes:
    """Encode everything that a decision on a pod depends on: all but its name."""
    metadata = pod.metadata or Metadata()
    texts = metadata.labels, metadata.annotations, metadata.owner_references
    return msgspec.json.encode((texts, pod.spec))


def place_likely(cluster: PlacementCluster, queue: Sequence[QueuedPod]) -> PlacementResult:
    """Place the pods of `queue` as is most likely: kube-scheduler takes any of the nodes with the
    best score, so that is tried several times, as often as is quick."""
    size = len(cluster.nodes) + _COST_OF_POD * len(queue)
    times = min(_MOST_TIMES, _QUICK // max(size, 1))
    if times < 2:
        return place_pods(cluster, queue)
    asks = PodAsks()
    results = [place_pods(cluster, queue, Random(seed), asks) for seed in range(times)]
    pending = [tuple([not each.node for each in result.pods]) for result in results]
    ((likely, _),) = Counter(pending).most_common(1)
    placed = [result.placed for result in results]
    result = results[pending.index(likely)]
    return replace(result, fewest=min(placed), most=max(placed))


def place_pods(
    cluster: PlacementCluster,
    queue: Sequence[QueuedPod],
    choice: Random | None = None,
    asks: PodAsks | None = None,
) -> PlacementResult:
    """Place the pods of `queue` one by one; one that does not fit at its turn stays pending.

    Of nodes with an equal score `choice` takes one, or without it the first by name.
    """
    filling = FillingCluster(cluster, choice, asks)
    placed = tuple(map(filling.place, queue))
    ran = Counter(each.pool for each in placed if each.node)
    stuck = Counter(each.pool for each in placed if not each.node)
    pools = tuple(
        PoolPlacement(
            name,
            pool.view.schedule,
            nodes=len(pool.nodes),
            capacity=filling.figures[name].capacity,
            resources=_sum_resources([filling.nodes[node] for node in pool.nodes]),
            placed=ran[name],
            pending=stuck[name],
        )
        for pool in cluster.pools
        for name in [pool.view.name]
    )
    count = sum(ran.values())
    return PlacementResult(placed, pools, filling.nodes, count, count)


def _sum_resources(nodes: Iterable[NodeInfo]) -> dict[str, tuple[int, int]]:
    sums: dict[str, tuple[int, int]] = {}
    for info in nodes:
        for resource in names.GPU_RESOURCES & info.node.allocatable.keys():
            used, offered = sums.get(resource, (0, 0))
            used += info.requested.get(resource, 0)
            sums[resource] = used, offered + info.node.allocatable[resource]
    return {resource: amounts for resource, amounts in sorted(sums.items()) if amounts[1]}
