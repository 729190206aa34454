"""Explains why a simulated pod stays pending, in the words of `explain pod`."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from heapq import nlargest

from gpushare import names
from gpushare.analysis.explain.node_fit import (
    ADAPT,
    PASSES,
    NodeFit,
    Place,
    Rejection,
    find_nearest,
    judge_place,
)
from gpushare.api.k8s.pod_request import PodInfo
from gpushare.core.admission.decision import AdmissionDecision
from gpushare.core.placement.node_info import (
    GIB,
    NodeInfo,
    is_unevenly_split,
    list_host_shortages,
)
from gpushare.names import Reason

_JUDGED = 16
"""Nodes with the most free memory, among which the nearest is looked for."""
_UNITS = {"cpu": (1000, "CPUs"), "memory": (GIB, "GiB of memory")}


@dataclass(frozen=True, slots=True)
class PendingCause:
    """Why a pod stays pending, and what would let it run."""

    reason: str
    message: str
    remedy: str = ""
    """The smallest change that lets it run; empty where none is known."""


def explain_pending(
    pod: PodInfo, nodes: Collection[NodeInfo], decision: AdmissionDecision, unit: str
) -> PendingCause:
    """Explain why no node takes a pod on which admission decided so; `nodes` are those of the pools
    that it selects, or all nodes where it selects none."""
    if not pod.request.selection.find_values(names.LABEL_POOL):
        asked = pod.request.requests.keys()
        nodes = [info for info in nodes if not asked.isdisjoint(info.node.allocatable)]
    judged = nlargest(_JUDGED, nodes, key=_sort_by_room)
    nearest = find_nearest([judge(pod, info, unit) for info in judged])
    if nearest is None and decision.pool is not None:
        message = f"pool {decision.pool} has no node with its labels"
        return PendingCause(Reason.POOL_HAS_NO_NODES, message, "Add nodes to the pool")
    if nearest is None:
        return PendingCause(decision.reason, decision.message)
    told = "; ".join(rejection.message for rejection in nearest.rejections)
    first = nearest.rejections[0].reason
    return PendingCause(first, f"Node {nearest.node}: {told}", nearest.smallest_change)


def judge(pod: PodInfo, info: NodeInfo, unit: str) -> NodeFit:
    """Find everything that keeps the pod off the node."""
    place = Place(info.node, info.pods, info.pool, unit=unit, unhealthy_cards=info.unhealthy)
    fit = judge_place(pod.request, pod.tolerations, place)
    return replace(fit, rejections=(*fit.rejections, *_find_more(pod, info)))


def _find_more(pod: PodInfo, info: NodeInfo) -> Iterator[Rejection]:
    if pod.request.memory and is_unevenly_split(pod.request, info.pool):
        told = f"label {names.LABEL_CARD_COUNT} does not divide the memory of each container"
        yield Rejection(Reason.UNSCHEDULABLE, told, "ask for a multiple of the cards", ADAPT)
    for resource, asked, free in list_host_shortages(pod, info):
        scale, noun = _UNITS[resource]
        told = f"the pod asks for {asked / scale:g} {noun}, but {free / scale:g} are free"
        remedy = f"wait until pods free {(asked - free) / scale:g} {noun}"
        yield Rejection(Reason.NOT_ENOUGH_FREE, told, remedy, PASSES)


def _sort_by_room(info: NodeInfo) -> tuple[bool, int, str]:
    takes_pods = info.node.ready and not info.node.unschedulable
    return takes_pods, max([card.free for card in info.cards], default=0), info.node.name
