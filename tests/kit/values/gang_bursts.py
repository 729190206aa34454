"""Bursts of pods before webhooks that never confer, on pools whose figures come now and then."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from gpushare.api.k8s.namespace import Namespace
from gpushare.api.k8s.pod_request import parse_pod_request
from gpushare.api.k8s.pod_shape import parse_pod_shape
from gpushare.core.admission.decide import decide
from gpushare.core.admission.decision import AdmissionDecision
from gpushare.core.admission.gangs import Gangs, read_gang
from gpushare.core.admission.pool_view import PoolView
from gpushare.core.admission.reservations import Reservations
from gpushare.core.capacity.room import Room
from tests.kit.values.pool_views import CARD, a_view

GIB = 4
"""Units that a pod of a burst asks for: four of them fill a card."""
PER_CARD = CARD // GIB
_NAMESPACE = Namespace("default")


class Replica:
    """A webhook, and what it alone knows."""

    def __init__(self, replicas: int) -> None:
        self.reservations, self.gangs = Reservations(replicas), Gangs()

    def admit(self, pod: Mapping[str, Any], pools: tuple[PoolView, ...], at: float) -> Any:
        gang = self.gangs.recall(read_gang(parse_pod_shape(pod)), _NAMESPACE.name, at)
        reserved = self.reservations.count(pools, at)
        decision = decide(parse_pod_request(pod), _NAMESPACE, pools, reserved=reserved, gang=gang)
        assert decision.pool is not None
        self.reservations.reserve(decision.pool, decision.reserved, at)
        if gang is not None:
            self.gangs.note(gang, _NAMESPACE.name, decision.pool, at)
        return decision


@dataclass
class Pool:
    """A pool by the number of pods of a burst that it has room for, and those it got."""

    view: PoolView
    places: int
    got: int = 0


class Burst:
    """Pods that come one after the other, each to one of the webhooks."""

    def __init__(self, places: Mapping[str, int], replicas: int = 2, **more: Any) -> None:
        """`more` are further fields of each pool, by name."""
        self.pools = {
            name: Pool(a_view(name, **more.get(name, {})), number)
            for name, number in places.items()
        }
        self._total = CARD * (max(places.values()) + PER_CARD)
        self._replicas = replicas
        self.webhooks = [Replica(replicas) for _ in range(replicas)]
        self.at, self._told = 0.0, count(1)
        self._views: tuple[PoolView, ...] = ()
        self.tell()

    def tell(self) -> None:
        """The controller tells the figures of all pools: what they got has its cards by now."""
        self.at += 3.0
        told = f"{next(self._told):05}"
        self._views = tuple(
            replace(pool.view, room=self._measure(pool), observed_at=told)
            for pool in self.pools.values()
        )

    def _measure(self, pool: Pool) -> Room:
        left = max(pool.places - pool.got, 0)
        whole, rest = divmod(left, PER_CARD)
        blocks = ((CARD, whole), *(((rest * GIB, 1),) if rest else ()))
        used = pool.got * GIB
        pending = max(pool.got - pool.places, 0) * GIB
        return Room(
            tuple(block for block in blocks if block[1]),
            pending,
            requested=used,
            total=self._total,
            largest_card=CARD,
        )

    def restart(self, webhook: int) -> None:
        """The webhook starts again, and has forgotten everything."""
        self.webhooks[webhook] = Replica(self._replicas)
        self.webhooks[webhook].reservations.count(self._views, self.at)

    def create(self, pod: Mapping[str, Any], webhook: int) -> AdmissionDecision:
        """A pod comes to one of the webhooks."""
        decision: AdmissionDecision = self.webhooks[webhook].admit(pod, self._views, self.at)
        assert decision.pool is not None
        self.pools[decision.pool].got += 1
        return decision

    @property
    def got(self) -> Counter[str]:
        """Number of pods by pool, of those that got any."""
        return Counter({name: pool.got for name, pool in self.pools.items() if pool.got})

    @property
    def pending(self) -> int:
        """Pods that have no card in their pool."""
        return sum(max(pool.got - pool.places, 0) for pool in self.pools.values())
