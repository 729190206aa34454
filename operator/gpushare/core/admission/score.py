"""Which of the eligible pools gets a pod, and where each of the others lost."""

from collections.abc import Sequence

import msgspec

from gpushare import names
from gpushare.api.k8s.pod_request import PodRequest
from gpushare.core.admission.decision import Loser
from gpushare.core.admission.fit import Fit, free_share, judge_fit
from gpushare.core.admission.pool_view import PoolView
from gpushare.core.admission.request import AdmissionRequest
from gpushare.names import Reason

Rank = tuple[Fit, int, float, str, PoolView]
"""Of unequal names, so that pools themselves are never compared."""
_STEPS = (Reason.NO_ROOM, Reason.LOWER_PRIORITY, Reason.LESS_FULL, Reason.LATER_NAME)
"""What it means to be beaten at each step of the ranking."""
_WORSE = {Fit.CARD: Reason.RESERVED, Fit.UNKNOWN: Reason.CAPACITY_UNKNOWN}
"""A fit that is worse, though nobody knows that there is no room."""


class Ranking(msgspec.Struct, frozen=True):
    """The pool that gets the pod."""

    pool: PoolView
    fit: Fit
    is_preferred: bool
    """It is of the kind, isolated or not, that the pod seems to want."""
    lost: tuple[Loser, ...]


def rank(request: AdmissionRequest, candidates: Sequence[PoolView]) -> Ranking:
    """The best of the `candidates` pools, of which there is at least one.

    Isolation that nobody asked for in words is a wish, and goes before all else. Then a pool with
    room goes before one without; higher priority; and the fullest that has room, so that large
    blocks stay whole. Among pools whose room others may take first the emptiest goes first: when
    in doubt, spread. Fit never excludes: a full pool may be one that grows.
    """
    wanted = _list_wanted(request.pod, candidates)
    ranks = [_rank(request, pool) for pool in wanted or candidates]
    best = min(ranks)
    fit, chosen = best[0], best[-1]
    lost: list[Loser] = []
    if len(ranks) > 1:
        lost = [(_compare(best, rank), rank[3]) for rank in ranks if rank is not best]
    if len(ranks) < len(candidates):
        reason = Reason.NOT_ISOLATED if chosen.isolates else Reason.ISOLATED
        lost += [(reason, pool.name) for pool in candidates if pool.isolates is not chosen.isolates]
    lost.sort()
    return Ranking(chosen, fit, bool(wanted), tuple(lost))


def _list_wanted(pod: PodRequest, candidates: Sequence[PoolView]) -> Sequence[PoolView]:
    """Those that isolate, unless the pod's owner says so or switches it off in every container."""
    if pod.isolation in (names.ISOLATION_REQUIRED, names.ISOLATION_NONE):
        return candidates
    return [pool for pool in candidates if pool.isolates is not pod.disables_isolation]


def _rank(request: AdmissionRequest, pool: PoolView) -> Rank:
    booked = request.booked.get(pool.name, 0)
    fit = judge_fit(request.pod, pool, booked)
    free = free_share(pool.room, booked)
    return fit, -pool.priority, -free if fit is Fit.CARD else free, pool.name, pool


def _compare(best: Rank, other: Rank) -> Reason:
    """The step at which `other` was beaten."""
    step = next(step for step in range(len(_STEPS)) if best[step] != other[step])
    if _STEPS[step] is Reason.NO_ROOM:
        return _WORSE.get(other[0], Reason.NO_ROOM)
    if _STEPS[step] is Reason.LESS_FULL and best[0] == Fit.CARD:
        return Reason.FULLER
    return _STEPS[step]
