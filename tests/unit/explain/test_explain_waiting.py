"""A pod that waits: no node is said to fit that the scheduler does not give, and another pool is
offered where one has room."""

import json
from typing import Any

import pytest

from gpushare import names
from gpushare.api.namespace import Namespace
from gpushare.api.pod import parse_pod
from gpushare.api.podshape import parse_pod_shape
from gpushare.core.admission import PoolView
from gpushare.core.explain.pods import PodExplanation, Surroundings, explain_found_pod
from gpushare.core.inspect.pools import find_waiting, plan_world
from gpushare.core.setup import Setup
from gpushare.names import Reason
from tests.kit.values.manifests import build_pod
from tests.kit.values.node_plans import a_settled
from tests.kit.values.objects import LATER, MEMORY, a_gpu_pod, a_plugin_pod, a_pool, a_world
from tests.kit.values.pool_views import a_room, a_view

UNREACHED = 'Post "http://10.0.0.9:32766/gpushare-scheduler/filter": dial tcp: connection refused'
REFUSED = "0/1 nodes are available: 1 Insufficient GPU Memory in one device."
FULL = "0/1 nodes are available: 1 Insufficient aliyun.com/gpu-mem."


def explain(
    scheduler: str, message: str, *, held: int = 0, other: PoolView | None = None
) -> PodExplanation:
    """Of a pod that waits for 4 GiB in pool `training`, whose only card has 15 of which `held` are
    given out."""
    raw: dict[str, Any] = build_pod("late", gib=4, selects={names.LABEL_POOL: "training"})
    decision = {"v": 1, "reason": "Routed", "pool": "training", "lost": {"Fuller": ["roomy"]}}
    condition = {"type": "PodScheduled", "status": "False", "reason": scheduler, "message": message}
    raw["metadata"] |= {
        "namespace": "default",
        "uid": "late",
        "annotations": {names.ANNOTATION_DECISION: json.dumps(decision)},
    }
    raw["status"] = {"phase": "Pending", "conditions": [condition]}
    found = parse_pod(raw, plugin_namespace="kube-system")
    assert found is not None
    holder = a_gpu_pod("holder", requests={MEMORY: held}, cards={0: held})
    pools = [a_pool("training", schedule="share")]
    if other is not None:
        pools.append(a_pool("roomy", nodes={"names": ["other"]}, schedule="share"))
    nodes = (a_settled(allocatable={MEMORY: 15}, gpu_count=1),)
    pods = (a_plugin_pod(), holder) if held else (a_plugin_pod(),)
    world = a_world(pools=tuple(pools), nodes=nodes, pods=pods)
    books = plan_world(world, Setup(), LATER).books
    blocks = [(15 - held, 1)] if held < 15 else []
    views = [a_view("training", "share", room=a_room(blocks, cards=1))]
    around = Surroundings(
        world=world,
        books=books,
        pools=(*views, *([other] if other is not None else [])),
        namespaces={"default": Namespace("default")},
        taints={},
        setup=Setup(),
    )
    (waiting,) = find_waiting(world, books, [found], (), LATER)
    return explain_found_pod(
        parse_pod_shape(raw), found, waiting.why, around, namespace="default", name="late"
    )


@pytest.mark.parametrize(
    ("scheduler", "message", "reason", "does"),
    [
        ("SchedulerError", UNREACHED, Reason.SCHEDULER_UNAVAILABLE, "answer again"),
        ("Unschedulable", REFUSED, Reason.EXTENDER_STALE, "rollout restart"),
    ],
)
def test_no_node_is_said_to_fit_while_the_scheduler_gives_none(
    scheduler: str, message: str, reason: Reason, does: str
) -> None:
    explained = explain(scheduler, message)
    assert explained.waits is not None
    assert explained.waits.reason == reason
    assert [[each.reason for each in fit.obstacles] for fit in explained.fits] == [[reason]]
    assert does in str(explained.smallest_change)


def test_a_pod_that_another_pool_has_room_for_is_told_how_it_gets_there() -> None:
    roomy = a_view("roomy", "share", room=a_room([(15, 1)], cards=1))
    change = str(explain("Unschedulable", FULL, held=15, other=roomy).smallest_change)
    assert "wait until pods free 4 GiB" in change
    assert "pool roomy" in change
    assert "kubectl -n default delete pod late" in change


@pytest.mark.parametrize("free", [[], [(3, 1)]])
def test_a_pod_that_no_pool_has_room_for_is_offered_none(free: list[tuple[int, int]]) -> None:
    other = a_view("roomy", "share", room=a_room(free, cards=1), priority=1000)
    change = str(explain("Unschedulable", FULL, held=15, other=other).smallest_change)
    assert "delete pod" not in change
