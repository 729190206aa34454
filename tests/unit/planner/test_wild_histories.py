"""Random histories of clusters that are not tidy: what is promised whatever nodes and writers do.

A history is its seed, for as long as what draws from it stays the same.
"""

import os
import random
from datetime import datetime

import pytest

from gpushare.api.pool import Edition
from tests.kit.histories.wild.disturbances import NODES, WILD_EVENTS, WildDisturbances
from tests.unit.planner.test_planner_histories import EVENTS, PHASES, Histories

HISTORIES = int(os.environ.get("GPUSHARE_HISTORIES", "0"))
"""By `make fuzz`: so many new ones; else the same forty every time."""
FIXED = tuple(range(40))
BATCHES = 8
EDITIONS = (*[Edition.PROFESSIONAL] * 2, Edition.BASIC, Edition.NVIDIA)
STEPS = 10
TIDY_EVENTS = sorted(set(EVENTS) - {"pool retried"})


class WildHistories(WildDisturbances, Histories):
    """The same, with the operator in it."""

    work = Histories.work

    def live(self, steps: int) -> None:
        """Something happens, mostly to nodes in the midst of a change, and the operator goes on."""
        chance = self.chance
        for _ in range(steps):
            node = self._work_until(chance.choice(PHASES), chance.sample(NODES, len(NODES)))
            if chance.random() < 0.6:
                name = chance.choice(sorted(WILD_EVENTS))
                WILD_EVENTS[name](self, node)
            else:
                EVENTS[chance.choice(TIDY_EVENTS)](self, node)
            self.work(2, chance.choice((1, 5, 12, 130)), is_slow=chance.random() < 0.3)

    def _decide(self, *, is_told: bool = True) -> datetime | None:
        self.checker.note_assertions(self.cluster)
        return super()._decide(is_told=is_told)


def play(seed: object) -> None:
    """One history, from its seed to where nothing is left to do."""
    history = WildHistories()
    history.begin_wild(seed, EDITIONS)
    history.live(STEPS)
    history.teardown()


@pytest.mark.timeout(400 + 2 * HISTORIES)
@pytest.mark.parametrize("batch", range(BATCHES))
def test_on_untidy_clusters_every_promise_holds_and_all_comes_to_rest(batch: int) -> None:
    run = random.randrange(2**32)
    new = [f"{run}-{number}" for number in range(HISTORIES // BATCHES)]
    for seed in new or FIXED[batch::BATCHES]:
        print(f"seed={seed}")
        play(seed)
