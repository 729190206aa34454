"""What a replica gave away and the pools' figures do not show yet."""

from dataclasses import replace

import pytest

from gpushare.core.admission.pool_view import PoolView
from gpushare.core.admission.reservations import ARRIVAL_SECONDS, PATIENCE_SECONDS, Reservations
from gpushare.core.capacity.room import Room
from tests.kit.values.manifests import COUNT, build_pod
from tests.kit.values.pool_views import Json, a_view, admit

A, B = a_view("a", observed_at="1"), a_view("b", observed_at="1")
NEWER = replace(A, observed_at="2")
BEFORE = 100.0
AT = BEFORE + 5


def _booked(*units: int, replicas: int = 1) -> Reservations:
    reservations = Reservations(replicas)
    reservations.count([A, B], BEFORE)
    for amount in units:
        reservations.reserve("a", amount, AT)
    return reservations


def test_what_was_given_away_is_counted_by_pool_and_for_all_replicas() -> None:
    assert _booked(3, 4, replicas=2).count([A, B], AT) == {"a": 14}


def test_figures_that_come_later_show_it() -> None:
    assert _booked(3).count([NEWER, B], AT + ARRIVAL_SECONDS) == {}


def test_figures_that_come_at_once_cannot_show_it_yet() -> None:
    reservations = _booked(3)
    assert reservations.count([NEWER, B], AT + ARRIVAL_SECONDS / 2) == {"a": 3}
    assert reservations.count([NEWER, B], AT + ARRIVAL_SECONDS) == {"a": 3}


def test_new_figures_of_one_pool_say_nothing_of_another() -> None:
    changed = replace(B, observed_at="2")
    assert _booked(3).count([A, changed], AT + ARRIVAL_SECONDS) == {"a": 3}


def test_what_never_shows_is_forgotten_in_the_end() -> None:
    reservations = _booked(3)
    assert reservations.count([A], AT + PATIENCE_SECONDS - 1) == {"a": 3}
    assert reservations.count([A], AT + PATIENCE_SECONDS) == {}


def test_a_pool_that_is_gone_is_forgotten_with_all_that_it_had() -> None:
    reservations = _booked(3)
    assert reservations.count([B], AT) == {}
    assert reservations.count([A, B], AT) == {}


def test_a_pools_first_figures_settle_nothing_since_they_tell_of_older_pods_too() -> None:
    new = a_view("a", room=None)
    reservations = Reservations(replicas=1)
    reservations.count([new], AT)
    reservations.reserve("a", 3, AT)
    first = a_view("a", room=Room(((15, 8),), requested=500, total=600), observed_at="first")
    assert reservations.count([first], AT) == {"a": 3}


def test_growth_settles_what_it_shows_and_no_more_of_an_older_decision() -> None:
    newer = replace(NEWER, room=Room(requested=2))
    older = replace(A, room=Room())
    reservations = Reservations(replicas=1)
    reservations.count([older], BEFORE)
    reservations.reserve("a", 3, AT)
    assert reservations.count([newer], AT) == {"a": 1}


LIMITS = {"resources": {"limits": {"aliyun.com/gpu-mem": "10G"}}}


@pytest.mark.parametrize(
    ("pod", "pool", "reserved"),
    [
        (build_pod("p", gib=4), A, 4),
        (build_pod("p", gib=4, schedulingGates=[{"name": "team/quota"}]), A, 0),
        (build_pod("p", gib=10**10), A, 0),
        (build_pod("p", gib=10**10, labels={COUNT: "1000000000"}), A, 0),
        (build_pod("p", gib=4, initContainers=[{"name": "i", **LIMITS}]), A, 0),
        (
            build_pod("p", gib=4, initContainers=[{"name": "i", **LIMITS}]),
            a_view(schedule="share", edition="OpenSource"),
            4,
        ),
    ],
    ids=[
        "it may start",
        "gated",
        "10G",
        "10G over cards",
        "10G at start",
        "10G beside an extender",
    ],
)
def test_a_pod_reserves_what_it_is_about_to_take(pod: Json, pool: PoolView, reserved: int) -> None:
    decision = admit(pod, pool)
    assert (decision.pool, decision.reserved) == (pool.name, reserved)
