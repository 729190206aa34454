"""A pod is sent to a pool: to the one it asks for, to its namespace's, or to the best."""

from collections.abc import Mapping, Sequence

from gpushare import names
from gpushare.api.nodeselection import MAX_REQUIREMENTS
from gpushare.api.pool import Schedule
from gpushare.core.admission.case import Case, select
from gpushare.core.admission.choice import Choice, choose
from gpushare.core.admission.decision import (
    Cause,
    Decision,
    Loser,
    build_annotation,
    cut,
    list_causes,
)
from gpushare.core.admission.doubts import find_doubts, find_doubts_in
from gpushare.core.admission.eligibility import explain_obstacle, find_obstacle
from gpushare.core.admission.fit import Fit
from gpushare.core.admission.poolview import PoolView
from gpushare.names import Reason


def route_on_request(case: Case) -> Decision:
    """To the pool that the pod's annotation names, or to none."""
    name = case.pod.pool
    pool = case.find(name)
    obstacle = find_obstacle(case, pool)
    if pool is not None and obstacle is None:
        return _send(case, _accept(case, pool), Reason.ROUTED_ON_REQUEST)
    return _leave_without(
        case,
        Reason.REQUESTED_POOL_UNAVAILABLE,
        [((name,), explain_obstacle(obstacle, case, pool))],
        f"Ask for another, or take the annotation {names.ANNOTATION_POOL} away",
        [(obstacle or Reason.POOL_NOT_FOUND, name)],
    )


def route(case: Case) -> Decision:
    """To the namespace's pool if that can take the pod, else to the best of those that can."""
    warnings: list[str] = []
    if name := case.namespace.default_pool:
        default = case.find(name)
        obstacle = find_obstacle(case, default)
        if default is not None and obstacle is None:
            return _send(case, _accept(case, default), Reason.ROUTED_BY_NAMESPACE)
        why = explain_obstacle(obstacle, case, default)
        warnings.append(f"not sent to its namespace's pool {name}: {why}")

    eligible: list[PoolView] = []
    lost: list[Loser] = []
    for pool in case.pools:
        obstacle = find_obstacle(case, pool)
        if obstacle is None and pool.on_request:
            obstacle = Reason.ON_REQUEST_ONLY
        if obstacle is None:
            eligible.append(pool)
        else:
            lost.append((obstacle, pool.name))
    lost.sort()
    if not eligible:
        causes = _group_causes(case, lost)
        return _leave_without(case, Reason.NO_ELIGIBLE_POOL, causes, _advise(case), lost, warnings)
    choice = choose(case, eligible)
    reason = Reason.ROUTED
    if not choice.is_preferred:
        others = "where others count on isolation: no pool without it takes this pod"
        if not choice.pool.isolates:
            reason = Reason.ROUTED_WITHOUT_ISOLATION
            others = "which does not isolate GPU memory: no pool that does takes this pod"
        warnings.append(f"sent to pool {choice.pool.name} ({choice.pool.schedule}), {others}")
    return _send(case, choice, reason, lost, warnings)


def leave_unread(case: Case) -> Decision:
    """To no pool: whom its owner allows was not read."""
    return _leave_without(
        case,
        Reason.NO_ELIGIBLE_POOL,
        [(("its node affinity",), f"more than {MAX_REQUIREMENTS} requirements are not read")],
        "Shorten it",
        lost=(),
    )


def _accept(case: Case, pool: PoolView) -> Choice:
    """A pool that was named, so that no other was looked at."""
    return Choice(pool, case.judge_fit(pool), is_preferred=True, lost=())


def _send(
    case: Case,
    choice: Choice,
    reason: Reason,
    lost: Sequence[Loser] = (),
    warnings: Sequence[str] = (),
) -> Decision:
    pool = choice.pool
    doubts = (*warnings, *find_doubts(case.pod), *find_doubts_in(case.pod, pool, choice.fit))
    lost = (*choice.lost, *lost)
    return Decision(
        reason,
        f"sent to pool {pool.name} ({pool.schedule})",
        pool.name,
        case.missing(select(pool, case.pod)),
        pool.tolerations,
        build_annotation(reason, pool.name, lost),
        tuple(map(cut, doubts)),
        # What no card can take now will not take what others find free.
        booked=case.pod.memory if choice.fit <= Fit.CARD else 0,
        lost=lost,
    )


def _group_causes(case: Case, lost: Sequence[Loser]) -> list[Cause]:
    """By cause the pools that it keeps away."""
    pools = {pool.name: pool for pool in case.pools}
    kept_away: dict[str, list[str]] = {}
    for reason, name in lost:
        kept_away.setdefault(explain_obstacle(reason, case, pools[name]), []).append(name)
    return [(found, why) for why, found in kept_away.items()]


_CREATE: Mapping[str, str] = {
    names.ISOLATION_REQUIRED: f"schedule {Schedule.CGPU}",
    names.ISOLATION_NONE: f"schedule {Schedule.SHARE}",
}


def _advise(case: Case) -> str:
    pod = case.pod
    if not pod.requests.keys() <= names.SHARED_RESOURCES:
        return "No node offers all of it: ask for shared GPU or for whole cards"
    if names.RESOURCE_GPU_CORE not in pod.requests:
        wanted = _CREATE.get(pod.isolation, f"schedule {Schedule.CGPU} or {Schedule.SHARE}")
    elif pod.isolation == names.ISOLATION_NONE:
        return f"{names.RESOURCE_GPU_CORE} comes with isolation: take one of the two away"
    else:
        wanted = f"schedule {Schedule.CORE_MEM}"
    return f"Create a pool with {wanted} that takes it, or change what it asks for"


def _leave_without(
    case: Case,
    reason: Reason,
    causes: Sequence[Cause],
    advice: str,
    lost: Sequence[Loser],
    warnings: Sequence[str] = (),
) -> Decision:
    """Created with a warning, or refused, as the namespace or the installation says."""
    message, warning = list_causes("not sent to a pool", causes, advice)
    if case.denies:
        return Decision(reason, message, is_refused=True, lost=tuple(lost))
    return Decision(
        reason,
        message,
        annotation=build_annotation(reason, lost=lost),
        warnings=tuple(map(cut, (*warnings, warning))),
        lost=tuple(lost),
    )
