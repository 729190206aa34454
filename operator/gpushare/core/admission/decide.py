"""Which pool a pod is sent to: the whole decision, in the order in which it is made."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from gpushare import names
from gpushare.api.k8s.namespace import Namespace
from gpushare.api.k8s.node_selection import ANYWHERE
from gpushare.api.k8s.pod_request import PodRequest
from gpushare.core.admission.decision import Decision, build_annotation, cut, list_causes
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
from gpushare.core.admission.score import rank
from gpushare.core.admission.skip import (
    skip,
    skip_for_placer,
    skip_for_scheduler,
    skip_without_request,
)
from gpushare.core.admission.warnings import find_card_trouble, find_ignored_words, find_warnings
from gpushare.names import Reason

_DEFAULT = Rules()


def decide(
    pod: PodRequest,
    namespace: Namespace,
    pools: Sequence[PoolView],
    rules: Rules = _DEFAULT,
    booked: Mapping[str, int] = NO_RESERVATIONS,
) -> Decision:
    """Where `pod` goes; the order of `pools` does not matter.

    `booked` are units of gpu-mem by pool that were given away and its capacity does not show yet.
    """
    request = AdmissionRequest(pod, namespace, pools, rules, booked)
    decision = _decide(request)
    if not pod.asks_for_share:
        return decision
    if pod.requires_isolation:
        decision = _insist_on_isolation(request, decision)
    if ignored := tuple(map(cut, find_ignored_words(pod, namespace))):
        decision = replace(decision, warnings=decision.warnings + ignored)
    return decision


def _decide(request: AdmissionRequest) -> Decision:
    pod = request.pod
    if pod.opts_out or request.namespace.opts_out:
        who = "the pod" if pod.opts_out else "its namespace"
        return Decision(Reason.OPTED_OUT, f"{who} opts out")
    if not pod.asks_for_share and not (pod.pool and pod.requests):
        return skip_without_request(pod)
    if pod.placer is not None:
        return skip_for_placer(pod, pod.placer)
    if pod.scheduler not in request.rules.schedulers:
        return skip_for_scheduler(pod)
    if pod.decided_pool and _is_routed(request):
        return Decision(Reason.ALREADY_ROUTED, f"was sent to pool {pod.decided_pool} before")
    if pod.selection is not ANYWHERE:
        if pod.selection.is_too_long:
            return skip_unread(request)
        if pod.selection.contradicts_itself:
            return skip(
                Reason.CONTRADICTORY_SELECTION,
                "its node selector and node affinity contradict each other, so no node can take "
                "it; mend them",
            )
        if keys := pod.selection.chosen_keys:
            return _respect(request, keys)
    return route_on_request(request) if pod.pool else route(request)


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
        return skip(
            Reason.SELECTS_NO_POOL,
            f"{message}, and no pool has such nodes: it waits, unless nodes outside the pools do. "
            "Mend the selection, or leave it out to have a pool chosen",
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
        selector = request.missing(rank(request, fitting).pool.mode_labels)
    return Decision(
        Reason.ALREADY_SELECTS,
        message,
        selector=selector,
        annotation=build_annotation(Reason.ALREADY_SELECTS),
        warnings=tuple([cut(warning) for warning in (*warnings, *find_warnings(pod))]),
    )
