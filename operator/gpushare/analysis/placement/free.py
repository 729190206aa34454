"""Finds which pods would have to move so that one more pod gets a card."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from operator import attrgetter, itemgetter
from typing import NamedTuple

from gpushare import names
from gpushare.analysis.placement.disruption_budget import DisruptionBudget
from gpushare.analysis.placement.place import FillingCluster, PodPlacement, QueuedPod
from gpushare.analysis.placement.what_if import Observed, queue_running
from gpushare.api.k8s.pod import Pod
from gpushare.api.k8s.pod_shape import Container, Metadata, PodShape, Resources, Spec
from gpushare.core.placement.node_info import NodeInfo, build_node_info

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


class _Candidate(NamedTuple):
    """Pods of one card whose move frees enough there; the better one sorts first."""

    units: int
    number: int
    node: str
    card: int
    pods: tuple[Pod, ...]


def find_moves(
    seen: Observed, pool: str, units: int, budgets: Collection[DisruptionBudget] = ()
) -> FreeAnswer:
    """Find the pods with the fewest units whose move gives a pod of so many `units` a card of
    `pool`, and all of which run again. No pod without a controller is moved, and none that
    `budgets` keep now."""
    cluster = seen.build_now()
    filling, wanted = FillingCluster(cluster), _build_wanted(pool, units)
    if filling.place(wanted).node:
        return FreeAnswer(fits=True)
    running = queue_running(seen, cluster)
    nodes = [
        cluster.nodes[n] for each in cluster.pools if each.view.name == pool for n in each.nodes
    ]
    for candidate in _list_candidates(nodes, units, _find_movable(seen, budgets)):
        filling.take_back()
        info, gone = cluster.nodes[candidate.node], {pod.uid for pod in candidate.pods}
        rest = [pod for pod in info.pods if pod.uid not in gone]
        filling.change(build_node_info(info.node, info.pool, rest, info.unhealthy, seen.infos))
        queue = [wanted, *(running[pod.uid] for pod in candidate.pods)]
        placed = list(takewhile(attrgetter("node"), map(filling.place, queue)))
        if len(placed) == len(queue):
            first, *moved = placed
            card = next(iter(first.cards), candidate.card)
            return FreeAnswer(False, Freed(first.node, card, candidate.units, tuple(moved)))
    return FreeAnswer(fits=False)


def _build_wanted(pool: str, units: int) -> QueuedPod:
    asked = Resources({names.RESOURCE_GPU_MEMORY: str(units)})
    spec = Spec(
        containers=(Container("main", resources=asked),), node_selector={names.LABEL_POOL: pool}
    )
    return QueuedPod("default", "wanted", PodShape(Metadata(), spec))


_Movable = Mapping[str, DisruptionBudget | None]
"""Pods that may be evicted, by UID, each with the budget that counts its eviction."""


def _find_movable(seen: Observed, budgets: Iterable[DisruptionBudget]) -> _Movable:
    by_namespace: defaultdict[str, list[DisruptionBudget]] = defaultdict(list)
    for budget in budgets:
        by_namespace[budget.namespace].append(budget)
    movable: dict[str, DisruptionBudget | None] = {}
    for pod in seen.bound:
        shape, is_kept = seen.shapes.get(pod.uid), not (pod.owner and pod.is_evictable)
        if shape is None or is_kept or not pod.is_live or pod.deleting:
            continue
        labels = (shape.metadata and shape.metadata.labels) or {}
        found = [each for each in by_namespace[pod.namespace] if each.covers(pod.namespace, labels)]
        # The API server evicts a pod that has not started all the same, and none of two budgets.
        if pod.phase == "Pending":
            found = []
        if len(found) < 2:
            movable[pod.uid] = found[0] if found else None
    return movable


def _may_be_evicted(pods: Iterable[Pod], movable: _Movable) -> bool:
    """Tell whether all of these pods may be evicted now, one after the other."""
    counted = Counter(movable[pod.uid] for pod in pods)
    return all(budget is None or n <= budget.allowed for budget, n in counted.items())


def _list_candidates(nodes: Iterable[NodeInfo], units: int, movable: _Movable) -> list[_Candidate]:
    """List the smallest sets of movable pods that free so many units of a card; those of the fewest
    units first, and no more than are tried."""
    cards = [
        (units - card.free, info.node.name, index, info)
        for info in nodes
        for index, card in enumerate(info.cards)
        if card.total >= units
    ]
    found: list[_Candidate] = []
    for need, node, index, info in sorted(cards, key=itemgetter(0, 1, 2)):
        if len(found) == _MOST_TRIED and found[-1].units <= need:
            break
        pods = [pod for pod in info.pods if tuple(pod.cards) == (index,) and pod.uid in movable]
        pods.sort(key=lambda pod: -pod.cards[index])
        found += [
            _Candidate(sum(pod.cards[index] for pod in moved), len(moved), node, index, moved)
            for moved in _list_sets(pods, index, need, _MOST_MOVED)
            if _may_be_evicted(moved, movable)
        ]
        found = sorted(found, key=itemgetter(0, 1, 2, 3))[:_MOST_TRIED]
    return found


def _list_sets(pods: Sequence[Pod], card: int, need: int, most: int) -> Iterator[tuple[Pod, ...]]:
    """List the sets of at most so many `pods`, largest first, that hold `need` units of the card,
    and without the smallest of them would not."""
    for number, pod in enumerate(pods):
        held = pod.cards[card]
        if held * most < need:
            break
        if held >= need:
            yield (pod,)
        else:
            rest = _list_sets(pods[number + 1 :], card, need - held, most - 1)
            yield from ((pod, *more) for more in rest)
