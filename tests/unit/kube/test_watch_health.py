"""When a watch counts as deaf: it is open, and nothing comes."""

import pytest

from gpushare.kube.watch_health import WatchHealth
from tests.kit.values.clock import Clock

LIMIT_SECONDS = 90.0


@pytest.fixture
def watch_health(clock: Clock) -> WatchHealth:
    return WatchHealth("nodes", clock)


def is_stalled(watch_health: WatchHealth) -> bool:
    return watch_health.find_stalled(LIMIT_SECONDS) is not None


def test_before_the_first_sign_there_is_nothing_to_miss(
    clock: Clock, watch_health: WatchHealth
) -> None:
    clock.now += 3600
    assert not is_stalled(watch_health)


def test_a_watch_is_deaf_from_the_limit_to_the_next_sign(
    clock: Clock, watch_health: WatchHealth
) -> None:
    watch_health.note()
    clock.now += LIMIT_SECONDS
    assert not is_stalled(watch_health)
    clock.now += 31
    assert "nodes" in (watch_health.find_stalled(LIMIT_SECONDS) or "")
    watch_health.note()
    assert not is_stalled(watch_health)
