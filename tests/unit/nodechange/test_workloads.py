"""Pods that hold a change up: waited for before the cordon, under it, or evicted."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Edition, Pool, Schedule
from gpushare.core.records.change_record import ChangePhase
from gpushare.core.snapshot.actions import EvictPods, NamedPod, NodeState, RecheckPods
from gpushare.editions.registry import MODES
from gpushare.names import Reason
from tests.kit.values.node_plans import (
    INSTALLER,
    OURS,
    SHARE,
    a_settled,
    applied,
    cordoned,
    expect_apply,
    expect_change,
    expect_idle,
    failed,
    halted_by,
    on_basic,
    plan_of,
    recheck,
    under_way,
    unlabelled,
)
from tests.kit.values.objects import LATER, NOW, a_gpu_pod, a_node, a_plugin_pod, a_pool

WAIT, CORDON, EVICT = (
    a_pool(rollout={"workloads": policy}) for policy in ("Wait", "CordonAndWait", "Evict")
)
TRAIN = NamedPod("default", "train-1", "uid-of-train-1")


def _cordoned_on_basic() -> Node:
    """A node cordoned for share -> cgpu on the Basic edition: running pods keep what they have."""
    records = on_basic(Schedule.SHARE, Schedule.CGPU, ChangePhase.CORDONED, labelled_at=None)
    labels = {**MODES[Edition.BASIC, Schedule.SHARE].labels, **OURS}
    return a_node(labels=labels, records=records, unschedulable=True, owns_cordon=True)


def _evicted(*pods: Pod, node: Node | None = None, pool: Pool = EVICT) -> tuple[NamedPod, ...]:
    plan = plan_of(node or unlabelled(), pool, *pods, may_evict=True)
    assert (plan.state, plan.reason) == (NodeState.BLOCKED, Reason.WORKLOADS_PRESENT)
    return plan.action.pods if isinstance(plan.action, EvictPods) else ()


@pytest.mark.parametrize(("pool", "may_evict"), [(CORDON, False), (EVICT, True)])
def test_where_the_pool_does_not_wait_a_change_begins_with_the_pods_on_the_node(
    pool: Pool, may_evict: bool
) -> None:
    plan = plan_of(a_settled(), pool, a_gpu_pod(), may_evict=may_evict)
    assert expect_change(plan).phase is ChangePhase.CORDONED
    assert plan.uses_budget


@pytest.mark.parametrize("node", [a_settled(), unlabelled()], ids=["in service", "cordoned"])
def test_where_eviction_is_not_allowed_nothing_is_done_for_it(node: Node) -> None:
    plan = plan_of(node, EVICT, a_gpu_pod())
    expect_idle(plan, NodeState.BLOCKED, Reason.EVICTION_DISABLED)
    assert halted_by(plan) == ""
    assert "eviction.enabled" in plan.message
    assert "default/train-1" in plan.message


def test_where_eviction_is_not_allowed_an_empty_node_changes_all_the_same() -> None:
    assert expect_apply(plan_of(a_settled(), EVICT)).cordon


@pytest.mark.parametrize("pool", [CORDON, EVICT])
@pytest.mark.parametrize("now", [NOW, NOW + timedelta(days=3650)], ids=["now", "for years"])
def test_pods_are_waited_for_under_the_cordon_without_an_end(pool: Pool, now: datetime) -> None:
    plan = plan_of(unlabelled(), pool, a_gpu_pod(), may_evict=True, now=now)
    assert (plan.state, plan.reason) == (NodeState.BLOCKED, Reason.WORKLOADS_PRESENT)
    assert (halted_by(plan), plan.facts.deadline) == ("", None)
    assert isinstance(plan.action, EvictPods) is (pool is EVICT)


def test_a_pool_that_turned_to_wait_has_its_cordoned_node_looked_at_to_let_go() -> None:
    plan = plan_of(unlabelled(), WAIT, a_gpu_pod())
    assert plan.action == RecheckPods("gpu-1", stays=False)


def test_a_node_that_stays_cordoned_is_written_to_once_its_pods_are_gone() -> None:
    found = [recheck(unlabelled(), *pods, stays=True) for pods in ((a_gpu_pod(),), ())]
    assert [apply and apply.cordon for apply in found] == [None, True]


def test_pods_that_hold_the_resource_are_evicted_by_their_uid_in_order() -> None:
    found = _evicted(a_gpu_pod("b"), a_gpu_pod("a", phase="Pending"))
    assert [(pod.name, pod.uid) for pod in found] == [("a", "uid-of-a"), ("b", "uid-of-b")]


def _labelled(**change: Any) -> Node:
    return cordoned(under_way(ChangePhase.LABELLED, **change), offered=15)


def test_a_pod_that_came_after_the_labels_is_evicted_too() -> None:
    assert _evicted(a_gpu_pod(), node=_labelled(restart=True)) == (TRAIN,)


def test_a_pod_that_holds_another_modes_cards_is_evicted_before_the_node_is_back() -> None:
    whole = a_gpu_pod(requests={names.RESOURCE_WHOLE_GPU: 1})
    plugins = (a_plugin_pod("plugin-1"), INSTALLER)
    assert _evicted(whole, *plugins, node=_labelled()) == (TRAIN,)


def test_from_a_node_that_failed_nobody_is_evicted() -> None:
    node = cordoned(failed(phase=ChangePhase.LABELLED, restart=True))
    plan = plan_of(node, EVICT, a_gpu_pod(), may_evict=True, now=LATER)
    assert (plan.state, plan.action) == (NodeState.FAILED, None)


def test_where_eviction_is_not_allowed_pods_after_the_labels_are_waited_for() -> None:
    plan = plan_of(_labelled(restart=True), EVICT, a_gpu_pod(), now=LATER)
    assert (plan.state, plan.reason) == (NodeState.BLOCKED, Reason.EVICTION_DISABLED)
    assert (plan.action, halted_by(plan)) == (None, "")


@pytest.mark.parametrize(
    "spared",
    [
        a_gpu_pod("spared", is_evictable=False),
        a_gpu_pod("spared", deleting=True),
        a_gpu_pod("spared", requests={}, selects=frozenset(SHARE.items())),
        a_gpu_pod("spared", phase="Succeeded"),
        a_gpu_pod("spared", phase="Failed"),
    ],
    ids=["it would come back", "it is on its way", "it holds no GPU", "succeeded", "failed"],
)
def test_a_pod_is_spared_where_evicting_it_frees_nothing(spared: Pod) -> None:
    assert _evicted(spared, a_gpu_pod()) == (TRAIN,)


def test_where_running_pods_keep_what_they_have_nobody_is_evicted() -> None:
    """One that has not started is waited for, and the others are none of the change's."""
    pool, node = a_pool(edition="Basic", rollout={"workloads": "Evict"}), _cordoned_on_basic()
    assert _evicted(a_gpu_pod(phase="Pending"), node=node, pool=pool) == ()
    plan = plan_of(node, pool, a_gpu_pod(), may_evict=True)
    assert plan.action == RecheckPods("gpu-1", stays=True)


@pytest.mark.parametrize("pool", [WAIT, CORDON, EVICT])
def test_the_pods_that_hold_the_change_up_are_counted(pool: Pool) -> None:
    pods = (a_gpu_pod("a"), a_gpu_pod("b", phase="Pending"), a_gpu_pod("c", phase="Failed"))
    for slot_free in (False, True):
        plan = plan_of(a_settled(), pool, *pods, slot_free=slot_free, may_evict=True)
        assert plan.verdict.pending is not None
        assert plan.verdict.pending.pods == 2


def a_claimant(name: str = "train-1", *, holds: bool | None) -> Pod:
    return a_gpu_pod(name, requests={}, claims=("default/claim",), has_claimed_cards=holds)


@pytest.mark.parametrize("holds", [True, None])
@pytest.mark.parametrize("node", [a_settled(), a_node()], ids=["a member", "a new node"])
def test_a_change_waits_for_pods_that_hold_cards_by_claims_or_may(
    node: Node, holds: bool | None
) -> None:
    plan = plan_of(node, WAIT, a_claimant(holds=holds))
    expect_idle(plan, NodeState.BLOCKED, Reason.WORKLOADS_PRESENT)
    assert "default/train-1" in plan.message


@pytest.mark.parametrize("holds", [True, None])
def test_a_node_is_handed_to_the_dra_driver_while_its_pods_run(holds: bool | None) -> None:
    plan = plan_of(a_node(), a_pool(schedule="disabled"), a_claimant(holds=holds))
    assert plan.action is not None


def test_a_pod_whose_claim_is_unknown_is_waited_for_and_not_evicted() -> None:
    assert _evicted(a_claimant(holds=True), a_claimant("nic-1", holds=None)) == (TRAIN,)


@pytest.mark.parametrize(("holds", "is_restored"), [(True, False), (None, True)])
def test_a_label_is_put_back_unless_a_pod_is_known_to_hold_cards_by_a_claim(
    holds: bool | None, is_restored: bool
) -> None:
    lost = a_node(labels=OURS, records=applied(Schedule.SHARE))
    plan = plan_of(lost, a_pool(schedule="share"), a_claimant(holds=holds))
    assert (plan.action is not None) is is_restored
