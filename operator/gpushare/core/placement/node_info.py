"""A node with its pods, as the schedulers count it that place the next one.

kube-scheduler filters nodes by labels, taints, readiness and the sum of requests; the GPU scheduler
chooses the cards, by the rule of its edition. Both ledgers are those of `core/capacity`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import inf

from gpushare import names
from gpushare.api.k8s.gpu_request import NO_AMOUNTS, Amounts
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.k8s.pod_request import UNSET, PodInfo, PodRequest
from gpushare.api.k8s.taint import CORDON, Taint, tolerates
from gpushare.core.admission.pool_view import PoolView
from gpushare.core.admission.score import ask_per_card, needs_whole_card
from gpushare.core.admission.warnings import find_card_trouble
from gpushare.core.capacity.cards import CardMemory, measure_cards
from gpushare.editions.registry import EDITIONS

_MOST_SCORE = 100
GIB = 2**30


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """A node, its pods, and what those leave of it."""

    node: Node
    pool: PoolView
    """Pool of the node; one with an empty name stands for no pool."""
    pods: tuple[Pod, ...] = ()
    unhealthy: Collection[int] = ()
    cards: tuple[CardMemory, ...] = ()
    offers: Mapping[str, float] = field(default_factory=dict)
    """Amounts of `cpu` and `memory` for pods."""
    requested: Mapping[str, int] = field(default_factory=dict)
    """Requested amounts of all live pods, by GPU resource, `cpu` and `memory`."""
    scored: Mapping[str, int] = field(default_factory=dict)
    """Amounts of CPU and memory by which the node is scored."""


def build_node_info(
    node: Node,
    pool: PoolView,
    pods: Collection[Pod],
    unhealthy: Collection[int],
    hosts: Mapping[str, PodInfo],
) -> NodeInfo:
    """Build the info of a node on which `pods` run; `hosts` are those of them that are known, by
    UID."""
    requested: dict[str, int] = {}
    scored: dict[str, int] = {}
    for pod in pods:
        if pod.is_live:
            known = hosts.get(pod.uid)
            _add(requested, pod.requests)
            _add(requested, known.host if known else NO_AMOUNTS)
            _add(scored, known.scored if known else UNSET)
    return NodeInfo(
        node,
        pool,
        tuple(pods),
        unhealthy,
        measure_cards(node, pods, unhealthy),
        {"cpu": node.host.cpu_millis, "memory": node.host.memory_gib * GIB},
        requested,
        scored,
    )


def find_cards(info: NodeInfo, pod: PodInfo) -> Mapping[int, int] | None:
    """Find the cards that `pod` gets on the node, with the units of each; None where it does not
    fit. Empty for a pod whose cards the kubelet chooses."""
    return _choose_cards(info, pod.request) if _passes_filters(info, pod) else None


def score(info: NodeInfo, pod: PodInfo) -> int:
    """Score a node for `pod`, as kube-scheduler does: the CPU and memory that are left
    (NodeResourcesFit, LeastAllocated), and for a pod that requests some whether their balance
    improves (NodeResourcesBalancedAllocation). Other scores are not modelled.
    """
    left = 0.0
    known = [each for each in info.offers.items() if 0 < each[1] < inf]
    for resource, offered in known:
        free = offered - info.scored.get(resource, 0) - pod.scored.get(resource, 0)
        if free > 0:
            left += free * _MOST_SCORE // offered
    found = int(left) // 2
    if pod.host and len(known) == 2:
        improved = _balance(info, pod.host) - _balance(info, NO_AMOUNTS)
        found += _MOST_SCORE // 2 + (_MOST_SCORE // 2 + improved) // 2
    return found


def _balance(info: NodeInfo, more: Amounts) -> int:
    """Score how equal the requested parts of CPU and of memory are, with `more` requested."""
    cpu, memory = [
        min((info.requested.get(resource, 0) + more.get(resource, 0)) / offered, 1)
        for resource, offered in info.offers.items()
    ]
    return int((1 - abs(cpu - memory) / 2) * _MOST_SCORE)


def put_pod(info: NodeInfo, pod: PodInfo, placed: Pod) -> NodeInfo:
    """Return the node with one more pod, which is `placed` with its cards."""
    requested, scored = dict(info.requested), dict(info.scored)
    _add(requested, placed.requests)
    _add(requested, pod.host)
    _add(scored, pod.scored)
    held = placed.cards
    cards = tuple(
        [card.hold(held[index]) if index in held else card for index, card in enumerate(info.cards)]
    )
    return NodeInfo(
        *(info.node, info.pool, (*info.pods, placed), info.unhealthy),
        *(cards, info.offers, requested, scored),
    )


def list_host_shortages(pod: PodInfo, info: NodeInfo) -> list[tuple[str, float, float]]:
    """List the CPU and memory that the node lacks for `pod`: resource, requested, and free."""
    found: list[tuple[str, float, float]] = []
    for resource, asked in pod.host.items():
        free = info.offers[resource] - info.requested.get(resource, 0)
        if asked > free:
            found.append((resource, asked, free))
    return found


def is_unevenly_split(request: PodRequest, pool: PoolView) -> bool:
    """Tell whether the card count of the pod does not divide the memory of each container, so that
    no node of the Professional edition accepts it."""
    cards = ask_per_card(request, pool)[1]
    return cards > 1 and any(share % cards for share in request.shares)


def _passes_filters(info: NodeInfo, pod: PodInfo) -> bool:
    node, request = info.node, pod.request
    for resource, asked in request.requests.items():
        if asked > node.allocatable.get(resource, 0) - info.requested.get(resource, 0):
            return False
    selection = request.selection
    if any(node.labels.get(key) != value for key, value in selection.labels.items()):
        return False
    if not node.ready or (
        selection.terms is not None and not selection.admits(node.name, node.labels)
    ):
        return False
    if node.unschedulable and not tolerates(pod.tolerations, Taint(CORDON)):
        return False
    if not all(tolerates(pod.tolerations, taint) for taint in node.taints):
        return False
    return not list_host_shortages(pod, info)


def _choose_cards(info: NodeInfo, request: PodRequest) -> Mapping[int, int] | None:
    """Choose cards by the edition's rule: the least sufficient free memory, or with the label of
    spread the most; ties go to the lowest index."""
    if not request.memory:
        return {}
    edition, cards = EDITIONS[info.pool.edition], info.cards
    units, count = ask_per_card(request, info.pool)
    least = max(units, cards[0].total if cards and needs_whole_card(request, info.pool) else 0)
    fitting = [(free, index) for index, card in enumerate(cards) if (free := card.free) >= least]
    if len(fitting) < count or (count > 1 and is_unevenly_split(request, info.pool)):
        return None
    trouble = find_card_trouble(request, edition.edition)
    if trouble is not None and (not request.card_memory or len(cards) > 1):
        return None
    spreads = edition.has_placement and info.node.labels.get(names.LABEL_PLACEMENT) == "spread"
    fitting.sort(key=lambda card: (-card[0] if spreads else card[0], card[1]))
    return {index: units for _, index in sorted(fitting[:count], key=lambda card: card[1])}


def _add(sums: dict[str, int], amounts: Amounts) -> None:
    for key, amount in amounts.items():
        sums[key] = sums.get(key, 0) + amount
