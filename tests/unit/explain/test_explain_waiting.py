"""A pod that waits: no node is said to fit that the scheduler does not give, and another pool is
offered where one has room."""

import json

import pytest

from gpushare import names
from gpushare.analysis.effective_settings import read_setup
from gpushare.analysis.explain.pods import PodExplanation, Surroundings, explain_found_pod
from gpushare.analysis.inspect.pools import find_waiting, plan_snapshot
from gpushare.analysis.observed_cluster import ObservedCluster
from gpushare.api.k8s.namespace import Namespace
from gpushare.api.k8s.pod import parse_pod
from gpushare.api.k8s.pod_shape import parse_pod_shape
from gpushare.names import Reason
from gpushare.settings import Settings
from tests.kit.values.manifests import build_pod
from tests.kit.values.node_plans import OURS, applied
from tests.kit.values.objects import (
    LATER,
    MEMORY,
    a_gpu_pod,
    a_node,
    a_plugin_pod,
    a_pool,
    a_snapshot,
)
from tests.kit.values.pool_views import a_room, a_view

UNREACHED = 'Post "http://10.0.0.9:32766/gpushare-scheduler/filter": dial tcp: connection refused'
REFUSED = "0/1 nodes are available: 1 Insufficient GPU Memory in one device."
FULL = "0/1 nodes are available: 1 Insufficient aliyun.com/gpu-mem."


def explain(
    scheduler: str, message: str, *, free: int = 15, elsewhere: int | None = None
) -> PodExplanation:
    """Of a pod that waits for 4 GiB in pool `training`, whose only card has 15 of which so much is
    free, as much as in pool `roomy`, if there is that."""
    decision = json.dumps({"v": 1, "reason": "Routed", "pool": "training"})
    raw = build_pod("late", gib=4, selects={names.LABEL_POOL: "training"},
                    annotations={names.ANNOTATION_DECISION: decision})  # fmt: skip
    raw["metadata"] |= {"namespace": "default", "uid": "late"}
    condition = {"type": "PodScheduled", "status": "False", "reason": scheduler, "message": message}
    raw["status"] = {"phase": "Pending", "conditions": [condition]}
    found = parse_pod(raw, plugin_namespaces=("kube-system",))
    assert found is not None
    others = {} if elsewhere is None else {"roomy": elsewhere}
    holder = a_gpu_pod("holder", requests={MEMORY: 15 - free}, cards={0: 15 - free})
    snapshot = a_snapshot(
        pools=tuple(a_pool(name, "share", edition="OpenSource") for name in ("training", *others)),
        nodes=(
            a_node(
                labels={names.LABEL_GPUSHARE: "true", **OURS},
                records=applied("share", edition="OpenSource"),
                allocatable={MEMORY: 15},
                gpu_count=1,
            ),
        ),
        pods=(a_plugin_pod(), holder),
    )
    plans_by_pool = plan_snapshot(snapshot, Settings(), LATER).plans_by_pool
    around = Surroundings(
        snapshot=snapshot,
        plans_by_pool=plans_by_pool,
        pools=tuple(
            a_view(name, "share", room=a_room([(units, 1)] if units else [], cards=1))
            for name, units in {"training": free, **others}.items()
        ),
        namespaces={"default": Namespace("default")},
        setup=Settings(),
    )
    seen = ObservedCluster(snapshot, (found,), frozenset(), (), read_setup(None, snapshot))
    (waiting,) = find_waiting(seen, plans_by_pool, LATER)
    return explain_found_pod(
        parse_pod_shape(raw), found, waiting, around, namespace="default", name="late"
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
    assert [[each.reason for each in fit.rejections] for fit in explained.fits] == [[reason]]
    assert does in str(explained.smallest_change)


@pytest.mark.parametrize(("elsewhere", "offered"), [(15, True), (3, False), (0, False)])
def test_a_pod_is_told_how_it_gets_to_another_pool_that_has_room(
    elsewhere: int, offered: bool
) -> None:
    change = str(explain("Unschedulable", FULL, free=0, elsewhere=elsewhere).smallest_change)
    assert "wait until pods free 4 GiB" in change
    assert ("kubectl -n default delete pod late" in change) is offered
