"""Events on pods without a place: told, not repeated, and there for whoever looks hours later."""

from datetime import timedelta
from typing import Any

import pytest

from gpushare.api.k8s.pod import Pod
from gpushare.controller.unschedulable_pods import PERIOD_SECONDS, STALE_SECONDS, UnschedulablePods
from gpushare.core.capacity.node_capacity import NodeCapacity
from gpushare.core.planner.planner import Planner
from gpushare.core.planner.pool_plans import Member, PoolPlans
from gpushare.core.snapshot.actions import NodeState
from gpushare.core.snapshot.node import Timing
from gpushare.core.status.event_correlation import ONCE_SECONDS
from gpushare.names import LABEL_POOL, Reason
from tests.kit.values.node_plans import a_node_plan
from tests.kit.values.objects import NOW, a_gpu_pod


class Posts:
    """Takes Events as they are posted."""

    def __init__(self) -> None:
        self.posted: list[str] = []

    def post(self, subject: Any, reason: str, note: str, *, warns: bool, once: bool) -> None:
        assert warns
        assert once
        self.posted.append(f"{subject.name}: {reason}")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr("gpushare.controller.unschedulable_pods.time.monotonic", lambda: now[0])
    return now


def a_lost_pod(name: str = "lost", **more: Any) -> Pod:
    values = {
        "node": "",
        "phase": "Pending",
        "selects": frozenset({(LABEL_POOL, "nowhere")}),
        "unschedulable": "0/3 nodes are available",
        "created": NOW - timedelta(minutes=1),
        **more,
    }
    return a_gpu_pod(name, **values)


def look(found: UnschedulablePods, *pods: Pod) -> None:
    found.report({f"{pod.namespace}/{pod.name}": pod for pod in pods}, (), (), NOW)


def test_a_pod_that_waits_for_hours_is_told_of_again_and_not_at_every_look(
    clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    posts: Any = Posts()
    found = UnschedulablePods(posts, Planner(Timing()), {})
    for _ in range(10):
        look(found, a_lost_pod())
        clock[0] += 30
    assert posts.posted == ["lost: PoolNotFound"]
    # The API server refuses a second one for as long as it has the first.
    clock[0] += ONCE_SECONDS
    look(found, a_lost_pod())
    assert posts.posted == ["lost: PoolNotFound"] * 2
    # Nothing has changed.
    assert len(caplog.records) == 1


class Refused:
    """A pod that the extender refuses, on a node with so much memory free on its card."""

    def __init__(self, clock: list[float], free: int) -> None:
        self.posts, self._clock, self._planner = Posts(), clock, Planner(Timing())
        self.set_free(free)
        posts: Any = self.posts
        self.found = UnschedulablePods(posts, self._planner, {})
        self._waits = a_lost_pod(
            selects=frozenset({(LABEL_POOL, "training")}),
            unschedulable="0/1 nodes are available: 1 Insufficient GPU Memory in one device.",
        )

    def set_free(self, units: int) -> None:
        capacity = NodeCapacity(
            gpus=1, total=40, free_blocks=(units,), card_total=40, is_extended=True
        )
        plan = a_node_plan("n1", NodeState.READY, Reason.APPLIED, "as its pool specifies")
        pool_plans = PoolPlans()
        pool_plans.put("n1", Member(plan, capacity=capacity))
        self._planner.plans_by_pool["training"] = pool_plans

    def look_after(self, seconds: float) -> list[str]:
        """The reasons that are found."""
        self._clock[0] += seconds
        self.found.report({"default/lost": self._waits}, ["training"], (), NOW)
        return [pod.reason for pod in self.found.found]


def test_an_extender_is_called_stale_only_if_it_goes_on_refusing_room(clock: list[float]) -> None:
    refused = Refused(clock, free=10)
    assert refused.look_after(0) == []
    assert refused.look_after(STALE_SECONDS - 1) == []
    assert refused.posts.posted == []
    assert refused.look_after(PERIOD_SECONDS) == ["ExtenderStale"]
    assert refused.posts.posted == ["lost: ExtenderStale"]


def test_a_pod_that_waited_before_is_counted_until_the_extender_is_stale(
    clock: list[float],
) -> None:
    refused = Refused(clock, free=1)
    assert refused.look_after(0) == ["NoFreeBlock"]
    refused.set_free(10)
    assert refused.look_after(PERIOD_SECONDS) == ["NoFreeBlock"]
    assert refused.look_after(STALE_SECONDS - 1) == ["NoFreeBlock"]
    assert refused.posts.posted == ["lost: NoFreeBlock"]
    assert refused.look_after(PERIOD_SECONDS) == ["ExtenderStale"]
