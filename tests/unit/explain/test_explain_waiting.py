"""Of a pod that waits no node is said to fit that the scheduler does not give."""

import json

import pytest

from gpushare import names
from gpushare.api.namespace import Namespace
from gpushare.api.pod import parse_pod
from gpushare.api.podshape import parse_pod_shape
from gpushare.core.explain.pods import PodExplanation, Surroundings, explain_found_pod
from gpushare.core.inspect.pools import find_waiting, plan_world
from gpushare.core.setup import Setup
from gpushare.names import Reason
from tests.kit.values.manifests import build_pod
from tests.kit.values.node_plans import a_settled
from tests.kit.values.objects import LATER, MEMORY, a_plugin_pod, a_pool, a_world
from tests.kit.values.pool_views import a_room, a_view

UNREACHED = 'Post "http://10.0.0.9:32766/gpushare-scheduler/filter": dial tcp: connection refused'
REFUSED = "0/1 nodes are available: 1 Insufficient GPU Memory in one device."


def explain(scheduler: str, message: str) -> PodExplanation:
    """Of a pod that waits for 4 GiB in pool `training`, whose only card has 15 free."""
    decision = json.dumps({"v": 1, "reason": "Routed", "pool": "training"})
    raw = build_pod("late", gib=4, selects={names.LABEL_POOL: "training"},
                    annotations={names.ANNOTATION_DECISION: decision})  # fmt: skip
    raw["metadata"] |= {"namespace": "default", "uid": "late"}
    condition = {"type": "PodScheduled", "status": "False", "reason": scheduler, "message": message}
    raw["status"] = {"phase": "Pending", "conditions": [condition]}
    found = parse_pod(raw, plugin_namespace="kube-system")
    assert found is not None
    world = a_world(
        pools=(a_pool("training", schedule="share"),),
        nodes=(a_settled(allocatable={MEMORY: 15}, gpu_count=1),),
        pods=(a_plugin_pod(),),
    )
    books = plan_world(world, Setup(), LATER).books
    around = Surroundings(
        world=world,
        books=books,
        pools=(a_view("training", "share", room=a_room([(15, 1)], cards=1)),),
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
