"""What becomes of evictions: on the pods, in the counter, and in what is said of the node."""

import pytest

from gpushare.core.snapshot.actions import EvictPods, NamedPod, NodeState
from gpushare.kube.errors import ApiError, EvictionRefusedError
from gpushare.names import Reason
from gpushare.observe.metrics.controller import ControllerMetrics
from tests.kit.values.manifests import Json
from tests.kit.values.node_plans import a_node_plan
from tests.kit.values.objects import a_node
from tests.unit.controller.reconcile_loop import LoopApi, build_reconciler, carry_out, start_work

PODS = tuple(NamedPod("ml", f"train-{index}", f"uid-{index}") for index in range(5))
BUDGET = (
    b'{"details": {"causes": [{"reason": "DisruptionBudget", "message": "budget one is used"}]}}'
)


class Api(LoopApi):
    """An API server that refuses the evictions of some pods by a budget, and knows not others."""

    def __init__(self, *, kept: tuple[NamedPod, ...] = (), gone: tuple[NamedPod, ...] = ()):
        super().__init__()
        self._answers = {pod.name: 429 for pod in kept} | {pod.name: 404 for pod in gone}
        self.asked: list[str] = []
        self.told: list[tuple[str, str]] = []

    def allow_all(self) -> None:
        self._answers.clear()

    async def create(self, path: str, body: Json) -> Json:
        if body["kind"] == "Event":
            self.told.append((body["reason"], body["regarding"]["name"]))
            return {}
        name = body["metadata"]["name"]
        self.asked.append(name)
        if code := self._answers.get(name):
            raise ApiError(code, BUDGET if code == 429 else b"{}", what=path)
        return {}


async def evict(api: Api, metrics: ControllerMetrics, *, wanted: bool = True) -> None:
    action, reason = EvictPods("gpu-1", PODS), Reason.WORKLOADS_PRESENT
    await carry_out(api, action, reason=reason, metrics=metrics, wanted=wanted)


def count(metrics: ControllerMetrics, outcome: str) -> float | None:
    labels = {"pool": "training", "outcome": outcome}
    return metrics.registry.get_sample_value("gpushare_evictions_total", labels)


async def test_each_pod_is_evicted_told_and_counted_and_one_that_was_gone_is_not_told() -> None:
    api, metrics = Api(gone=PODS[:2]), ControllerMetrics()
    await evict(api, metrics)
    assert api.asked == [pod.name for pod in PODS]
    assert sorted(api.told) == [("PodEvicted", pod.name) for pod in PODS[2:]]
    assert (count(metrics, "gone"), count(metrics, "evicted")) == (2, 3)


async def test_a_pod_that_must_stay_keeps_no_other_from_being_evicted() -> None:
    api, metrics = Api(kept=PODS[:1]), ControllerMetrics()
    with pytest.raises(EvictionRefusedError, match=r"pod ml/train-0 was refused: budget one"):
        await evict(api, metrics)
    assert (count(metrics, "refused"), count(metrics, "evicted")) == (1, 4)
    assert ("EvictionRefused", "train-0") in api.told


async def test_no_pod_is_evicted_once_the_pool_wants_something_else() -> None:
    api = Api()
    await evict(api, ControllerMetrics(), wanted=False)
    assert api.asked == []


async def test_of_many_that_must_stay_a_few_are_named() -> None:
    with pytest.raises(EvictionRefusedError, match=r"train-2.*; and 2 more$") as raised:
        await evict(Api(kept=PODS), ControllerMetrics())
    assert "train-3" not in str(raised.value)


async def test_a_refusal_is_said_of_the_node_until_the_eviction_succeeds() -> None:
    api = Api(kept=PODS[:1])
    reconciler = build_reconciler(api, [], a_node())
    action = EvictPods("gpu-1", PODS)
    plan = a_node_plan("gpu-1", NodeState.BLOCKED, Reason.WORKLOADS_PRESENT, "evicting", action)

    await start_work(reconciler, plan)
    refusal = reconciler._refusals["gpu-1"]
    assert refusal.reason is Reason.EVICTION_REFUSED
    assert "budget one is used" in refusal.message

    api.allow_all()
    await start_work(reconciler, plan)
    assert reconciler._refusals == {}
    await reconciler._events.close()
