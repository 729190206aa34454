"""How well a pod that asks for GPU memory fits into what a pool has free."""

from enum import IntEnum

from gpushare.api.k8s.pod_request import PodRequest
from gpushare.core.admission.pool_view import PoolView, Room
from gpushare.editions.registry import EDITIONS

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


def judge_fit(pod: PodRequest, pool: PoolView, booked: int) -> Fit:
    """How well `pod` fits into `pool`, of which `booked` units are given away unseen."""
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
    wanted = room.pending + _DOUBT * booked + units * cards
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


def free_share(room: Room | None, booked: int) -> float:
    """What part of the memory is free, from 1 down; below 0 where more is asked for."""
    return (room.free - booked) / room.total if room is not None and room.total else 0.0
