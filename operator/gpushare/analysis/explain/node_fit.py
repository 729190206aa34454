"""Checks whether a pod fits on a node as it is now, what prevents that, and the smallest change
that would let it fit.

GPUs, labels, taints and cordons are checked; what else kube-scheduler weighs, such as CPUs, is
not.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote

from msgspec import structs

from gpushare import names
from gpushare.analysis.program_name import name_command
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.node_selection import NodeSelection
from gpushare.api.k8s.pod import Pod
from gpushare.api.k8s.pod_request import PodRequest
from gpushare.api.k8s.taint import CONDITION_PREFIX, CORDON, Taint, Tolerations, tolerates
from gpushare.core.admission.pool_view import PoolView
from gpushare.core.admission.score import ask_per_card, needs_whole_card
from gpushare.core.admission.warnings import find_card_trouble
from gpushare.core.capacity.cards import MAX_CGPU_PODS, CardMemory, measure_cards
from gpushare.core.deviceplugin.scheduler_errors import RESTART
from gpushare.core.snapshot.actions import NodePlan, NodeState
from gpushare.names import Reason

PASSES, ADAPT, _ADMINISTER, _MEND = 1, 2, 4, 8
"""Weights of rejections: they end automatically; the pod, or an administrator, changes something;
something is repaired."""


@dataclass(frozen=True, slots=True)
class Place:
    """A node that may take the pod."""

    node: Node
    pods: Sequence[Pod]
    pool: PoolView
    """Pool of the node; one with an empty name stands for no pool."""
    plan: NodePlan | None = None
    """Plan of the node."""
    unit: str = "GiB"
    unhealthy_cards: Collection[int] = ()

    @property
    def is_changing(self) -> bool:
        """Whether the node's isolation change is in progress."""
        return self.plan is not None and self.plan.facts.under_way


@dataclass(frozen=True, slots=True)
class Rejection:
    """One reason why a node cannot take a pod."""

    reason: Reason
    message: str
    remedy: str
    """What a user can do about the reason, in the imperative."""
    weight: int
    shortage: int = 0
    """Units that are missing."""


@dataclass(frozen=True, slots=True)
class NodeFit:
    """Whether a pod fits on one node, and why not."""

    node: str
    pool: str
    """Empty where it is of none."""
    rejections: tuple[Rejection, ...]
    warning: str = ""
    """A problem of the node that does not keep pods off it."""

    @property
    def fits(self) -> bool:
        return not self.rejections

    @property
    def smallest_change(self) -> str:
        """Everything that must change on the node, or with the pod, until it fits."""
        return f"On node {self.node}: {', and '.join(each.remedy for each in self.rejections)}"


def judge_place(request: PodRequest, tolerations: Tolerations, place: Place) -> NodeFit:
    """Find everything that keeps the pod, as admitted, off that node."""
    by_card = tuple(_find_memory_rejections(request, place))
    asks = dict(request.requests)
    if by_card:
        # The cards explain it already.
        del asks[names.RESOURCE_GPU_MEMORY]
    found = (
        *_find_label_rejections(request.selection, place.node),
        *_find_state_rejections(tolerations, place),
        *by_card,
        *_find_amount_rejections(asks, place),
    )
    plan = place.plan
    warning = f"{plan.reason}: {plan.message}" if plan is not None and plan.warns else ""
    return NodeFit(place.node.name, place.pool.name, found, warning)


def add_scheduler_rejection(
    fits: Sequence[NodeFit], reason: Reason, message: str
) -> tuple[NodeFit, ...]:
    """Reject nodes with room for a pod that the scheduler places nowhere, for `reason`."""
    remedy = "get the scheduler extender to answer again"
    if reason is Reason.EXTENDER_STALE:
        remedy = (
            "check the pods' annotations (docs/runbooks.md#gpushareextenderstale), then restart "
            f"the scheduler extender ({RESTART})"
        )
    elif reason is Reason.VOLUME_CONFLICT:
        remedy = "recreate the pod with the zone of its volume in its node selector"
    trouble = (Rejection(reason, message, remedy, _MEND),)
    return tuple(replace(fit, rejections=fit.rejections or trouble) for fit in fits)


def find_smallest_change(fits: Sequence[NodeFit]) -> str | None:
    """Find the smallest change that lets the pod run; None where a node fits, or there is none."""
    return None if (nearest := find_nearest(fits)) is None else nearest.smallest_change


def find_nearest(fits: Sequence[NodeFit]) -> NodeFit | None:
    """Find the node on which the smallest change lets the pod run; None where one fits, or there is
    none."""
    if not fits or any(fit.fits for fit in fits):
        return None

    def ado(fit: NodeFit) -> tuple[int, int, int, str]:
        weights = sum(rejection.weight for rejection in fit.rejections)
        shortage = sum(rejection.shortage for rejection in fit.rejections)
        return weights, len(fit.rejections), shortage, fit.node

    return min(fits, key=ado)


def _find_label_rejections(selection: NodeSelection, node: Node) -> Iterator[Rejection]:
    missing = [
        f"{key}={value}" for key, value in selection.labels.items() if node.labels.get(key) != value
    ]
    if missing:
        what = f"the node lacks {', '.join(missing)}, which the pod's node selector requires"
        remedy = f"label the node {', '.join(missing)} (labels of a pool: add it to the pool)"
    elif not selection.admits(node.name, node.labels):
        what = "the pod's required node affinity excludes the node"
        remedy = "change the pod's node affinity"
    else:
        return
    yield Rejection(Reason.NODE_NOT_SELECTED, what, remedy, _ADMINISTER)


def _find_state_rejections(tolerations: Tolerations, place: Place) -> Iterator[Rejection]:
    node, plan = place.node, place.plan
    if plan is not None and place.is_changing and plan.state is NodeState.FAILED:
        told = f"the node's isolation change failed: {plan.message}"
        command = name_command(f"explain node {node.name}")
        remedy = f"fix the failed isolation change ({command})"
        yield Rejection(plan.reason, told, remedy, _MEND)
    elif plan is not None and place.is_changing:
        told = f"the node's isolation change is in progress: {plan.message}"
        yield Rejection(plan.reason, told, "wait for the isolation change to finish", PASSES)
    elif node.unschedulable and not tolerates(tolerations, Taint(CORDON)):
        told = f"the node is cordoned by {'the operator' if node.owns_cordon else 'a user'}"
        remedy = f"run kubectl uncordon {quote(node.name)}"
        yield Rejection(Reason.NODE_CORDONED, told, remedy, _ADMINISTER)
    if not node.ready:
        told = "the node is not Ready"
        yield Rejection(Reason.NODE_NOT_READY, told, "get the node Ready again", _MEND)
    for taint in node.taints:
        if tolerates(tolerations, taint):
            continue
        told = f"the pod does not tolerate taint {taint}"
        remedy = f"tolerate {taint} (spec.workloads.tolerations of the pool adds it to all pods)"
        weight = ADAPT
        if taint.key.startswith(CONDITION_PREFIX):
            remedy = f"fix what {taint.key} says of the node; Kubernetes then removes the taint"
            weight = _MEND
        yield Rejection(Reason.TAINT_NOT_TOLERATED, told, remedy, weight)


def _find_memory_rejections(request: PodRequest, place: Place) -> Iterator[Rejection]:
    """Reject a node whose cards lack the memory, by the GPU scheduler's ledger."""
    if not request.memory or not place.node.allocatable.get(names.RESOURCE_GPU_MEMORY):
        return
    trouble = find_card_trouble(request, place.pool.edition)
    if trouble is not None and (not request.card_memory or place.node.gpu_count > 1):
        reason, message = trouble
        yield Rejection(reason, message, "let one container ask for all GPU memory", ADAPT)
    measured = measure_cards(place.node, place.pods, place.unhealthy_cards)
    asked, cards = ask_per_card(request, place.pool)
    unit, total = place.unit, measured[0].total if measured else 0
    free = sorted((card.free for card in measured), reverse=True)
    if cards > len(free):
        yield _tell_too_few(request, place, cards, len(free))
        return
    block, whole = free[cards - 1], needs_whole_card(request, place.pool)
    on = f"on each of {cards} cards" if cards > 1 else "on one card"
    if asked > total:
        fits = total if whole else block
        waits = block < (total if whole else 1)
        wait = f", and wait until pods free {total - block} {unit} more" if waits else ""
        told = f"the pod asks for {asked} {unit} {on}, but the node's cards have {total}"
        remedy = f"ask for at most {total if waits else fits} {unit} on a card{wait}"
        weight = ADAPT + (PASSES if waits else 0)
        yield Rejection(Reason.LARGER_THAN_ANY_CARD, told, remedy, weight, asked - total)
        return
    least = total if whole else asked
    if block >= least:
        return
    instead = "" if whole or not block else f", or ask for {block} {unit} {on}"
    told = f"the pod needs {least} {unit} free {on}, but the node has {_list(free)} {unit} free"
    remedy, weight = f"wait until pods free {least - block} {unit} more{instead}", PASSES
    for unused, closed in _find_closed_cards(measured, place.node.name):
        told = f"{told}. {closed.message}"
        if unused >= least:
            remedy, weight = closed.remedy, closed.weight
    yield Rejection(Reason.NO_FREE_BLOCK, told, remedy, weight, least - block)


def _find_closed_cards(cards: Sequence[CardMemory], node: str) -> Iterator[tuple[int, Rejection]]:
    """Find cards that take no pods, each with its unused memory."""
    for index, card in enumerate(cards):
        unused = card.total - card.used
        if card.is_unhealthy:
            config_map = f"ConfigMap {names.EXTENDER_NAMESPACE}/{names.UNHEALTHY_PREFIX}{node}"
            why = f"GPU {index} is unhealthy ({config_map})"
            remedy = f"repair GPU {index} and remove it from {config_map}"
            yield unused, Rejection(Reason.NO_FREE_BLOCK, why, remedy, _MEND)
        elif unused > 0 and not card.free:
            why = f"GPU {index} has {MAX_CGPU_PODS} pods, the maximum under cGPU"
            remedy = f"wait until a pod on GPU {index} ends"
            yield unused, Rejection(Reason.NO_FREE_BLOCK, why, remedy, PASSES)


def _tell_too_few(request: PodRequest, place: Place, cards: int, there: int) -> Rejection:
    """Tell that the node has too few cards; over fewer, the pod needs more of each."""
    message = f"the pod needs {cards} cards, but the node reports {there}"
    if not there:
        remedy = "get the node's device plugin to report its cards"
        return Rejection(Reason.TOO_FEW_CARDS, message, remedy, _MEND, cards)
    then = [*_find_memory_rejections(structs.replace(request, card_count=there), place)]
    remedies = [f"set the pod's label {names.LABEL_CARD_COUNT} to {there}"]
    remedies += [each.remedy for each in then]
    weight = ADAPT + sum(each.weight for each in then)
    return Rejection(Reason.TOO_FEW_CARDS, message, ", and ".join(remedies), weight, cards - there)


def _find_amount_rejections(asks: Mapping[str, int], place: Place) -> Iterator[Rejection]:
    """Reject a node that lacks an amount, as kube-scheduler counts every resource."""
    for resource, asked in sorted(asks.items()):
        offered = place.node.allocatable.get(resource, 0)
        if not offered:
            if not place.is_changing:
                yield _explain_not_offered(resource, place)
            continue
        used = sum(pod.requests.get(resource, 0) for pod in place.pods if pod.is_live)
        if asked <= offered - used:
            continue
        free = max(offered - used, 0)
        told = f"the pod asks for {asked} {resource}, but {free} of the node's {offered} are free"
        if asked <= offered:
            instead = f", or ask for {free}" if free else ""
            remedy = f"wait until pods free {asked - free} {resource} more{instead}"
        elif free:
            remedy = f"ask for at most {free} {resource}"
        else:
            remedy = f"ask for at most {offered} {resource}, and wait until pods free them"
        weight = PASSES if asked <= offered else ADAPT
        yield Rejection(Reason.NOT_ENOUGH_FREE, told, remedy, weight, asked - free)


def _explain_not_offered(resource: str, place: Place) -> Rejection:
    pool, plan = place.pool, place.plan
    # A mode may offer one of several resources: its nodes tell which.
    now = pool.offers & {each for each, amount in place.node.allocatable.items() if amount}
    offered = now if pool.mode.also_used and now else pool.offers
    if pool.name and resource not in offered:
        offers = ", ".join(sorted(offered)) or "nothing"
        told = f"the node does not offer {resource}: mode {pool.schedule} of its pool has none"
        remedy = f"ask for what mode {pool.schedule} offers ({offers})"
        return Rejection(Reason.RESOURCE_NOT_OFFERED, told, remedy, ADAPT)
    held_up = plan is not None and plan.state in (NodeState.BLOCKED, NodeState.FAILED)
    why = f" ({plan.reason}: {plan.message})" if plan is not None and held_up else ""
    told = f"the node does not offer {resource}{why}"
    command = name_command(f"explain node {place.node.name}")
    remedy = f"get its device plugin to serve {resource} ({command})"
    return Rejection(Reason.RESOURCE_NOT_OFFERED, told, remedy, _MEND)


def _list(free: Sequence[int]) -> str:
    shown = [str(units) for units in free[:8]]
    return ", ".join(shown) + (" ..." if len(free) > len(shown) else "")
