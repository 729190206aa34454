"""The controller is killed twice in one rollout, at moments that nobody chose."""

import time

import pytest

from tests.chaos.rollout import standing_rollout
from tests.kit.bench import Bench

PAIRS = 10
STARTUP_SECONDS = 1.5
"""A second crash may well hit a process that has not started yet."""


@pytest.mark.chaos
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_a_rollout_survives_two_crashes_at_random_moments(bench: Bench, seed: int) -> None:
    process = bench.operators.start("controller", identity="mortal")
    in_mid_rollout = 0
    with standing_rollout(bench, seed=seed) as rollout:
        began_at = time.monotonic()
        rollout.begin_and_wait()
        rollout.expect_over()
        undisturbed_seconds = time.monotonic() - began_at

        for _ in range(PAIRS):
            rollout.begin()
            for startup_seconds in (0.0, STARTUP_SECONDS):
                rollout.let_pass(startup_seconds + undisturbed_seconds / 2)
                in_mid_rollout += not rollout.is_over()
                process.kill()
                process = bench.operators.restart(process)
            rollout.expect_over()
    print(f"seed {seed}: {in_mid_rollout} of {2 * PAIRS} crashes hit an unfinished rollout")
    assert in_mid_rollout >= PAIRS, "most crashes came too late to disturb anything"
