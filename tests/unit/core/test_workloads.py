"""Pods that hold a change up: waited for before the cordon, under it, or evicted."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpushare import names
from gpushare.api.node import Node
from gpushare.api.pod import Pod, parse_pod
from gpushare.api.pool import Edition, Pool, Schedule
from gpushare.core.actions import EvictedPod, EvictPods, LookAgain, NodePlan, NodeState
from gpushare.core.modes import MODES
from gpushare.core.observed import Observed, Timing
from gpushare.core.records import Step, parse_records
from gpushare.core.rollout import plan_after_look
from gpushare.names import Reason
from tests.kit.members import (
    OURS,
    SHARE,
    a_kind,
    a_settled,
    applied,
    expect_apply,
    expect_change,
    expect_idle,
    plan_of,
    under_way,
)
from tests.kit.planned import plan_world
from tests.kit.values import LATER, MEMORY, NOW, a_gpu_pod, a_node, a_pool, a_world

WAIT, CORDON, EVICT = (
    a_pool(rollout={"workloads": policy}) for policy in ("Wait", "CordonAndWait", "Evict")
)
TRAIN = EvictedPod("default", "train-1", "uid-of-train-1")


def _cordoned(**more: Any) -> Node:
    """A node that was cordoned for share -> cgpu, and has no other label yet."""
    records = under_way(Step.CORDONED)
    return a_node(
        labels={**SHARE, **OURS}, records=records, unschedulable=True, owns_cordon=True, **more
    )


def _cordoned_on_basic() -> Node:
    """The same on the Basic edition, where running pods keep what they have."""
    records = applied(Schedule.SHARE, edition=Edition.BASIC)
    change = under_way(Step.CORDONED).change
    assert change is not None
    flip = change.model_copy(update={"edition": Edition.BASIC})
    labels = {**MODES[Edition.BASIC, Schedule.SHARE].labels, **OURS}
    records = records.model_copy(update={"change": flip})
    return a_node(labels=labels, records=records, unschedulable=True, owns_cordon=True)


def _evicted(*pods: Pod, node: Node | None = None, pool: Pool = EVICT) -> tuple[EvictedPod, ...]:
    plan = plan_of(node or _cordoned(), pool, *pods, may_evict=True)
    assert (plan.state, plan.reason) == (NodeState.BLOCKED, Reason.WORKLOADS_PRESENT)
    return plan.action.pods if isinstance(plan.action, EvictPods) else ()


def _parsed(annotations: dict[str, str], owner: str = "") -> Pod:
    """A pod as the API server has it, that holds GPU memory on gpu-1."""
    owners = [{"kind": owner, "name": "o", "uid": "o", "controller": True}] if owner else []
    resources = {"limits": {MEMORY: "4"}}
    pod = parse_pod(
        {
            "metadata": {
                "namespace": "default", "name": "train-1", "uid": "uid-of-train-1",
                "annotations": annotations, "ownerReferences": owners,
            },
            "spec": {"nodeName": "gpu-1", "containers": [{"resources": resources}]},
            "status": {"phase": "Running"},
        },
        plugin_namespace="kube-system",
    )  # fmt: skip
    assert pod is not None
    return pod


# Before the cordon.


def test_wait_leaves_the_node_in_service_until_the_pods_are_gone() -> None:
    plan = plan_of(a_settled(), WAIT, a_gpu_pod())
    assert (plan.reason, plan.action, plan.in_line) == (Reason.WORKLOADS_PRESENT, None, False)
    assert expect_apply(plan_of(a_settled(), WAIT)).cordon


def test_cordon_and_wait_begins_with_the_pods_on_the_node() -> None:
    plan = plan_of(a_settled(), CORDON, a_gpu_pod())
    assert expect_change(plan).step is Step.CORDONED
    assert plan.takes_slot


def test_evict_begins_with_the_pods_on_the_node() -> None:
    plan = plan_of(a_settled(), EVICT, a_gpu_pod(), may_evict=True)
    assert expect_change(plan).step is Step.CORDONED


@pytest.mark.parametrize("pool", [CORDON, EVICT])
def test_pods_bring_no_node_its_turn_earlier(pool: Pool) -> None:
    plan = plan_of(a_settled(), pool, a_gpu_pod(), slot_free=False, may_evict=True)
    assert (plan.reason, plan.action) == (Reason.WAITING_FOR_BUDGET, None)


@pytest.mark.parametrize("pool", [WAIT, CORDON, EVICT])
def test_the_pods_that_hold_the_change_up_are_counted(pool: Pool) -> None:
    pods = (a_gpu_pod("a"), a_gpu_pod("b", phase="Pending"), a_gpu_pod("c", phase="Failed"))
    for slot_free in (False, True):
        plan = plan_of(a_settled(), pool, *pods, slot_free=slot_free, may_evict=True)
        assert plan.pods == 2


def test_where_eviction_is_not_allowed_nothing_is_cordoned_for_it() -> None:
    plan = plan_of(a_settled(), EVICT, a_gpu_pod())
    expect_idle(plan, NodeState.BLOCKED, Reason.EVICTION_DISABLED)
    assert "eviction.enabled" in plan.message
    assert "default/train-1" in plan.message


def test_where_eviction_is_not_allowed_an_empty_node_changes_all_the_same() -> None:
    assert expect_apply(plan_of(a_settled(), EVICT)).cordon


def test_the_policy_is_part_of_the_kind_of_change() -> None:
    kinds = {plan_of(a_settled(), pool, may_evict=True).kind for pool in (WAIT, CORDON, EVICT)}
    assert len(kinds) == 3
    assert a_kind() in kinds


# Under the cordon.


@pytest.mark.parametrize("pool", [CORDON, EVICT])
def test_pods_are_waited_for_under_the_cordon(pool: Pool) -> None:
    plan = plan_of(_cordoned(), pool, a_gpu_pod(), may_evict=True)
    assert (plan.state, plan.reason) == (NodeState.BLOCKED, Reason.WORKLOADS_PRESENT)
    assert "stays cordoned, and uses up the budget" in plan.message


@pytest.mark.parametrize("pool", [CORDON, EVICT])
def test_the_wait_under_the_cordon_never_fails(pool: Pool) -> None:
    years = NOW + timedelta(days=3650)
    plan = plan_of(_cordoned(), pool, a_gpu_pod(), may_evict=True, now=years)
    assert (plan.state, plan.halts, plan.deadline) == (NodeState.BLOCKED, "", None)


@pytest.mark.parametrize("pool", [CORDON, EVICT])
def test_a_node_that_waited_for_long_has_its_look_when_its_pods_are_gone(pool: Pool) -> None:
    plan = plan_of(_cordoned(), pool, may_evict=True, now=LATER)
    assert (plan.state, plan.action) == (NodeState.UPDATING, LookAgain("gpu-1", stays=True))


def test_a_node_that_waits_under_its_cordon_uses_the_budget() -> None:
    waiting = _cordoned(resource_version="1")
    world = a_world(pools=(CORDON,), nodes=(waiting, a_settled("gpu-2")), pods=(a_gpu_pod(),))
    reasons = {member.node: member.reason for member in plan_world(world).members["training"]}
    assert reasons == {
        "gpu-1": Reason.WORKLOADS_PRESENT,
        "gpu-2": Reason.WAITING_FOR_BUDGET,
    }


def test_a_pool_that_turned_to_wait_has_its_cordoned_node_looked_at_to_let_go() -> None:
    plan = plan_of(_cordoned(), WAIT, a_gpu_pod())
    assert plan.action == LookAgain("gpu-1", stays=False)


def test_a_late_pod_lets_the_node_go_where_the_pool_waits_first() -> None:
    node = _cordoned()
    seen = Observed(node, (a_gpu_pod(),), parse_records(node))
    apply = plan_after_look(seen, NOW, Timing(), stays=False)
    assert apply is not None
    assert not apply.cordon


def test_a_late_pod_writes_nothing_where_the_node_stays_cordoned() -> None:
    node = _cordoned()
    seen = Observed(node, (a_gpu_pod(),), parse_records(node))
    assert plan_after_look(seen, NOW, Timing(), stays=True) is None


def test_without_late_pods_a_node_that_stays_goes_on() -> None:
    node = _cordoned()
    apply = plan_after_look(Observed(node, (), parse_records(node)), NOW, Timing(), stays=True)
    assert apply is not None
    assert '"step":"Labelled"' in apply.annotations[names.ANNOTATION_CHANGE]


@pytest.mark.parametrize("pool", [CORDON, EVICT])
def test_a_person_who_uncordons_the_node_ends_the_wait(pool: Pool) -> None:
    node = replace(_cordoned(), unschedulable=False)
    plan = plan_of(node, pool, a_gpu_pod(), may_evict=True)
    assert expect_change(plan).step is Step.DEFERRED
    assert not expect_apply(plan).cordon


def test_a_pool_that_wants_its_old_mode_back_lets_a_waiting_node_go() -> None:
    pool = a_pool(schedule="share", rollout={"workloads": "CordonAndWait"})
    apply = expect_apply(plan_of(_cordoned(), pool, a_gpu_pod()))
    assert not apply.cordon
    assert names.ANNOTATION_CHANGE not in apply.annotations


def test_cordon_and_wait_evicts_nobody() -> None:
    assert _evicted(a_gpu_pod(), pool=CORDON) == ()


# Evictions.


def test_pods_that_hold_the_resource_are_evicted_by_their_uid_in_order() -> None:
    found = _evicted(a_gpu_pod("b"), a_gpu_pod("a"))
    assert [(pod.name, pod.uid) for pod in found] == [("a", "uid-of-a"), ("b", "uid-of-b")]


def test_where_eviction_is_switched_off_meanwhile_nobody_is_evicted() -> None:
    plan: NodePlan = plan_of(_cordoned(), EVICT, a_gpu_pod(), may_evict=False)
    expect_idle(plan, NodeState.BLOCKED, Reason.EVICTION_DISABLED)
    assert plan.halts == ""


@pytest.mark.parametrize(
    "spared",
    [
        a_gpu_pod("spared", is_evictable=False),
        a_gpu_pod("spared", deleting=True),
        a_gpu_pod("spared", requests={}, selects=frozenset(SHARE.items())),
    ],
    ids=["it would come back", "it is on its way", "it holds no GPU"],
)
def test_a_pod_is_spared_where_evicting_it_frees_nothing(spared: Pod) -> None:
    assert _evicted(spared) == ()
    assert _evicted(spared, a_gpu_pod()) == (TRAIN,)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_is_not_evicted(phase: str) -> None:
    assert _evicted(a_gpu_pod("ended", phase=phase), a_gpu_pod()) == (TRAIN,)


def test_a_pod_that_has_not_started_is_evicted_where_running_ones_are_too() -> None:
    assert _evicted(a_gpu_pod(phase="Pending")) == (TRAIN,)


def test_a_pod_that_has_not_started_is_waited_for_where_running_pods_stay() -> None:
    pool = a_pool(edition="Basic", rollout={"workloads": "Evict"})
    starting = a_gpu_pod(phase="Pending")
    assert _evicted(starting, node=_cordoned_on_basic(), pool=pool) == ()


def test_pods_that_keep_what_they_have_are_not_evicted() -> None:
    pool = a_pool(edition="Basic", rollout={"workloads": "Evict"})
    plan = plan_of(_cordoned_on_basic(), pool, a_gpu_pod(), may_evict=True)
    assert plan.action == LookAgain("gpu-1", stays=True)


@pytest.mark.parametrize(
    ("pod", "evictable"),
    [
        (_parsed({}), True),
        (_parsed({}, "ReplicaSet"), True),
        (_parsed({}, "DaemonSet"), False),
        (_parsed({"kubernetes.io/config.mirror": "x"}), False),
    ],
    ids=["bare", "ReplicaSet", "DaemonSet", "mirror"],
)
def test_daemonset_and_mirror_pods_are_never_evicted(pod: Pod, *, evictable: bool) -> None:
    assert _evicted(pod) == ((TRAIN,) if evictable else ())
