"""Which pool a pod is sent to: the whole decision, in the order in which it is made."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from gpushare import names
from gpushare.api.k8s.namespace import Namespace
from gpushare.api.k8s.node_selection import ANYWHERE
from gpushare.api.k8s.pod_request import Placer, PodRequest
from gpushare.core.admission.decision import (
    MAX_MESSAGE,
    Decision,
    build_annotation,
    cut,
    list_causes,
)
from gpushare.core.admission.filter import explain_rejection, find_misfit
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
from gpushare.core.admission.warnings import find_card_trouble, find_ignored_words, find_warnings
from gpushare.names import Reason

_DEFAULT = Rules()
_PLACER_ADVICE = {
    Placer.DAEMONSET: f"select a pool by {names.LABEL_POOL} in its template's nodeSelector",
    Placer.NODE_NAME: "the scheduler then keeps no card for it; leave nodeName out",
    Placer.NODE_SELECTION: f"to have a pool chosen, leave that out, or select {names.LABEL_POOL}",
    Placer.KUEUE: f"give the queue's ResourceFlavor the node label {names.LABEL_POOL}",
}


def decide(
    pod: PodRequest,
    namespace: Namespace,
    pools: Sequence[PoolView],
    rules: Rules = _DEFAULT,
    reserved: Mapping[str, int] = NO_RESERVATIONS,
    shortlists: Shortlists | None = None,
) -> Decision:
    """Where `pod` goes; the order of `pools` does not matter.

    `reserved` are units of gpu-mem by pool that were given away and its capacity does not show yet.
    `shortlists` remembers what is the same for many pods.
    """
    request = AdmissionRequest(pod, namespace, pools, rules, reserved)
    decision = _decide(request, shortlists or Shortlists())
    if not pod.asks_for_share:
        return decision
    if pod.requires_isolation:
        decision = _insist_on_isolation(request, decision)
    if ignored := tuple(map(cut, find_ignored_words(pod, namespace))):
        decision = replace(decision, warnings=decision.warnings + ignored)
    return decision


def _decide(request: AdmissionRequest, shortlists: Shortlists) -> Decision:
    pod = request.pod
    if pod.opts_out or request.namespace.opts_out:
        who = "the pod" if pod.opts_out else "its namespace"
        return Decision(Reason.OPTED_OUT, f"{who} opts out")
    if not pod.asks_for_share and not (pod.pool and pod.requests):
        return _skip_without_request(pod)
    # Somebody else places it: no advice where that one selects by our labels.
    if (placer := pod.placer) is not None:
        selects = placer is not Placer.NODE_NAME and pod.selection.chosen_keys
        advice = "" if selects else _PLACER_ADVICE[placer]
        return _skip(Reason.NOT_ROUTED, f"{placer} decides where it runs", advice)
    if pod.scheduler not in request.rules.schedulers:
        message = f"its scheduler is {pod.scheduler}, which is left to choose"
        advice = (
            "if that one gives out GPU memory card by card, name it in the installation's "
            "schedulers"
        )
        return _skip(Reason.OTHER_SCHEDULER, message, "" if pod.selection.chosen_keys else advice)
    if pod.decided_pool and _is_routed(request):
        return Decision(Reason.ALREADY_ROUTED, f"was sent to pool {pod.decided_pool} before")
    if pod.selection is not ANYWHERE:
        if pod.selection.is_too_long:
            return skip_unread(request)
        if pod.selection.contradicts_itself:
            message = (
                "its node selector and node affinity contradict each other, so no node can take it"
            )
            return _skip(Reason.CONTRADICTORY_SELECTION, message, "mend them")
        if keys := pod.selection.chosen_keys:
            return _respect(request, keys)
    return route_on_request(request) if pod.pool else route(request, shortlists)


def _skip(reason: Reason, message: str, advice: str) -> Decision:
    """Created as it is; with a warning where there is an `advice`."""
    if advice:
        message = f"{message}; {advice}"
    return Decision(
        reason,
        cut(message, MAX_MESSAGE),
        annotation=build_annotation(reason),
        warnings=(cut(f"not sent to a pool: {message}"),) if advice else (),
    )


def _skip_without_request(pod: PodRequest) -> Decision:
    """It asks for no GPU that admission deals with."""
    if pod.uses_gpu_unasked:
        message = (
            "a container sets a GPU variable, and the pod asks for no GPU: on a shared node it "
            f"sees every card, uncounted. Ask for {names.RESOURCE_GPU_MEMORY}, or set "
            f"{names.ENV_VISIBLE_DEVICES}=none"
        )
        return Decision(Reason.UNACCOUNTED_GPU, message, warnings=(cut(message),))
    warning = (
        f"annotation {names.ANNOTATION_POOL} does nothing: the pod asks for no GPU that a pool "
        f"gives; ask for {names.RESOURCE_GPU_MEMORY}"
    )
    warnings = (warning,) if pod.pool else ()
    return Decision(Reason.NO_GPU_REQUEST, "asks for no shared GPU", warnings=warnings)


def _insist_on_isolation(request: AdmissionRequest, decision: Decision) -> Decision:
    """The pod ends on nodes whose isolated mode is verified, or is refused, whatever else holds.

    Run without isolation is just what its owner ruled out. What opts out is left as it is, and
    must say all of it itself.
    """
    verified = request.missing(VERIFIED)
    if request.pod.may_disable_isolation:
        message = (
            f"isolation is required, and {names.ENV_CGPU_DISABLE} turns it off in a container, or "
            "may do so when it starts; remove one of them"
        )
    elif decision.is_refused:
        return decision
    elif not request.is_isolated(decision.selector):
        message = (
            f"isolation is required, and the pod would run without it: {decision.message}. Put "
            f"the labels of an isolated mode and {names.LABEL_ISOLATION_VERIFIED}: "
            f'"{names.VERIFIED}" into its nodeSelector, or take the annotation '
            f"{names.ANNOTATION_ISOLATION} away"
        )
    elif verified and (decision.reason is Reason.OPTED_OUT or request.denies_verified):
        message = (
            "isolation is required, and the pod could run where it is not verified: "
            f"{decision.message}. Put {names.LABEL_ISOLATION_VERIFIED}: "
            f'"{names.VERIFIED}" into its nodeSelector, or take the annotation '
            f"{names.ANNOTATION_ISOLATION} away"
        )
    else:
        return replace(decision, selector=decision.selector + verified)
    return Decision(Reason.ISOLATION_UNAVAILABLE, message, is_refused=True, lost=decision.lost)


def _is_routed(request: AdmissionRequest) -> bool:
    """Whether the pod has what is written for that pool, which still serves what it asks for; the
    annotation alone says nothing.
    """
    pool = request.find(request.pod.decided_pool)
    return (
        pool is not None
        and find_misfit(request.pod, pool) is None
        and not request.missing(select(pool, request.pod))
    )


def _respect(request: AdmissionRequest, keys: Sequence[str]) -> Decision:
    """Its owner chose: nothing is added but the isolation that is required, within the choice."""
    pod = request.pod
    message = f"already selects by {', '.join(keys)}"
    chosen = [pool for pool in request.pools if pod.selection.may_hold(pool.known)]
    if not chosen:
        return _skip(
            Reason.SELECTS_NO_POOL,
            f"{message}, and no pool has such nodes: it waits, unless nodes outside the pools do",
            "mend the selection, or leave it out to have a pool chosen",
        )
    misfits = {pool.name: find_misfit(pod, pool) for pool in chosen}
    fitting = [pool for pool in chosen if misfits[pool.name] is None]
    warnings = []
    if not fitting:
        causes = [
            ((pool.name,), explain_rejection(misfits[pool.name], request, pool))
            for pool in sorted(chosen, key=lambda pool: pool.name)
        ]
        message, warning = list_causes(
            message, causes, "It waits; mend the selection, or what it asks for"
        )
        warnings.append(warning)
    if pod.pool and pod.pool not in misfits:
        warnings.append(
            f"annotation {names.ANNOTATION_POOL} asks for {pod.pool}, and the pod's own node "
            "selection for other nodes; the selection counts"
        )
    troubles = (find_card_trouble(pod, pool.edition) for pool in fitting)
    warnings += [trouble[1] for trouble in troubles if trouble is not None][:1]
    selector: Labels = ()
    if pod.requires_isolation and fitting and not request.is_isolated():
        selector = request.missing(
            PoolRanker(pod, fitting).find_best(request.reserved).pool.mode_labels
        )
    return Decision(
        Reason.ALREADY_SELECTS,
        message,
        selector=selector,
        annotation=build_annotation(Reason.ALREADY_SELECTS),
        warnings=tuple([cut(warning) for warning in (*warnings, *find_warnings(pod))]),
    )
