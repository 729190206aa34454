"""A pod is sent to a pool: to the one asked for, to its namespace's, or to the best."""

from collections.abc import Sequence

from gpushare import names
from gpushare.api.pool import Schedule
from gpushare.core.case import Case, select
from gpushare.core.choice import Loser, choose
from gpushare.core.decision import (
    MAX_MESSAGE,
    MAX_WARNING,
    Decision,
    build_annotation,
    cut,
    list_causes,
)
from gpushare.core.doubts import find_doubts, find_doubts_in
from gpushare.core.eligibility import explain_obstacle, find_obstacle
from gpushare.core.poolview import PoolView
from gpushare.names import Reason


def route_on_request(case: Case) -> Decision:
    """To the pool that the pod's annotation names, or to none."""
    wanted = case.pod.pool
    pool = case.find(wanted)
    lost: list[Loser] = []
    if pool is None:
        cause = "there is no such pool"
    elif (obstacle := find_obstacle(case, pool)) is None:
        return _send(case, pool, Reason.ROUTED_ON_REQUEST)
    else:
        cause = explain_obstacle(obstacle, case, pool)
        lost.append((obstacle, wanted))
    return _leave_without(
        case,
        Reason.REQUESTED_POOL_UNAVAILABLE,
        "not sent to the pool that it asks for",
        [f"{wanted}: {cause}"],
        f"Ask for another, or take the annotation {names.ANNOTATION_POOL} away",
        lost,
    )


def route(case: Case) -> Decision:
    """To the namespace's pool if that can take the pod, else to the best of those that can."""
    obstacles = {pool.name: find_obstacle(case, pool) for pool in case.pools}
    warnings = []
    if name := case.namespace.default_pool:
        pool = case.find(name)
        if pool is None:
            warnings.append(f"its namespace's pool {name} does not exist")
        elif (obstacle := obstacles[name]) is None:
            return _send(case, pool, Reason.ROUTED_BY_NAMESPACE)
        else:
            why = explain_obstacle(obstacle, case, pool)
            warnings.append(f"not sent to its namespace's pool {name}: {why}")

    eligible: list[PoolView] = []
    lost: list[Loser] = []
    for pool in case.pools:
        obstacle = obstacles[pool.name]
        if obstacle is None and pool.on_request:
            obstacle = Reason.ON_REQUEST_ONLY
        if obstacle is None:
            eligible.append(pool)
        else:
            lost.append((obstacle, pool.name))
    if not eligible:
        return _leave_without_any(case, lost, warnings)
    choice = choose(case, eligible)
    reason = Reason.ROUTED
    if not choice.is_preferred:
        if choice.pool.isolates:
            others = "where others count on isolation: no pool without it takes this pod"
        else:
            reason = Reason.ROUTED_WITHOUT_ISOLATION
            others = "which does not isolate GPU memory: no pool that does takes this pod"
        warnings.append(f"sent to pool {choice.pool.name} ({choice.pool.schedule}), {others}")
    return _send(case, choice.pool, reason, [*choice.lost, *lost], warnings)


def _send(
    case: Case,
    pool: PoolView,
    reason: Reason,
    lost: Sequence[Loser] = (),
    warnings: Sequence[str] = (),
) -> Decision:
    doubts = (*find_doubts(case.pod), *find_doubts_in(case, pool))
    return Decision(
        reason,
        f"sent to pool {pool.name} ({pool.schedule})",
        pool.name,
        case.missing(select(pool, case.pod)),
        pool.tolerations,
        build_annotation(reason, pool.name, lost),
        tuple([cut(warning) for warning in (*warnings, *doubts)]),
        booked=case.pod.memory,
    )


def _leave_without_any(case: Case, lost: Sequence[Loser], warnings: Sequence[str]) -> Decision:
    views = {pool.name: pool for pool in case.pools}
    causes = [f"{name}: {explain_obstacle(why, case, views[name])}" for why, name in sorted(lost)]
    return _leave_without(
        case,
        Reason.NO_ELIGIBLE_POOL,
        "not sent to a pool",
        causes or ["there is none"],
        _advise(case),
        lost,
        warnings,
    )


def _advise(case: Case) -> str:
    """What an administrator, or who created the pod, can do."""
    pod = case.pod
    if names.RESOURCE_GPU_CORE in pod.requests:
        modes = [Schedule.CORE_MEM]
    elif pod.requires_isolation:
        modes = [Schedule.CGPU]
    elif pod.isolation == names.ISOLATION_NONE:
        modes = [Schedule.SHARE]
    else:
        modes = [Schedule.CGPU, Schedule.SHARE]
    return f"Create a pool with schedule {' or '.join(modes)} that takes it, or select nodes"


def _leave_without(
    case: Case,
    reason: Reason,
    head: str,
    causes: Sequence[str],
    advice: str,
    lost: Sequence[Loser],
    warnings: Sequence[str] = (),
) -> Decision:
    """Created with a warning, or refused, as the namespace or the installation says."""
    if case.denies:
        message = list_causes(head, causes, advice, MAX_MESSAGE)
        return Decision(reason, message, is_refused=True)
    return Decision(
        reason,
        list_causes(head, causes, advice, MAX_MESSAGE),
        annotation=build_annotation(reason, lost=lost),
        warnings=tuple(map(cut, (*warnings, list_causes(head, causes, advice, MAX_WARNING)))),
    )
