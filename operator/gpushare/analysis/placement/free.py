"""Finds which pods would have to move so that one more pod gets a card."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations

from gpushare import names
from gpushare.analysis.explain.admitted_pod import rewind
from gpushare.analysis.placement.cluster import PlacementCluster, build_cluster, find_members
from gpushare.analysis.placement.place import PodOrigin, PodPlacement, QueuedPod, place_pods
from gpushare.analysis.placement.what_if import Observed, read_hosts
from gpushare.api.k8s.pod import Pod
from gpushare.api.k8s.pod_shape import Container, Metadata, PodShape, Resources, Spec
from gpushare.core.placement.node_info import NodeInfo

_MOST_MOVED = 4
"""Pods of one card that are moved at most: more are a reason to change the pools."""
_MOST_TRIED = 200


@dataclass(frozen=True, slots=True)
class Freed:
    """Pods whose move gives one more pod a card."""

    node: str
    card: int
    units: int
    """Units that move."""
    moved: tuple[PodPlacement, ...]
    """The pods, each where it would run then."""


@dataclass(frozen=True, slots=True)
class FreeAnswer:
    """How one more pod gets a card."""

    fits: bool
    """Whether it gets one without a move."""
    freed: Freed | None = None
    """The fewest units to move; None where no move of few pods helps."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    units: int
    node: str
    card: int
    pods: tuple[Pod, ...]


def find_moves(seen: Observed, pool: str, units: int) -> FreeAnswer:
    """Find the pods with the fewest units whose move gives a pod of so many `units` a card of
    `pool`, and all of which run again. A pod without a controller is never moved."""
    wanted = _build_wanted(pool, units)
    members = find_members(seen.snapshot)
    hosts = read_hosts(seen)

    def build(gone: frozenset[str]) -> PlacementCluster:
        pods = {
            node: [pod for pod in pods if pod.uid not in gone]
            for node, pods in seen.snapshot.pods.items()
        }
        snapshot = replace(seen.snapshot, pods=pods)
        return build_cluster(snapshot, members, seen.namespaces, hosts, seen.setup, seen.now)

    now = build(frozenset())
    if place_pods(now, [wanted]).placed:
        return FreeAnswer(fits=True)
    views = [each.view for each in now.pools]
    found = (
        candidate
        for each in now.pools
        if each.view.name == pool
        for name in each.nodes
        for candidate in _list_candidates(now.nodes[name], units, seen.shapes)
    )
    ordered = sorted(found, key=lambda each: (each.units, len(each.pods), each.node, each.card))
    for candidate in ordered[:_MOST_TRIED]:
        moved = [
            QueuedPod(
                pod.namespace, pod.name, rewind(seen.shapes[pod.uid], views), PodOrigin.DISPLACED
            )
            for pod in candidate.pods
        ]
        rest = build(frozenset(pod.uid for pod in candidate.pods))
        result = place_pods(rest, [wanted, *moved])
        if result.placed == len(result.pods):
            first, *others = result.pods
            card = next(iter(first.cards), candidate.card)
            return FreeAnswer(False, Freed(first.node, card, candidate.units, tuple(others)))
    return FreeAnswer(fits=False)


def _build_wanted(pool: str, units: int) -> QueuedPod:
    asked = Resources({names.RESOURCE_GPU_MEMORY: str(units)})
    spec = Spec(
        containers=(Container("main", resources=asked),), node_selector={names.LABEL_POOL: pool}
    )
    return QueuedPod("default", "wanted", PodShape(Metadata(), spec))


def _list_candidates(
    info: NodeInfo, units: int, shapes: Mapping[str, PodShape]
) -> Iterator[_Candidate]:
    """List the smallest sets of pods of one card whose move frees so many units there."""
    for index, card in enumerate(info.cards):
        movable = [
            pod
            for pod in info.pods
            if tuple(pod.cards) == (index,) and _may_move(pod) and pod.uid in shapes
        ]
        for count in range(1, _MOST_MOVED + 1):
            for pods in combinations(movable, count):
                freed = sum(pod.cards[index] for pod in pods)
                is_small = freed - min(pod.cards[index] for pod in pods) + card.free < units
                if card.free + freed >= units and card.total >= units and is_small:
                    yield _Candidate(freed, info.node.name, index, pods)


def _may_move(pod: Pod) -> bool:
    return bool(pod.owner) and pod.is_evictable and pod.is_live and not pod.deleting
