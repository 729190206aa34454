"""Explains one pod: its pool, why the other pools do not get it, and on which nodes it fits."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from gpushare import names
from gpushare.analysis.explain.admitted_pod import apply_decision, rewind
from gpushare.analysis.explain.node_fit import (
    NodeFit,
    Place,
    add_scheduler_rejection,
    find_smallest_change,
    judge_place,
)
from gpushare.analysis.explain.verdicts import PoolVerdict, list_verdicts
from gpushare.api.decision_annotation import PastDecision, parse_past_decision
from gpushare.api.k8s.namespace import Namespace
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.k8s.pod_request import PodRequest, read_pod_request
from gpushare.api.k8s.pod_shape import PodShape, Spec
from gpushare.api.k8s.taint import parse_tolerations
from gpushare.api.pool import DEFAULT_EDITION, Edition, Schedule
from gpushare.core.admission.decide import decide
from gpushare.core.admission.decision import AdmissionDecision
from gpushare.core.admission.gangs import read_gang
from gpushare.core.admission.pool_view import PoolView
from gpushare.core.admission.request import NO_RESERVATIONS, AdmissionRequest, build_rules
from gpushare.core.admission.score import Fit
from gpushare.core.admission.warnings import find_card_trouble
from gpushare.core.capacity.demand import find_no_demand
from gpushare.core.capacity.pool_capacity import list_sizes
from gpushare.core.planner.pool_plans import PoolPlans
from gpushare.core.snapshot.actions import NodePlan
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.core.status.unschedulable_pods import UnschedulablePod, tell_to_recreate
from gpushare.editions.registry import find_edition
from gpushare.names import NOT_TAKEN, Reason
from gpushare.settings import Settings

_SCHEDULER = (Reason.SCHEDULER_UNAVAILABLE, Reason.EXTENDER_STALE, Reason.VOLUME_CONFLICT)
"""Reasons why a pod gets no node, whatever room there is."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Everything that the decision on a pod and its nodes depends on."""

    snapshot: ClusterSnapshot
    plans_by_pool: Mapping[str, PoolPlans]
    """The planner's state of each pool, with the plans of its nodes, by name."""
    pools: tuple[PoolView, ...]
    """The pools as admission sees them."""
    namespaces: Mapping[str, Namespace]
    setup: Settings
    can_decide: bool = True
    """Whether all pools and the pod's namespace are known; otherwise the pod's assignment is not
    known."""
    has_nodes: bool = True
    """Whether nodes and pods are complete; otherwise it is not known where a pod fits."""


@dataclass(frozen=True, slots=True)
class PodExplanation:
    """Everything that explains a pod."""

    namespace: str
    name: str
    written: PodShape
    """The pod as its owner wrote it, as far as that is known."""
    request: PodRequest
    """The pod's requests and selections."""
    decision: AdmissionDecision | None
    """Decision that admission would make now; None where pools or namespace are not known."""
    verdicts: tuple[PoolVerdict, ...]
    past: PastDecision | None = None
    """The decision when the pod was created."""
    found: Pod | None = None
    """The pod in the cluster; None for one that does not exist yet."""
    waits: UnschedulablePod | None = None
    """Why the pod has no pool or no node, or does not start on its node."""
    fits: tuple[NodeFit, ...] = ()
    """On the nodes where it may go; none for a pod that has one, or that goes nowhere."""

    @property
    def smallest_change(self) -> str | None:
        """The smallest change that lets it run; None where it needs none, or none is known."""
        least, found, decision = find_smallest_change(self.fits), self.found, self.decision
        if found is None or found.node or decision is None or decision.pool in (None, *found.pools):
            return least
        chosen = next((each for each in self.verdicts if each.pool == decision.pool), None)
        figures = chosen.figures if chosen is not None else None
        if figures is None or figures.fit > Fit.CARD or any(fit.fits for fit in self.fits):
            return least
        recreate = (
            f"Recreate the pod to assign it to pool {decision.pool}, which has room: "
            f"{tell_to_recreate(found)}"
        )
        return recreate if least is None else f"{least}. Alternative: {recreate}"

    @property
    def is_as_then(self) -> bool | None:
        """Whether the decision would be the same now; None where the past one is not known."""
        past, decision = self.past, self.decision
        if past is None or decision is None:
            return None
        return (past.reason, past.pool) == (str(decision.reason), decision.pool)


def explain_new_pod(
    pod: PodShape, namespace: str, name: str, around: Surroundings
) -> PodExplanation:
    """Explain a pod that is about to be created, by the webhook's own decision."""
    request, decision, verdicts = _decide(pod, namespace, around)
    fits: tuple[NodeFit, ...] = ()
    if not decision.is_refused:
        fits = tuple(_find_fits(apply_decision(pod, decision), decision.pool, around))
    return PodExplanation(
        namespace, name, pod, request, decision, verdicts, past=_parse_past(pod), fits=fits
    )


def explain_found_pod(
    pod: PodShape, found: Pod | None, waits: UnschedulablePod | None, around: Surroundings,
    *, namespace: str, name: str,
) -> PodExplanation:  # fmt: skip
    """Explain a pod that exists: the decision on one like it that is created now, and if it has no
    node, where it fits as it is. `found` is None where it asks for no GPU."""
    written = rewind(pod, around.pools)
    decision: AdmissionDecision | None
    request, decision, verdicts = _decide(written, namespace, _leave_out(found, around))
    if not around.can_decide:
        decision, verdicts = None, ()
    fits: tuple[NodeFit, ...] = ()
    waits_for_node = found is not None and not found.node and found.is_live and not found.deleting
    if waits_for_node and around.has_nodes:
        fits = tuple(_find_fits(pod, None, around))
        if waits is not None and waits.reason in _SCHEDULER:
            fits = add_scheduler_rejection(fits, Reason(waits.reason), waits.message)
    return PodExplanation(
        namespace, name, written, request, decision, verdicts,
        past=_parse_past(pod), found=found, waits=waits or _find_stuck(found, request, around),
        fits=fits,
    )  # fmt: skip


def _parse_past(pod: PodShape) -> PastDecision | None:
    return parse_past_decision((pod.metadata and pod.metadata.annotations) or {})


def _find_stuck(
    found: Pod | None, request: PodRequest, around: Surroundings
) -> UnschedulablePod | None:
    """Tell why a pod that has a node does not start there: the plugin finds no card for it."""
    node = around.snapshot.nodes.get(found.node) if found is not None else None
    if found is None or node is None or found.phase != "Pending":
        return None
    if found.has_card is False and not found.cards:
        message = (
            f"Scheduler {request.scheduler} bound the pod without a card, so the device plugin "
            "gives it none. Recreate it with a scheduler that allocates GPU memory by card, "
            "and without nodeName"
        )
        return UnschedulablePod(found, Reason.NO_CARD_ALLOCATED, message)
    if node.gpu_count < 2:
        return None
    trouble = find_card_trouble(request, _find_edition(node))
    return None if trouble is None else UnschedulablePod(found, *trouble)


def _find_edition(node: Node) -> Edition:
    return find_edition(node.labels) or DEFAULT_EDITION


def _leave_out(found: Pod | None, around: Surroundings) -> Surroundings:
    """Subtract a pod that waits from the figures of the pools that it selects, which contain it
    once they are younger than the pod."""
    if found is None or found.node or not found.gpu_memory or found.created is None:
        return around
    pools = []
    for view in around.pools:
        counts = view.name in found.pools and view.observed_at >= found.created.isoformat()
        if counts and (pool_plans := around.plans_by_pool.get(view.name)) is not None:
            sizes = list_sizes(pool_plans.capacities.values())
            observed_at = datetime.fromisoformat(view.observed_at)
            counts = find_no_demand(found, sizes, observed_at) is None
        pools.append(view.without_pending(found.gpu_memory) if counts else view)
    return replace(around, pools=tuple(pools))


def _decide(
    pod: PodShape, namespace: str, around: Surroundings
) -> tuple[PodRequest, AdmissionDecision, tuple[PoolVerdict, ...]]:
    asked = read_pod_request(pod)
    where = around.namespaces.get(namespace) or Namespace(namespace)
    rules = build_rules(around.setup)
    decision = decide(asked, where, around.pools, rules, gang=read_gang(pod))
    request = AdmissionRequest(asked, where, around.pools, rules, NO_RESERVATIONS)
    return asked, decision, list_verdicts(request, decision)


def _find_fits(pod: PodShape, sent: str | None, around: Surroundings) -> Iterator[NodeFit]:
    """Find the fit of each node of the pools that the pod selects; where it selects none, of those
    that offer what it asks for."""
    request = read_pod_request(pod)
    tolerations = parse_tolerations((pod.spec or Spec()).tolerations or ())
    if not request.requests:
        return
    views = {pool.name: pool for pool in around.pools}
    for name, node in sorted(around.snapshot.nodes.items()):
        pool, plan = _find_plan(name, around.plans_by_pool)
        if not _is_candidate(node, pool, sent, request):
            continue
        place = Place(
            node=node,
            pods=around.snapshot.pods.get(name, ()),
            pool=views.get(pool) or PoolView("", Schedule.SHARE, edition=_find_edition(node)),
            plan=plan,
            unit=around.setup.memory_unit,
            unhealthy_cards=around.snapshot.unhealthy_cards.get(name, ()),
        )
        yield judge_place(request, tolerations, place)


def _is_candidate(node: Node, pool: str, sent: str | None, request: PodRequest) -> bool:
    """Tell whether to report why the pod does not fit on `node`, which belongs to `pool`.

    A pod that is `sent` to a pool by the labels of its mode may land on others' nodes, too.
    """
    selection = request.selection
    if named := selection.find_values(names.LABEL_POOL):
        return pool in named or node.labels.get(names.LABEL_POOL) in named
    if sent is not None and pool == sent:
        return True
    offers = any(node.allocatable.get(resource) for resource in request.requests)
    return selection.admits(node.name, node.labels) and (offers or bool(selection.chosen_keys))


def _find_plan(node: str, plans_by_pool: Mapping[str, PoolPlans]) -> tuple[str, NodePlan | None]:
    """Return the pool that has the node, and what is planned for it there."""
    for name, pool_plans in plans_by_pool.items():
        plan = pool_plans.plans.get(node)
        if plan is not None and plan.reason not in NOT_TAKEN:
            return name, plan
    return "", None
