"""How well a pod fits into a pool, which of the eligible ones gets it, and why others lost."""

from collections.abc import Sequence
from enum import IntEnum

import msgspec

from gpushare import names
from gpushare.api.k8s.pod_request import PodRequest
from gpushare.core.admission.decision import Loser
from gpushare.core.admission.pool_view import PoolView, Room
from gpushare.core.admission.request import AdmissionRequest
from gpushare.editions.registry import EDITIONS
from gpushare.names import Reason

_DOUBT = 3
"""What was given away unseen may be so many times as much: other webhooks are only guessed at."""


class Fit(IntEnum):
    """From best to worst."""

    ROOM = 0
    """Cards have it free, and enough for those that came before."""
    CARD = 1
    """Cards have it free, and others may be on their way to them."""
    UNKNOWN = 2
    FULL = 3
    """No card has so much free now."""
    TOO_LARGE = 4
    """No card is so large, or there is no node."""


def judge_fit(pod: PodRequest, pool: PoolView, reserved: int) -> Fit:
    """How well `pod` fits into `pool`, of which `reserved` units are given away unseen."""
    room = pool.room
    if pool.nodes == 0:
        return Fit.TOO_LARGE
    if room is None:
        return Fit.UNKNOWN
    units, cards = ask_per_card(pod, pool)
    if units > room.largest_card > 0:
        return Fit.TOO_LARGE
    least = (room.largest_card or units) if needs_whole_card(pod, pool) else units
    large_enough = places = 0
    for size, count in room.free_blocks:
        if size < least:
            break
        large_enough += count
        places += count * (size // units)
    if large_enough < cards:
        return Fit.FULL
    if room.free_pods is not None:
        places = min(places, room.free_pods)
    wanted = room.pending + _DOUBT * reserved + units * cards
    return Fit.ROOM if places * units >= wanted else Fit.CARD


def needs_whole_card(pod: PodRequest, pool: PoolView) -> bool:
    """Whether `pod` needs a card that nobody shares; a scheduler extender does not know that."""
    return pod.wants_whole_card and not EDITIONS[pool.edition].has_scheduler_extender


def ask_per_card(pod: PodRequest, pool: PoolView) -> tuple[int, int]:
    """Units that `pod` needs of one card in `pool`, and of how many cards.

    A scheduler extender spreads no pod over cards, and leaves init containers out.
    """
    if EDITIONS[pool.edition].has_scheduler_extender:
        return pod.card_memory or pod.memory or 1, 1
    cards = pod.card_count or 1
    return pod.memory // cards or 1, cards


def free_share(room: Room | None, reserved: int) -> float:
    """What part of the memory is free, from 1 down; below 0 where more is asked for."""
    return (room.free - reserved) / room.total if room is not None and room.total else 0.0


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
    reserved = request.reserved.get(pool.name, 0)
    fit = judge_fit(request.pod, pool, reserved)
    free = free_share(pool.room, reserved)
    return fit, -pool.priority, -free if fit is Fit.CARD else free, pool.name, pool


def _compare(best: Rank, other: Rank) -> Reason:
    """The step at which `other` was beaten."""
    step = next(step for step in range(len(_STEPS)) if best[step] != other[step])
    if _STEPS[step] is Reason.NO_ROOM:
        return _WORSE.get(other[0], Reason.NO_ROOM)
    if _STEPS[step] is Reason.LESS_FULL and best[0] == Fit.CARD:
        return Reason.FULLER
    return _STEPS[step]
