"""What every disturbance is measured by: rollouts over several nodes, under the watcher."""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.chaos.watching import Watching
from tests.integration.outages.fault_scenario import is_settled
from tests.kit.bench import Bench
from tests.kit.cluster.expect import expect, expect_pool_ready, read_change
from tests.kit.cluster.sharing_pools import given_sharing_pool

MEMBERS = ("n1", "n2", "n3", "n4")
BUDGET = 2
CONVERGES_SECONDS = 30.0
"""Promised after any single fault has cleared."""


@dataclass
class Rollout:
    """A pool on Basic, where an isolation change may go in either direction, again and again."""

    bench: Bench
    chance: random.Random
    mode: str = "share"

    def begin(self) -> None:
        """Ask for the other mode."""
        self.mode = "cgpu" if self.mode == "share" else "share"
        self.bench.change_again(*MEMBERS, schedule=self.mode)

    def begin_and_wait(self) -> None:
        """Ask for the other mode; returns in mid-rollout."""
        self.begin()
        expect(self.bench, "a change is under way", self.changing)

    def changing(self) -> list[str]:
        nodes = (self.bench.node(name) for name in MEMBERS)
        return [node["metadata"]["name"] for node in nodes if read_change(node)]

    def is_over(self) -> bool:
        """Whether every member has the mode, is recorded so, and is in service."""
        return all(is_settled(self.bench.node(name), self.mode) for name in MEMBERS)

    def expect_over(self, *, within: float = CONVERGES_SECONDS) -> None:
        expect(self.bench, f"all members are in {self.mode}", self.is_over, within_seconds=within)
        expect_pool_ready(self.bench, nodes=len(MEMBERS), within=within)

    def let_pass(self, longest_seconds: float) -> None:
        """Wait for a random moment: what happens then may hit anything."""
        time.sleep(self.chance.uniform(0, longest_seconds))


@contextmanager
def standing_rollout(bench: Bench, *, seed: int = 0) -> Iterator[Rollout]:
    """The pool, Ready in share on all MEMBERS, by whichever operator runs; watched until the end.

    At the end the watcher must have nothing to say. A failure names the seed of everything random.
    """
    given_sharing_pool(bench, "Basic", *MEMBERS, rollout={"maxUnavailable": BUDGET})
    try:
        with Watching(bench, budget=BUDGET):
            yield Rollout(bench, random.Random(seed))
    except BaseException as error:
        error.add_note(f"everything random came from seed {seed}")
        raise
