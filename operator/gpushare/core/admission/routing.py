"""Assigns a pod to the pool that it requests, to its namespace's pool, or to the best one."""

from collections.abc import Iterator, Mapping, Sequence

from gpushare import names
from gpushare.api.k8s.node_selection import MAX_REQUIREMENTS
from gpushare.api.k8s.pod_request import PodRequest
from gpushare.api.pool import Schedule
from gpushare.core.admission.decision import (
    AdmissionDecision,
    Lost,
    RejectedPools,
    build_annotation,
    list_causes,
    sanitize,
)
from gpushare.core.admission.filter import explain_rejection, find_rejection
from gpushare.core.admission.gangs import Gang
from gpushare.core.admission.node_match import explain_doubt
from gpushare.core.admission.pool_view import PoolView
from gpushare.core.admission.request import AdmissionRequest, select
from gpushare.core.admission.score import Fit, Ranking, ask_per_card, judge_fit
from gpushare.core.admission.shortlist import Shortlists
from gpushare.core.admission.warnings import find_warnings, find_warnings_in
from gpushare.names import Reason

_NONE_ACCEPTS = "No pool accepts this pod"


def route_on_request(request: AdmissionRequest) -> AdmissionDecision:
    """Assign the pod to the pool that its annotation names, or to none."""
    name = request.pod.pool
    pool = request.find(name)
    rejection = find_rejection(request, pool)
    if pool is not None and rejection is None:
        return _send(request, _accept(request, pool, Reason.ROUTED_ON_REQUEST))
    return _leave_without(
        request,
        Reason.REQUESTED_POOL_UNAVAILABLE,
        f"Requested pool {name} cannot take the pod: {explain_rejection(rejection, request, pool)}",
        [],
        f"Request another pool, or remove the annotation {names.ANNOTATION_POOL}",
        {rejection or Reason.POOL_NOT_FOUND: [name]},
    )


def route(request: AdmissionRequest, shortlists: Shortlists) -> AdmissionDecision:
    """Assign the pod to its namespace's pool if that accepts it, else to the best that does."""
    warnings: list[str] = []
    if name := request.namespace.default_pool:
        default = request.find(name)
        rejection = find_rejection(request, default)
        if default is not None and rejection is None:
            return _send(request, _accept(request, default, Reason.ROUTED_BY_NAMESPACE))
        why = explain_rejection(rejection, request, default)
        warnings.append(f"The namespace's default pool {name} cannot take the pod: {why}")

    shortlist = shortlists.get_or_build(request)
    if shortlist.ranker is None:
        lost = shortlist.lost
        causes = _group_causes(request, lost)
        advice = _advise(request, has_causes=bool(causes))
        if Reason.EXCLUDED_BY_POD in lost:
            advice = "Change the node labels that the pod selects, or a pool's spec.nodes.scaling"
        head = _NONE_ACCEPTS if causes else "The cluster has no pool"
        return _leave_without(
            request, Reason.NO_ELIGIBLE_POOL, head, causes, advice, lost, warnings
        )
    ranking = shortlist.ranker.find_best(request.reserved, request.gang)
    if not shortlist.ranker.is_wanted:
        told = (
            f"but {names.ENV_CGPU_DISABLE} turns cGPU's isolation off, so the pod can use other "
            "pods' memory. No pool without isolation accepts this pod. Remove the variable"
        )
        if not ranking.pool.isolates:
            told = "which does not isolate GPU memory. No isolating pool accepts this pod"
        warnings.append(f"{_tell_assigned(ranking.pool)}, {told}")
    places = shortlist.ranker.count_places(ranking.pool.name)
    return _send(request, ranking, [*warnings, *_find_gang_warnings(request.gang, ranking, places)])


def _find_gang_warnings(gang: Gang | None, ranking: Ranking, places: int) -> Iterator[str]:
    """Find that the gang is known not to fit into one pool."""
    if Reason.GANG_SPLIT in ranking.lost:
        yield f"{_tell_assigned(ranking.pool)}, {_tell_split(ranking)}, which may have no room"
        return
    if gang is None or gang.size is None or gang.pools or ranking.fit > Fit.CARD:
        return
    if places < gang.size:
        yield (
            f"{_tell_assigned(ranking.pool)}, which has room for {places} of the {gang.size} pods "
            "of its gang. The others may go to other pools"
        )


def _tell_split(ranking: Ranking) -> str:
    return f"apart from pods of its gang in pool {', '.join(ranking.lost[Reason.GANG_SPLIT])}"


def skip_unread(request: AdmissionRequest) -> AdmissionDecision:
    """Assign the pod to no pool: its node affinity was too long to be read."""
    return _leave_without(
        request,
        Reason.NO_ELIGIBLE_POOL,
        f"{_NONE_ACCEPTS}: its node affinity has more than {MAX_REQUIREMENTS} requirements",
        [],
        "Shorten the node affinity",
        lost={},
    )


def _accept(request: AdmissionRequest, pool: PoolView, reason: Reason) -> Ranking:
    """Rank a pool that was named, so that no other was looked at."""
    fit = judge_fit(request.pod, pool, request.reserved.get(pool.name, 0))
    is_known_to_match = pool.match(request.pod.selection) is True
    return Ranking(pool, fit, reason, is_known_to_match=is_known_to_match)


def _send(
    request: AdmissionRequest, ranking: Ranking, warnings: Sequence[str] = ()
) -> AdmissionDecision:
    pool = ranking.pool
    pod_warnings = [
        *warnings,
        *find_warnings(request.pod),
        *find_warnings_in(request.pod, pool, ranking.fit),
    ]
    if not ranking.is_known_to_match and (doubt := explain_doubt(request.pod.selection, pool)):
        pod_warnings.append(doubt)
    told = _tell_assigned(pool)
    if Reason.GANG_SPLIT in ranking.lost:
        told = f"{told}, {_tell_split(ranking)}"
    return AdmissionDecision(
        ranking.reason,
        told,
        pool.name,
        request.missing(select(pool, request.pod)),
        pool.tolerations,
        ranking.annotation,
        tuple(map(sanitize, pod_warnings)),
        reserved=_count_reserved(request.pod, ranking),
        lost=ranking.lost,
    )


def _count_reserved(pod: PodRequest, ranking: Ranking) -> int:
    """Count the units of cards that the pod is about to take: none where a scheduling gate holds it
    back, or no card has as much free as it needs."""
    if pod.is_gated or ranking.fit > Fit.CARD:
        return 0
    units, cards = ask_per_card(pod, ranking.pool)
    return min(pod.memory, units * cards)


def _tell_assigned(pool: PoolView) -> str:
    return f"Assigned to pool {pool.name} ({pool.schedule})"


def _group_causes(request: AdmissionRequest, lost: Lost) -> list[RejectedPools]:
    """Group the pools by the cause that rejects them."""
    pools = {pool.name: pool for pool in request.pools}
    kept_away: dict[str, list[str]] = {}
    for reason, found in lost.items():
        for name in found:
            why = explain_rejection(reason, request, pools[name])
            kept_away.setdefault(why, []).append(name)
    return [(found, why) for why, found in kept_away.items()]


_CREATE: Mapping[str, str] = {
    names.ISOLATION_REQUIRED: f"schedule {Schedule.CGPU}",
    names.ISOLATION_NONE: f"schedule {Schedule.SHARE}",
}


def _advise(request: AdmissionRequest, *, has_causes: bool) -> str:
    pod = request.pod
    if not pod.requests.keys() <= names.SHARED_RESOURCES:
        return "No node offers both shared GPU and whole cards. Request one of the two"
    if names.RESOURCE_GPU_CORE not in pod.requests:
        wanted = _CREATE.get(pod.isolation, f"schedule {Schedule.CGPU} or {Schedule.SHARE}")
    elif pod.isolation == names.ISOLATION_NONE:
        return (
            f"{names.RESOURCE_GPU_CORE} requires isolation. Remove it, or the annotation "
            f"{names.ANNOTATION_ISOLATION}"
        )
    else:
        wanted = f"schedule {Schedule.CORE_MEM}"
    create = "Remove one of these causes, or create" if has_causes else "Create"
    return f"{create} a pool with {wanted} that accepts the pod"


def _leave_without(
    request: AdmissionRequest,
    reason: Reason,
    head: str,
    causes: Sequence[RejectedPools],
    advice: str,
    lost: Lost,
    warnings: Sequence[str] = (),
) -> AdmissionDecision:
    """Warn about the pod or refuse it, as its namespace or else the installation says."""
    message, warning = list_causes(head, causes, advice)
    if request.denies:
        return AdmissionDecision(reason, message, is_refused=True, lost=lost)
    return AdmissionDecision(
        reason,
        message,
        annotation=build_annotation(reason, lost=lost),
        warnings=tuple(map(sanitize, (*warnings, warning))),
        lost=lost,
    )
