"""A burst over two pools with room for half of it each, before webhooks that never confer."""

from collections.abc import Sequence

import pytest

from gpushare.api.namespace import Namespace
from gpushare.api.podrequest import parse_pod_request
from gpushare.core.admission import PoolView, decide, view_pool
from gpushare.core.admission.bookings import Bookings
from tests.kit.values.manifests import build_pod
from tests.unit.admission.pod_burst import Crowd, Pace, Replica, play_burst

MOST_PENDING = 0.05
MOST_PENDING_OF_TWICE_AS_MANY = 0.1
_POD_GIB, _CARD_GIB, _CARDS = 3, 15, 100
_POD = parse_pod_request(build_pod("burst", gib=_POD_GIB))
_NAMESPACE = Namespace("default")


def _build_replica(replicas: int, share: int = 1) -> Replica:
    """A webhook that decides as the real one does, by the pools that it heard of."""
    bookings = Bookings(replicas)

    def decide_pool(pools: Sequence[PoolView], at: float) -> str:
        decision = decide(_POD, _NAMESPACE, pools, booked=bookings.count(pools, at))
        assert decision.pool is not None
        bookings.book(decision.pool, decision.booked, at)
        return decision.pool

    return Replica(view_pool, decide_pool, share=share)


def _play(pace: Pace, shares: Sequence[int], seed: int, *, told: int | None = None) -> float:
    """The share of the pods that are Pending in the end; `told` is what the webhooks take for
    their number."""
    crowds = [Crowd(name, [_CARD_GIB] * _CARDS, _CARD_GIB) for name in ("left", "right")]
    webhooks = [_build_replica(told or len(shares), share) for share in shares]
    return play_burst(seed, crowds, webhooks, pace, _POD_GIB) / pace.pods


@pytest.mark.parametrize("replicas", [1, 2, 3, 5])
@pytest.mark.parametrize("per_second", [2000, 300, 100, 60])
@pytest.mark.parametrize("seed", range(4))
def test_a_burst_leaves_few_pods_pending_at_any_pace(
    per_second: float, replicas: int, seed: int
) -> None:
    assert _play(Pace(per_second=per_second), [1] * replicas, seed) <= MOST_PENDING


@pytest.mark.parametrize("shares", [(3, 2), (1, 0), (3, 2, 2)])
@pytest.mark.parametrize("per_second", [2000, 300, 100, 60])
def test_a_burst_leaves_few_pods_pending_where_webhooks_get_unequal_shares(
    per_second: float, shares: Sequence[int]
) -> None:
    assert _play(Pace(per_second=per_second), shares, seed=0) <= MOST_PENDING


@pytest.mark.parametrize(("told", "there"), [(10, 1), (10, 2), (10, 4)])
@pytest.mark.parametrize("per_second", [2000, 300, 100, 60])
@pytest.mark.parametrize("seed", range(4))
def test_a_number_that_is_too_large_leaves_no_more_pending(
    per_second: float, told: int, there: int, seed: int
) -> None:
    """So with an autoscaler it is the most that may run, as docs/autoscaling.md has it."""
    assert _play(Pace(per_second=per_second), [1] * there, seed, told=told) <= MOST_PENDING


@pytest.mark.parametrize(("told", "there"), [(2, 4), (5, 10)])
@pytest.mark.parametrize("per_second", [2000, 300, 100, 60])
@pytest.mark.parametrize("seed", range(4))
def test_a_number_that_is_half_of_those_there_leaves_no_more_than_is_documented(
    per_second: float, told: int, there: int, seed: int
) -> None:
    pending = _play(Pace(per_second=per_second), [1] * there, seed, told=told)
    assert pending <= MOST_PENDING_OF_TWICE_AS_MANY
