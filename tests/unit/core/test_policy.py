"""How a pool wants its nodes changed, and what counts as another attempt."""

from datetime import timedelta

import pytest

from gpushare.core.observed import Timing
from gpushare.core.policy import Policy, build_attempt, build_policy
from tests.kit.values.objects import a_node, a_pool

TIMING = Timing(ready_timeout=timedelta(seconds=90))


@pytest.mark.parametrize(("rollout", "seconds"), [({}, 90), ({"ready_timeout_seconds": 5}, 5)])
def test_the_pools_timeout_goes_before_the_installations(
    rollout: dict[str, int], seconds: float
) -> None:
    policy = build_policy(a_pool(rollout=rollout), a_node(), TIMING)
    assert policy.ready_timeout == timedelta(seconds=seconds)


def test_without_a_pool_nothing_is_forced_evicted_or_rolled_back() -> None:
    assert build_policy(None, a_node(), TIMING) == Policy(ready_timeout=timedelta(seconds=90))
    assert not Policy().rolls_back
    assert not Policy().claim.force


def test_the_attempt_is_the_specs_generation_and_what_retries_say() -> None:
    assert build_attempt(a_pool(), "") == "training/1"
    first, again = a_pool(retry="monday"), a_pool(retry="monday")
    assert build_attempt(first, "x") == build_attempt(again, "x")


def test_another_spec_another_retry_and_another_pool_are_other_attempts() -> None:
    attempts = [
        build_attempt(a_pool(), ""),
        build_attempt(a_pool(generation=2), ""),
        build_attempt(a_pool("other"), ""),
        build_attempt(a_pool(retry="a"), ""),
        build_attempt(a_pool(retry="b"), ""),
        build_attempt(a_pool(), "a"),
        build_attempt(a_pool(retry="a"), "a"),
        build_attempt(a_pool(retry="a", generation=2), "a"),
    ]
    assert len(set(attempts)) == len(attempts)


def test_a_retry_of_any_length_leaves_the_attempt_short() -> None:
    assert len(build_attempt(a_pool(retry="r" * 100_000), "深" * 1000)) < 32
