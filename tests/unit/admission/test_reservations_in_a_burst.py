"""A burst of equal pods over two pools with room for half of it each, before webhooks that never
confer, played in seconds of its own.

Webhooks decide at once, each with what it last heard of the pools. The scheduler places one pod
after the other, slower than they come; the controller tells each pool's capacity at most every two
seconds, and each webhook hears of it a little later than the other.
"""

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from math import floor
from random import Random
from typing import Any

import pytest

from gpushare.api.k8s.namespace import Namespace
from gpushare.api.k8s.pod_request import parse_pod_request
from gpushare.core.admission.decide import decide
from gpushare.core.admission.pool_view import PoolView, view_pool
from gpushare.core.admission.reservations import Reservations
from tests.kit.values.manifests import build_pod, build_pool

PODS = 1000
_POD_GIB, _CARD_GIB, _CARDS = 3, 15, 100
_POD = parse_pod_request(build_pod("burst", gib=_POD_GIB))
_NAMESPACE = Namespace("default")
_START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_STATUS_SECONDS = 2.0
_SLOWEST_WATCH_SECONDS = 0.3
_PLACED_PER_SECOND = 80.0
"""Pods that the scheduler binds."""
MOST_PENDING = 0.05
MOST_PENDING_OF_TWICE_AS_MANY = 0.1


@dataclass
class Crowd:
    """A pool, the pods that were sent to it, and the free memory of its cards."""

    name: str
    cards: list[int] = field(default_factory=lambda: [_CARD_GIB] * _CARDS)
    requested: int = 0
    pending: int = 0
    told_at: float = 0.0

    def place(self) -> None:
        """The scheduler's try: on the card with the least sufficient memory, or on none."""
        fitting = [index for index, free in enumerate(self.cards) if free >= _POD_GIB]
        if fitting:
            self.cards[min(fitting, key=lambda index: self.cards[index])] -= _POD_GIB
        else:
            self.pending += 1

    def view(self, at: float) -> PoolView:
        """The pool as the controller tells it at that second."""
        total = _CARDS * _CARD_GIB
        sizes = sorted({free for free in self.cards if free}, reverse=True)
        raw = build_pool(self.name, schedule="cgpu")
        raw["status"] = {
            "nodes": {"matched": _CARDS},
            "capacity": {
                "observedAt": _format(at),
                "memoryTotal": total,
                "memoryAllocated": total - sum(self.cards),
                "memoryRequested": self.requested,
                "unit": "GiB",
                "largestCard": _CARD_GIB,
                "freeBlocks": [{"size": size, "cards": self.cards.count(size)} for size in sizes],
            },
        }
        view = view_pool(raw)
        assert view is not None
        return view


class Webhook:
    """It decides as the real one does, by the pools that it heard of."""

    def __init__(self, replicas: int) -> None:
        self.heard: dict[str, PoolView] = {}
        self._reservations = Reservations(replicas)

    def choose_pool(self, at: float) -> str:
        pools = list(self.heard.values())
        decision = decide(_POD, _NAMESPACE, pools, reserved=self._reservations.count(pools, at))
        assert decision.pool is not None
        self._reservations.reserve(decision.pool, decision.reserved, at)
        return decision.pool


def play_burst(seed: int, per_second: float, shares: Sequence[int], told: int) -> int:
    """Pods that are Pending in the end, for want of a card in the pool that they were sent to.

    Each webhook gets its share of the calls; `told` is what they take for their number.
    """
    random, order = Random(seed), count()
    pools = {name: Crowd(name) for name in ("left", "right")}
    webhooks = [Webhook(told) for _ in shares]
    waiting: deque[str] = deque()
    events: list[tuple[float, int, Callable[[float], None]]] = []

    def plan(at: float, action: Callable[[float], None]) -> None:
        heapq.heappush(events, (at, next(order), action))

    def is_going_on(at: float) -> bool:
        return bool(waiting) or at < PODS / per_second

    def create(at: float) -> None:
        (webhook,) = random.choices(webhooks, shares)
        pool = webhook.choose_pool(at)
        pools[pool].requested += _POD_GIB
        waiting.append(pool)

    def schedule(at: float) -> None:
        if waiting:
            pools[waiting.popleft()].place()
        if is_going_on(at):
            plan(at + 1 / _PLACED_PER_SECOND, schedule)

    def tell(at: float) -> None:
        for crowd in pools.values():
            if at - crowd.told_at >= _STATUS_SECONDS:
                crowd.told_at = at
                for webhook in webhooks:
                    late = random.uniform(0, _SLOWEST_WATCH_SECONDS)
                    plan(at + late, _build_news(webhook, crowd.view(at)))
        if is_going_on(at):
            plan(at + random.uniform(0.01, 0.2), tell)

    for crowd in pools.values():
        # They were told of at some time before, not all at once.
        crowd.told_at = random.uniform(-_STATUS_SECONDS, -1)
        for webhook in webhooks:
            webhook.heard[crowd.name] = crowd.view(crowd.told_at)
    for index in range(PODS):
        plan(index / per_second, create)
    plan(0, schedule)
    plan(0, tell)
    while events:
        at, _, action = heapq.heappop(events)
        action(at)
    return sum(crowd.pending for crowd in pools.values())


def _build_news(webhook: Webhook, view: PoolView) -> Callable[[float], Any]:
    return lambda _: webhook.heard.update({view.name: view})


def _format(at: float) -> str:
    """Kubernetes' times have no fractions."""
    return (_START + timedelta(seconds=floor(at))).isoformat().replace("+00:00", "Z")


@pytest.mark.parametrize(
    ("shares", "told", "most"),
    [
        ([1], 1, MOST_PENDING),
        ([1] * 2, 2, MOST_PENDING),
        ([1] * 3, 3, MOST_PENDING),
        ([1] * 5, 5, MOST_PENDING),
        ([3, 2], 2, MOST_PENDING),
        ([1, 0], 2, MOST_PENDING),
        ([3, 2, 2], 3, MOST_PENDING),
        # With an autoscaler it is the most that may run, as docs/admission.md has it.
        ([1], 10, MOST_PENDING),
        ([1] * 2, 10, MOST_PENDING),
        ([1] * 4, 10, MOST_PENDING),
        ([1] * 4, 2, MOST_PENDING_OF_TWICE_AS_MANY),
        ([1] * 10, 5, MOST_PENDING_OF_TWICE_AS_MANY),
    ],
)
@pytest.mark.parametrize("per_second", [2000, 300, 100, 60])
@pytest.mark.parametrize("seed", range(4))
def test_a_burst_leaves_few_pods_pending_at_any_pace_and_number_of_webhooks(
    per_second: float, shares: Sequence[int], told: int, most: float, seed: int
) -> None:
    assert play_burst(seed, per_second, shares, told) / PODS <= most
