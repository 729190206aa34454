"""Decides to which pool a pod is assigned: the rules in the order in which they apply."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from gpushare import names
from gpushare.api.k8s.namespace import Namespace
from gpushare.api.k8s.node_selection import ANYWHERE
from gpushare.api.k8s.pod_request import Placer, PodRequest
from gpushare.api.pool import Schedule
from gpushare.core.admission.decision import (
    MAX_MESSAGE,
    MAX_WARNING,
    AdmissionDecision,
    build_annotation,
    join_advice,
    list_causes,
    sanitize,
)
from gpushare.core.admission.filter import explain_rejection, find_selected_misfit
from gpushare.core.admission.gangs import Gang
from gpushare.core.admission.node_match import explain_doubt
from gpushare.core.admission.pool_view import Labels, PoolView
from gpushare.core.admission.request import (
    NO_RESERVATIONS,
    VERIFIED,
    AdmissionRequest,
    Rules,
    select,
)
from gpushare.core.admission.routing import route, route_on_request, skip_unread
from gpushare.core.admission.score import PoolRanker
from gpushare.core.admission.shortlist import Shortlists
from gpushare.core.admission.warnings import (
    find_card_trouble,
    find_ignored_words,
    find_unit_warning,
    find_warnings,
)
from gpushare.names import Reason

_DEFAULT = Rules()
_NO_POOL = "No pool assigned"
_KUEUE_ADDS = (
    "If the Kueue flavor has node labels, the pods get a pool whose nodes have them too. To choose "
    f"the pool, set {names.LABEL_POOL} in spec.nodeLabels of the ResourceFlavor"
)
_BY_CARD = "If it allocates GPU memory by card, add it to the chart's webhook.schedulers"
_SCHEDULER_ADVICE = {
    "volcano": f"It allocates no card. Set schedulerName: {names.DEFAULT_SCHEDULER} for pods with "
    f"{names.RESOURCE_GPU_MEMORY}",
}
"""Advice on schedulers that can't allocate the memory of a card."""
_PLACER_ADVICE = {
    Placer.DAEMONSET: f"Set {names.LABEL_POOL} in the nodeSelector of the DaemonSet's template",
    Placer.NODE_NAME: "The scheduler reserves no card for such a pod. Remove nodeName",
    Placer.NODE_SELECTION: (
        f"To have a pool chosen, remove the node's name, or select {names.LABEL_POOL}"
    ),
    Placer.KUEUE: f"Set {names.LABEL_POOL} in spec.nodeLabels of the queue's ResourceFlavor",
}


def decide(
    pod: PodRequest,
    namespace: Namespace,
    pools: Sequence[PoolView],
    rules: Rules = _DEFAULT,
    reserved: Mapping[str, int] = NO_RESERVATIONS,
    shortlists: Shortlists | None = None,
    gang: Gang | None = None,
) -> AdmissionDecision:
    """Decide to which of `pools` to assign `pod`; their order does not matter.

    `reserved` are units of gpu-mem by pool that were given away and its capacity does not show yet.
    `shortlists` remembers what is the same for many pods. `gang` are the pods that run together
    with the pod.
    """
    request = AdmissionRequest(pod, namespace, pools, rules, reserved, gang)
    decision = _decide(request, shortlists or Shortlists())
    if pod.is_of_queued_job and decision.pool is not None:
        decision = replace(decision, warnings=(*decision.warnings, _KUEUE_ADDS))
    if not pod.requests:
        return decision
    if pod.asks_for_share and pod.requires_isolation:
        decision = _insist_on_isolation(request, decision)
    added = list(find_ignored_words(pod, namespace))
    if (warning := find_unit_warning(pod, pools)) is not None:
        added.append(warning)
    if added:
        decision = replace(decision, warnings=(*decision.warnings, *map(sanitize, added)))
    return decision


def _decide(request: AdmissionRequest, shortlists: Shortlists) -> AdmissionDecision:
    pod = request.pod
    if pod.opts_out or request.namespace.opts_out:
        who = "the pod" if pod.opts_out else "its namespace"
        return AdmissionDecision(Reason.OPTED_OUT, f"{_NO_POOL}: {who} opts out")
    if not pod.asks_for_share and not (pod.pool and pod.requests):
        return _skip_without_request(pod)
    # Somebody else places it: no advice where that one selects by our labels.
    if (placer := pod.placer) is not None:
        if placer is Placer.KUEUE and pod.decided_pool and _is_routed(request):
            return _stay_beside_kueue(pod)
        selects = placer is not Placer.NODE_NAME and pod.selection.chosen_keys
        advice = "" if selects else _PLACER_ADVICE[placer]
        return _skip(Reason.NOT_ROUTED, placer, advice)
    if pod.scheduler not in request.rules.schedulers:
        cause = f"scheduler {pod.scheduler} chooses the node"
        advice = _SCHEDULER_ADVICE.get(pod.scheduler, _BY_CARD)
        return _skip(Reason.OTHER_SCHEDULER, cause, "" if pod.selection.chosen_keys else advice)
    if pod.decided_pool and _is_routed(request):
        return AdmissionDecision(Reason.ALREADY_ROUTED, _tell_routed(pod))
    if pod.selection is not ANYWHERE:
        if pod.selection.is_too_long:
            return skip_unread(request)
        if pod.selection.contradicts_itself:
            cause = "the pod's node selector and node affinity contradict each other"
            advice = "No node matches. Fix the node selector or the node affinity"
            return _skip(Reason.CONTRADICTORY_SELECTION, cause, advice)
        if keys := pod.selection.chosen_keys:
            return _respect(request, keys)
    return route_on_request(request) if pod.pool else route(request, shortlists)


def _tell_routed(pod: PodRequest) -> str:
    return f"Already assigned to pool {pod.decided_pool}"


def _stay_beside_kueue(pod: PodRequest) -> AdmissionDecision:
    """Leave a pod in its pool that Kueue holds back since, as it does in its queue `default`: Kueue
    uses only flavors that match the selector."""
    told = f"{_tell_routed(pod)}: Kueue admits it only by a flavor of that pool"
    advice = f"To have the flavor choose, set the label {names.LABEL_KUEUE_QUEUE} on the pod"
    warning = join_advice(told, advice, MAX_WARNING)
    return AdmissionDecision(Reason.ALREADY_ROUTED, _tell_routed(pod), warnings=(warning,))


def _skip(reason: Reason, cause: str, advice: str) -> AdmissionDecision:
    """Leave the pod unchanged; with a warning where there is an `advice`."""
    told = f"{_NO_POOL}: {cause}"
    return AdmissionDecision(
        reason,
        join_advice(told, advice, MAX_MESSAGE),
        annotation=build_annotation(reason),
        warnings=(join_advice(told, advice, MAX_WARNING),) if advice else (),
    )


def _skip_without_request(pod: PodRequest) -> AdmissionDecision:
    """Skip a pod that asks for no GPU that admission deals with."""
    if pod.uses_gpu_unasked:
        message = (
            "A container sets a GPU variable, but the pod requests no GPU: on a shared node it "
            f"sees every card, and its use is not counted. Request {names.RESOURCE_GPU_MEMORY}, "
            f"or set {names.ENV_VISIBLE_DEVICES}=none"
        )
        return AdmissionDecision(Reason.UNACCOUNTED_GPU, message, warnings=(sanitize(message),))
    warning = (
        f"Annotation {names.ANNOTATION_POOL} has no effect: the pod requests no GPU resource of a "
        f"pool. Request {names.RESOURCE_GPU_MEMORY}"
    )
    warnings = (warning,) if pod.pool else ()
    return AdmissionDecision(
        Reason.NO_GPU_REQUEST, "The pod requests no shared GPU", warnings=warnings
    )


def _insist_on_isolation(
    request: AdmissionRequest, decision: AdmissionDecision
) -> AdmissionDecision:
    """Ensure that the pod gets nodes whose isolated mode is verified, or refuse it.

    Running without isolation is just what its owner ruled out. A pod that opts out is left as it
    is, and must say all of it itself.
    """
    verified = request.missing(VERIFIED)
    way_out = (
        f'{names.LABEL_ISOLATION_VERIFIED}: "{names.VERIFIED}" to its nodeSelector, or remove the '
        f"annotation {names.ANNOTATION_ISOLATION}"
    )
    if request.pod.may_disable_isolation:
        message = (
            f"The pod requires isolation, but {names.ENV_CGPU_DISABLE} is set, or may be set at "
            "start, in a container and turns it off. Remove the variable, or the annotation "
            f"{names.ANNOTATION_ISOLATION}"
        )
    elif decision.is_refused:
        return decision
    elif not request.is_isolated(decision.selector):
        told = f"The pod requires isolation, but would run without it. {decision.message}"
        message = join_advice(told, f"Add {_tell_mode(request)} and {way_out}", MAX_MESSAGE)
    elif verified and (decision.reason is Reason.OPTED_OUT or request.denies_verified):
        told = (
            "The pod requires isolation, but could run where it is not verified. "
            f"{decision.message}"
        )
        message = join_advice(told, f"Add {way_out}", MAX_MESSAGE)
    else:
        return replace(decision, selector=decision.selector + verified)
    return AdmissionDecision(
        Reason.ISOLATION_UNAVAILABLE, message, is_refused=True, lost=decision.lost
    )


def _tell_mode(request: AdmissionRequest) -> str:
    """Name the labels of an isolated mode, if a pool has one of that."""
    found = (pool.mode_labels for pool in request.pools if pool.isolates_by_kernel)
    labels = min(found, default=((names.LABEL_SCHEDULE, str(Schedule.CGPU)),))
    shown = ", ".join(f'{key}: "{value}"' for key, value in labels)
    return f"the labels of an isolated mode (such as {shown})"


def _is_routed(request: AdmissionRequest) -> bool:
    """Tell whether the pod has all labels of the pool decided for it, which still serves its
    request; the annotation alone proves nothing.
    """
    pool = request.find(request.pod.decided_pool)
    return (
        pool is not None
        and find_selected_misfit(request.pod, pool) is None
        and not request.missing(select(pool, request.pod))
    )


def _respect(request: AdmissionRequest, keys: Sequence[str]) -> AdmissionDecision:
    """Respect the owner's choice: add nothing but the isolation that is required, within it."""
    pod = request.pod
    message = f"The pod already selects nodes by {', '.join(keys)}"
    chosen = [pool for pool in request.pools if pod.selection.match(pool.known) is not False]
    if not chosen:
        return _skip(
            Reason.SELECTS_NO_POOL,
            f"the pod selects nodes by {', '.join(keys)}, and no pool has such nodes",
            "It stays pending unless a node outside the pools matches. Fix the selection, or "
            "remove it to have a pool chosen",
        )
    misfits = {pool.name: find_selected_misfit(pod, pool) for pool in chosen}
    fitting = [pool for pool in chosen if misfits[pool.name] is None]
    warnings = []
    if not fitting:
        causes = [
            ((pool.name,), explain_rejection(misfits[pool.name], request, pool))
            for pool in sorted(chosen, key=lambda pool: pool.name)
        ]
        message, warning = list_causes(
            "No selected pool can run this pod",
            causes,
            "It stays pending. Fix its selection or its requests",
        )
        warnings.append(warning)
    if pod.pool and pod.pool not in misfits:
        warnings.append(
            f"Annotation {names.ANNOTATION_POOL} is ignored: it requests pool {pod.pool}, but the "
            "pod's own node selector or affinity selects other nodes"
        )
    if fitting and not any(pool.match(pod.selection) for pool in fitting):
        warnings += filter(None, [explain_doubt(pod.selection, fitting[0])])
    troubles = (find_card_trouble(pod, pool.edition) for pool in fitting)
    warnings += [trouble[1] for trouble in troubles if trouble is not None][:1]
    selector: Labels = ()
    if pod.requires_isolation and fitting and not request.is_isolated():
        selector = request.missing(
            PoolRanker(pod, fitting).find_best(request.reserved).pool.mode_labels
        )
    return AdmissionDecision(
        Reason.ALREADY_SELECTS,
        message,
        selector=selector,
        annotation=build_annotation(Reason.ALREADY_SELECTS),
        warnings=tuple([sanitize(warning) for warning in (*warnings, *find_warnings(pod))]),
    )
