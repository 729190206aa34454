"""The controller is killed twice in one rollout, at moments that nobody chose."""

import time

import pytest

from tests.chaos.rollout import standing_rollout
from tests.kit.bench import Bench

STARTUP_SECONDS = 1.5
"""A second crash may well hit a process that has not started yet."""


@pytest.mark.parametrize(
    ("seed", "pairs"),
    [(0, 1), *(pytest.param(seed, 10, marks=pytest.mark.chaos) for seed in (1, 2, 3, 4))],
)
def test_a_rollout_survives_two_crashes_at_random_moments(
    bench: Bench, seed: int, pairs: int
) -> None:
    process = bench.operators.start("controller", identity="mortal")
    in_mid_rollout = 0
    with standing_rollout(bench, seed=seed) as rollout:
        began_at = time.monotonic()
        rollout.begin_and_wait()
        rollout.expect_over()
        undisturbed_seconds = time.monotonic() - began_at

        for _ in range(pairs):
            rollout.begin()
            for startup_seconds in (0.0, STARTUP_SECONDS):
                rollout.let_pass(startup_seconds + undisturbed_seconds / 2)
                in_mid_rollout += not rollout.is_over()
                process.kill()
                process = bench.operators.restart(process)
            rollout.expect_over()
    print(f"seed {seed}: {in_mid_rollout} of {2 * pairs} crashes hit an unfinished rollout")
    assert in_mid_rollout >= pairs, "most crashes came too late to disturb anything"
