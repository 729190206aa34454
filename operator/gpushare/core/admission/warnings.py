"""Finds what is doubtful in a pod, in sentences for the user who creates it."""

from collections.abc import Collection, Iterator, Sequence

from gpushare import names
from gpushare.api.k8s.namespace import Namespace
from gpushare.api.k8s.pod_request import PodRequest
from gpushare.api.k8s.resources.quantity import MAX_QUANTITY
from gpushare.api.pool import Edition, Schedule
from gpushare.core.admission.pool_view import PoolView
from gpushare.core.admission.score import Fit, ask_per_card, needs_whole_card
from gpushare.core.capacity.node_capacity import MIB_PER_GIB, MIB_PER_UNIT
from gpushare.editions.registry import EDITIONS
from gpushare.names import Reason

LEAST_ABSURD = 1000
"""GiB that no card has."""
CORE_STEP = 5
"""Step of values of `aliyun.com/gpu-core.percentage` (vendor's page on allocating computing power).
"""
_ISOLATIONS = (names.ISOLATION_REQUIRED, names.ISOLATION_NONE)
_INJECT = (names.INJECT_DISABLED, names.INJECT_ENABLED)
_NAMESPACE_LABELS = {
    names.LABEL_INJECT: _INJECT,
    names.LABEL_ON_NO_POOL: (names.ON_NO_POOL_ALLOW, names.ON_NO_POOL_DENY),
    names.LABEL_FAILURE_POLICY: (names.FAILURE_POLICY_IGNORE, names.FAILURE_POLICY_FAIL),
}
"""Labels of namespaces, with their valid values."""


def find_ignored_words(pod: PodRequest, namespace: Namespace) -> Iterator[str]:
    """Find annotations and labels that mean nothing as written: `Required`, an annotation of ours
    as a label."""
    if pod.isolation and pod.isolation not in _ISOLATIONS:
        yield _explain_ignored(f"Annotation {names.ANNOTATION_ISOLATION}", _ISOLATIONS)
    if pod.inject and pod.inject not in _INJECT:
        yield _explain_ignored(f"Annotation {names.ANNOTATION_INJECT}", _INJECT)
    for key, value in (
        (names.ANNOTATION_POOL, pod.pool),
        (names.ANNOTATION_ISOLATION, pod.isolation),
        (names.ANNOTATION_INJECT, pod.inject),
    ):
        if key in pod.labels and not value:
            yield f"Label {key} of the pod is ignored. Write it as an annotation"
    if _NAMESPACE_LABELS.keys().isdisjoint(namespace.labels):
        return
    for label, known in _NAMESPACE_LABELS.items():
        if namespace.labels.get(label, known[0]) not in known:
            yield _explain_ignored(f"Label {label} of namespace {namespace.name}", known)


def _explain_ignored(where: str, known: Sequence[str]) -> str:
    return f"{where} is ignored: its value must be {' or '.join(known)}, in lower case"


def find_unit_warning(pod: PodRequest, pools: Collection[PoolView]) -> str | None:
    """Find an amount that no card has, of a user who did not know the unit: `10G`, or `5k`."""
    units = max(pod.shares, default=0)
    if units < LEAST_ABSURD:
        return None
    rooms = [pool.room for pool in pools if pool.room is not None and pool.room.total]
    told = sorted({room.unit for room in rooms})
    if not told or units * MIB_PER_UNIT[told[-1]] < LEAST_ABSURD * MIB_PER_GIB:
        return None
    unit, amount = " or ".join(told), f"{units}{' or more' if units == MAX_QUANTITY else ''}"
    largest = max(room.largest_card for room in rooms)
    than = f", but the largest card has {largest} {unit}" if largest and len(told) == 1 else ""
    return (
        f"{names.RESOURCE_GPU_MEMORY} is {amount} {unit}{than}. The unit is {unit}, and a suffix "
        "multiplies it"
    )


def find_warnings(pod: PodRequest) -> Iterator[str]:
    """Find what is doubtful in every pool."""
    if names.RESOURCE_GPU_CORE in pod.requests and not pod.memory:
        yield (
            f"{names.RESOURCE_GPU_CORE} needs {names.RESOURCE_GPU_MEMORY}: the scheduler "
            "allocates a card only to pods that request both"
        )
    if any(percent % CORE_STEP for percent in pod.cores):
        yield (
            f"{names.RESOURCE_GPU_CORE} must be a multiple of {CORE_STEP} in each container. "
            "Otherwise the pod does not start"
        )
    if pod.asks_for_card_count:
        yield (
            f"{names.RESOURCE_GPU_COUNT} allocates no card, and limits a node to one such pod per "
            "card. Remove it from the limits"
        )
    if pod.names_cards:
        yield (
            f"A container sets {names.ENV_VISIBLE_DEVICES} itself, so it may see cards that are "
            "not allocated to the pod. Remove the variable"
        )


def find_warnings_in(pod: PodRequest, pool: PoolView, fit: Fit) -> Iterator[str]:
    """Find what is doubtful in `pool`, to which the pod is assigned."""
    if not pod.asks_for_share:
        return
    if names.LABEL_CARD_COUNT in pod.labels:
        yield from _find_card_count_warnings(pod, pool)
    if pool.schedule is Schedule.MPS and not pod.host_ipc:
        yield (
            f"Pool {pool.name} has mode mps: the pod must set hostIPC: true to reach the MPS daemon"
        )
    if (trouble := find_card_trouble(pod, pool.edition)) is not None:
        yield trouble[1]
    if fit > Fit.CARD and find_unit_warning(pod, (pool,)) is None:
        yield f"The pod may stay pending in pool {pool.name}: {_explain_wait(pod, pool, fit)}"


def find_card_trouble(pod: PodRequest, edition: Edition) -> tuple[Reason, str] | None:
    """Find why `pod` gets no card in that edition, however much is free."""
    if not (pod.memory and EDITIONS[edition].has_scheduler_extender):
        return None
    if not pod.card_memory:
        return Reason.NO_CONTAINER_ASKS, (
            f"Only init containers request {names.RESOURCE_GPU_MEMORY}: the {edition} edition "
            "never binds such a pod to a node. Request it in a container"
        )
    if len(pod.shares) > 1:
        return Reason.SEVERAL_CONTAINERS_ASK, (
            f"{len(pod.shares)} containers request {names.RESOURCE_GPU_MEMORY}: the {edition} "
            "edition finds no card for such a pod on a node with several cards. Request it in one "
            "container"
        )
    return None


def _find_card_count_warnings(pod: PodRequest, pool: PoolView) -> Iterator[str]:
    if EDITIONS[pool.edition].has_scheduler_extender:
        yield (
            f"Label {names.LABEL_CARD_COUNT} has no effect in pool {pool.name}: the "
            f"{pool.edition} edition does not spread a pod over cards"
        )
    elif (cards := pod.card_count) is None:
        yield f"Label {names.LABEL_CARD_COUNT} must be a whole number above 0"
    elif any(share % cards for share in pod.shares):
        yield (
            f"{names.RESOURCE_GPU_MEMORY} of each container must be divisible by the label "
            f"{names.LABEL_CARD_COUNT} ({cards}). Otherwise no node accepts the pod"
        )


def _explain_wait(pod: PodRequest, pool: PoolView, fit: Fit) -> str:
    if pool.nodes == 0:
        return "it has no node with usable cards yet"
    if pool.room is None or fit is Fit.UNKNOWN:
        return "its free memory is not known yet"
    units, cards = ask_per_card(pod, pool)
    asked = f"{units} {pool.room.unit}"
    if fit is Fit.TOO_LARGE:
        return (
            f"the pod requests {asked} on one card, and the largest card has "
            f"{pool.room.largest_card}. Request less"
        )
    if needs_whole_card(pod, pool):
        return "no card is entirely free now" if cards == 1 else f"no {cards} cards are free now"
    return f"no {'card has' if cards == 1 else f'{cards} cards have'} {asked} free now"
