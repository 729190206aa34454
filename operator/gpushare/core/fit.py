"""How well a pod that asks for GPU memory fits into what a pool has free."""

from enum import IntEnum

from gpushare.api.podrequest import PodRequest
from gpushare.api.pool import Edition
from gpushare.core.poolview import PoolView, Room


class Fit(IntEnum):
    """From best to worst."""

    ROOM = 0
    """A card has it free, and there is enough for those that came before."""
    CARD = 1
    """A card has it free, and others may be on their way to it."""
    UNKNOWN = 2
    FULL = 3
    """No card has so much free now."""
    TOO_LARGE = 4
    """No card is so large, or there is no node."""


def judge_fit(pod: PodRequest, pool: PoolView, booked: int) -> Fit:
    """How well `pod` fits into `pool`, of which `booked` units are given away unseen."""
    if pool.nodes == 0:
        return Fit.TOO_LARGE
    room = pool.room
    if room is None or pool.nodes is None:
        return Fit.UNKNOWN
    asked, cards = ask_per_card(pod, pool)
    if asked > room.largest_card > 0:
        return Fit.TOO_LARGE
    least = max(asked, room.largest_card) if pod.wants_whole_card else asked
    if sum(count for size, count in room.free_blocks if size >= least) < cards:
        return Fit.FULL
    places = sum(count * (size // asked) for size, count in room.free_blocks if size >= least)
    wanted = room.pending + booked + asked * cards
    return Fit.ROOM if places * asked >= wanted else Fit.CARD


def ask_per_card(pod: PodRequest, pool: PoolView) -> tuple[int, int]:
    """Units of one card that `pod` needs in `pool`, and of how many cards.

    Only the Professional edition spreads a pod over cards.
    """
    cards = (pod.card_count or 1) if pool.edition is Edition.PROFESSIONAL else 1
    return max(pod.memory // cards, 1), cards


def free_share(room: Room | None, booked: int) -> float:
    """What part of the memory is free, from 1 down; below 0 where more is wanted than there is."""
    return (room.free - booked) / room.total if room is not None and room.total else 0.0
