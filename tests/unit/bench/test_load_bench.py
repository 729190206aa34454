"""What the load bench counts, and what it fails for."""

from typing import Any

import pytest

from tests.bench.load import Figures, Trial
from tests.bench.stream import LOST, Failure, judge_pods
from tests.kit.builders import build_pod

Json = dict[str, Any]


def a_failure(reason: str = LOST) -> Failure:
    return Failure("stream-00007", "n1", "2026-01-02T03:04:05Z", reason, "no healthy devices")


def a_trial(*failures: Failure, per_second: float = 20.0) -> Trial:
    return Trial(6, flip_seconds=100.0, pods=2000, per_second=per_second, failures=failures)


def figures(by_operator: Trial, by_hand: Trial) -> Figures:
    return Figures(20.0, by_operator=[by_operator], by_hand=[by_hand])


def a_seen_pod(phase: str, **status: str) -> Json:
    pod = build_pod("stream-00007", nodeName="n1")
    return pod | {"status": {"phase": phase, **status}}


def test_a_pod_that_runs_and_one_that_failed_are_told_apart() -> None:
    running = a_seen_pod("Running")
    running["metadata"]["name"] = "stream-00001"
    failed = a_seen_pod("Failed", reason=LOST, message="gone", startTime="2026-01-02T03:04:05Z")

    sweep = judge_pods([running, failed, a_seen_pod("Pending")])

    assert sweep.running == {"stream-00001"}
    assert sweep.failures == (Failure("stream-00007", "n1", "2026-01-02T03:04:05Z", LOST, "gone"),)


def test_a_pod_whose_container_cannot_start_has_failed_too() -> None:
    waiting = {"reason": "RunContainerError", "message": "unknown device id"}
    pod = a_seen_pod("Pending")
    pod["status"]["containerStatuses"] = [{"name": "main", "state": {"waiting": waiting}}]

    (failure,) = judge_pods([pod]).failures

    assert (failure.reason, failure.message) == ("RunContainerError", "unknown device id")


@pytest.mark.parametrize("phase", ["Running", "Failed"])
def test_a_pod_that_is_being_removed_is_not_counted_again(phase: str) -> None:
    pod = a_seen_pod(phase)
    pod["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:06Z"

    sweep = judge_pods([pod])

    assert not sweep.running
    assert not sweep.failures


def test_the_summary_adds_up_the_rounds_of_each_way() -> None:
    lossy = a_trial(a_failure(), a_failure())

    two_rounds = Figures(20.0, by_operator=[a_trial(), a_trial()], by_hand=[lossy, lossy])

    assert two_rounds.summary() == (
        "bench-load pods_by_operator=4000 lost_by_operator=0 pods_by_hand=4000 lost_by_hand=4"
    )
    assert list(two_rounds.misses()) == []


def test_a_pod_that_the_operator_lost_is_a_miss() -> None:
    (miss,) = figures(a_trial(a_failure()), a_trial(a_failure())).misses()

    assert miss == "1 pods were lost while the operator flipped; none may be"


def test_a_load_that_loses_nothing_by_hand_shows_nothing() -> None:
    (miss,) = figures(a_trial(), a_trial()).misses()

    assert "shows nothing" in miss


def test_a_pod_that_failed_for_another_reason_is_a_miss_and_not_a_loss() -> None:
    ran = figures(a_trial(a_failure("NodeAffinity")), a_trial(a_failure()))

    (miss,) = ran.misses()

    assert "1 pods failed for another reason" in miss
    assert "lost_by_operator=0" in ran.summary()


def test_a_stream_that_falls_behind_is_a_miss() -> None:
    (miss,) = figures(a_trial(per_second=17.0), a_trial(a_failure())).misses()

    assert "only 17.0 pods a second" in miss
