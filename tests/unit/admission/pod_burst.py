"""A burst of equal pods over pools with room for a part of them each, played in seconds of its own.

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

from tests.kit.values.manifests import build_pool

Json = dict[str, Any]

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_STATUS_SECONDS = 2.0
_SLOWEST_WATCH_SECONDS = 0.3


@dataclass(frozen=True)
class Pace:
    """How fast what happens."""

    pods: int = 1000
    per_second: float = 300.0
    """Pods that are created."""
    placed_per_second: float = 80.0
    """Pods that the scheduler binds."""


@dataclass
class Crowd:
    """A pool, the pods that were sent to it, and the cards that they found."""

    name: str
    cards: list[int]
    """Free memory of each."""
    card_memory: int
    requested: int = 0
    allocated: int = 0
    pending: int = 0
    told_at: float = -_STATUS_SECONDS

    def place(self, memory: int) -> None:
        """The scheduler's try: on the card with the least sufficient memory, or on none."""
        fitting = [index for index, free in enumerate(self.cards) if free >= memory]
        if not fitting:
            self.pending += 1
            return
        chosen = min(fitting, key=lambda index: self.cards[index])
        self.cards[chosen] -= memory
        self.allocated += memory

    def build(self, at: float) -> Json:
        """The pool as the controller tells it at that second."""
        raw = build_pool(self.name, schedule="cgpu", priority=100, reconcile="Enforce")
        sizes = sorted({free for free in self.cards if free}, reverse=True)
        raw["metadata"] |= {
            "uid": f"uid-of-{self.name}",
            "generation": 1,
            "creationTimestamp": _format(0),
        }
        raw["status"] = {
            "observedGeneration": 1,
            "nodes": {"matched": len(self.cards), "ready": len(self.cards)},
            "capacity": {
                "observedAt": _format(at),
                "gpus": len(self.cards),
                "memoryTotal": len(self.cards) * self.card_memory,
                "memoryAllocated": self.allocated,
                "memoryRequested": self.requested,
                "largestFreeBlock": sizes[0] if sizes else 0,
                "unit": "GiB",
                "largestCard": self.card_memory,
                "freeBlocks": [
                    {"size": size, "cards": self.cards.count(size)} for size in sizes[:20]
                ],
            },
        }
        return raw


@dataclass
class Replica:
    """One webhook."""

    view: Callable[[Json], Any]
    """What it keeps of a pool."""
    decide: Callable[[Sequence[Any], float], str]
    """The name of the pool that a pod is sent to, by the pools as they were heard of last."""
    heard: dict[str, Any] = field(default_factory=dict)
    share: int = 1
    """Of the calls, beside the others'."""

    def hear(self, name: str, told: Json) -> None:
        self.heard[name] = self.view(told)


def play_burst(
    seed: int, crowds: Sequence[Crowd], replicas: Sequence[Replica], pace: Pace, memory: int
) -> int:
    """Pods that are Pending in the end, for want of a card in the pool that they were sent to."""
    random, order = Random(seed), count()
    pools = {crowd.name: crowd for crowd in crowds}
    shares = [replica.share for replica in replicas]
    waiting: deque[str] = deque()
    events: list[tuple[float, int, Callable[[float], None]]] = []

    def plan(at: float, action: Callable[[float], None]) -> None:
        heapq.heappush(events, (at, next(order), action))

    def create(at: float) -> None:
        (replica,) = random.choices(replicas, shares)
        pool = replica.decide(list(replica.heard.values()), at)
        pools[pool].requested += memory
        waiting.append(pool)

    def schedule(at: float) -> None:
        if waiting:
            pools[waiting.popleft()].place(memory)
        if waiting or at < pace.pods / pace.per_second:
            plan(at + 1 / pace.placed_per_second, schedule)

    def tell(at: float) -> None:
        for crowd in crowds:
            if at - crowd.told_at >= _STATUS_SECONDS:
                crowd.told_at = at
                for replica in replicas:
                    hear(replica, crowd.name, crowd.build(at), at)
        if waiting or at < pace.pods / pace.per_second:
            plan(at + random.uniform(0.01, 0.2), tell)

    def hear(replica: Replica, name: str, told: Json, at: float) -> None:
        late = random.uniform(0, _SLOWEST_WATCH_SECONDS)
        plan(at + late, lambda _: replica.hear(name, told))

    for crowd in crowds:
        # They were told of at some time before, not all at once.
        crowd.told_at = random.uniform(-_STATUS_SECONDS, -1)
        for replica in replicas:
            replica.hear(crowd.name, crowd.build(crowd.told_at))
    for index in range(pace.pods):
        plan(index / pace.per_second, create)
    plan(0, schedule)
    plan(0, tell)
    while events:
        at, _, action = heapq.heappop(events)
        action(at)
    return sum(crowd.pending for crowd in crowds)


def _format(at: float) -> str:
    """Kubernetes' times have no fractions."""
    return (START + timedelta(seconds=floor(at))).isoformat().replace("+00:00", "Z")
