"""A burst over two pools with room for half of it each, before webhooks that never confer."""

from collections.abc import Sequence

import pytest

from tests.unit.admission.pod_burst import PODS, play_burst

MOST_PENDING = 0.05
MOST_PENDING_OF_TWICE_AS_MANY = 0.1


@pytest.mark.parametrize(
    ("shares", "told", "most"),
    [
        ([1], 1, MOST_PENDING),
        ([1] * 2, 2, MOST_PENDING),
        ([1] * 3, 3, MOST_PENDING),
        ([1] * 5, 5, MOST_PENDING),
        ([3, 2], 2, MOST_PENDING),
        ([1, 0], 2, MOST_PENDING),
        ([3, 2, 2], 3, MOST_PENDING),
        # With an autoscaler it is the most that may run, as docs/autoscaling.md has it.
        ([1], 10, MOST_PENDING),
        ([1] * 2, 10, MOST_PENDING),
        ([1] * 4, 10, MOST_PENDING),
        ([1] * 4, 2, MOST_PENDING_OF_TWICE_AS_MANY),
        ([1] * 10, 5, MOST_PENDING_OF_TWICE_AS_MANY),
    ],
)
@pytest.mark.parametrize("per_second", [2000, 300, 100, 60])
@pytest.mark.parametrize("seed", range(4))
def test_a_burst_leaves_few_pods_pending_at_any_pace_and_number_of_webhooks(
    per_second: float, shares: Sequence[int], told: int, most: float, seed: int
) -> None:
    assert play_burst(seed, per_second, shares, told) / PODS <= most
