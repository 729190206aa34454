"""Draws a day of pods that two teams create: one trains, the other serves.

Written before the rules that move nodes between their pools: the rules are judged by these days.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import cos, pi
from random import Random

MINUTES = 24 * 60
NODES, CARDS, CARD_UNITS = 24, 2, 15
TRAIN, SERVE = "train", "serve"
PENDING_MINUTES = 2
"""How long pods wait before a node may be moved for them; the alternation turns about as fast."""


@dataclass(frozen=True, slots=True, order=True)
class TracePod:
    """A pod of a trace."""

    arrives: int
    """Minute of the day at which it is created."""
    pool: str
    units: int
    """Units of GPU memory that it needs on one card."""
    minutes: int
    """How long it runs."""


def draw_day_and_night(choice: Random) -> list[TracePod]:
    """Draw trainings by night, serving by day, and bursts of either now and then."""

    def of_night(minute: int) -> float:
        return (1 + cos(2 * pi * minute / MINUTES)) / 2

    pods = list(_draw(choice, TRAIN, lambda minute: 0.28 * of_night(minute) ** 2))
    pods += _draw(choice, SERVE, lambda minute: 1.5 * (1 - of_night(minute)) ** 2)
    for _ in range(6):
        begin = choice.randrange(MINUTES)
        pool = choice.choice((TRAIN, SERVE))
        pods += [_draw_pod(choice, pool, begin + choice.randrange(5)) for _ in range(10)]
    return sorted(pods)


def draw_constant_mix(choice: Random) -> list[TracePod]:
    """Draw both kinds at a rate that stays the same, near what all nodes can hold."""
    pods = list(_draw(choice, TRAIN, lambda _: 0.11))
    pods += _draw(choice, SERVE, lambda _: 0.6)
    return sorted(pods)


def draw_alternation(choice: Random) -> list[TracePod]:
    """Draw bursts of short pods, now of one kind, then of the other, that turn about as fast as a
    move is decided on: whoever follows them moves nodes that are late each time."""
    pods = []
    minute, pool = 0, TRAIN
    while minute < MINUTES:
        for _ in range(choice.randint(20, 40)):
            units = choice.choice((6, 8, 10))
            arrives = minute + choice.randrange(2)
            pods.append(TracePod(arrives, pool, units, choice.randint(3, 8)))
        minute += PENDING_MINUTES + choice.randint(0, 3)
        pool = SERVE if pool == TRAIN else TRAIN
    return sorted(pods)


DAYS: Mapping[str, Callable[[Random], list[TracePod]]] = {
    "day and night": draw_day_and_night,
    "constant mix": draw_constant_mix,
    "alternation": draw_alternation,
}


def _draw(choice: Random, pool: str, rate: Callable[[int], float]) -> Iterator[TracePod]:
    """Draw the pods of a day that come at so many a minute."""
    for minute in range(MINUTES):
        left = rate(minute)
        while choice.random() < left:
            yield _draw_pod(choice, pool, minute)
            left -= 1


def _draw_pod(choice: Random, pool: str, minute: int) -> TracePod:
    if pool == TRAIN:
        return TracePod(minute, pool, choice.choice((8, 12, 15)), choice.randint(60, 360))
    return TracePod(minute, pool, choice.choice((2, 3, 4, 6)), choice.randint(30, 240))
