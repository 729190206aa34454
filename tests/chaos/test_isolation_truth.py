"""What the operator claims of each container's isolation is what its node gave it."""

import pytest

from devcluster.editions import Edition
from tests.chaos.isolation_script import Event
from tests.chaos.isolation_stage import Stage
from tests.kit.bench import Bench

_WAVE = 50


@pytest.mark.parametrize(
    ("histories", "each_event", "most_unknown"),
    # Of few histories one that is odd makes up more.
    [
        pytest.param(6, 1, 0.1, marks=pytest.mark.timeout(300)),
        pytest.param(200, 100, 0.01, marks=pytest.mark.chaos),
    ],
)
def test_every_claim_of_isolation_is_true(
    bench: Bench, histories: int, each_event: int, most_unknown: float
) -> None:
    stage = Stage(bench)
    half = histories // 2
    waves: dict[Edition, range] = {
        "Professional": range(half),
        "Basic": range(half, histories),
    }
    for edition, seeds in waves.items():
        for first in range(0, half, _WAVE):
            stage.play(edition, seeds[first : first + _WAVE])

    print(f"{dict(stage.events)} comparisons={stage.tally.comparisons}")
    print(stage.describe())
    rare = {event: stage.events[event] for event in Event if stage.events[event] < each_event}
    assert not rare, f"too seldom: {rare}"
    assert stage.share_unknown < most_unknown, "\n".join(stage.unknown)
