"""How a pool wants its nodes changed, and what counts as another attempt."""

from datetime import timedelta

import pytest

from gpushare.api.rollout import WorkloadPolicy
from gpushare.core.observed import Timing
from gpushare.core.policy import Policy, build_attempt, build_policy
from tests.kit.values.node_plans import NEVER
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


def test_the_failure_policy_says_whether_a_node_is_rolled_back() -> None:
    assert not build_policy(a_pool(), a_node(), TIMING).rolls_back
    pool = a_pool(rollout={"on_failure": "Rollback"})
    assert build_policy(pool, a_node(), TIMING).rolls_back


def test_restart_never_holds_for_restarts_of_every_kind() -> None:
    assert build_policy(a_pool(), a_node(), TIMING).may_restart
    assert not build_policy(NEVER, a_node(), TIMING).may_restart


@pytest.mark.parametrize(
    ("workloads", "stays"),
    [
        (WorkloadPolicy.WAIT, False),
        (WorkloadPolicy.CORDON_AND_WAIT, True),
        (WorkloadPolicy.EVICT, True),
    ],
)
def test_a_node_stays_cordoned_for_its_pods_unless_the_pool_waits_first(
    workloads: WorkloadPolicy, *, stays: bool
) -> None:
    assert Policy(workloads=workloads).stays_cordoned is stays


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


def test_a_nodes_retry_is_another_attempt_for_that_node_alone() -> None:
    pool = a_pool()
    mended = build_policy(pool, a_node(retry="now"), TIMING).attempt
    assert mended != build_policy(pool, a_node(), TIMING).attempt == "training/1"
