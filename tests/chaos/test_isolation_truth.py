"""What the operator claims of each container's isolation is what its node gave it."""

import pytest

from devcluster.editions import Edition
from tests.chaos.isolation_script import Event
from tests.chaos.isolation_stage import Stage
from tests.kit.bench import Bench

_HISTORIES: dict[Edition, range] = {"Professional": range(100), "Basic": range(100, 200)}
_WAVE = 50
_EACH_EVENT = 100
_MOST_UNKNOWN = 0.01


@pytest.mark.chaos
def test_every_claim_of_isolation_is_true(bench: Bench) -> None:
    stage = Stage(bench)
    for edition, seeds in _HISTORIES.items():
        for first in range(0, len(seeds), _WAVE):
            stage.play(edition, seeds[first : first + _WAVE])

    print(f"{dict(stage.events)} comparisons={stage.tally.comparisons}")
    print(stage.describe())
    rare = {event: stage.events[event] for event in Event if stage.events[event] < _EACH_EVENT}
    assert not rare, f"too seldom: {rare}"
    assert stage.share_unknown < _MOST_UNKNOWN, "\n".join(stage.unknown)
