"""What one member of a pool needs next, without a change under way."""

import pytest

from gpushare import names
from gpushare.api.pod import Pod
from gpushare.api.pool import Schedule
from gpushare.core.actions import NodeState, ReleaseNode
from gpushare.core.records import Step
from gpushare.names import Reason
from tests.kit.members import (
    CGPU,
    INSTALLER,
    NEVER,
    OURS,
    SHARE,
    UNVERIFIED,
    VERIFIED,
    applied,
    deferred,
    expect_apply,
    expect_idle,
    expect_leaving,
    plan_leave_of,
    plan_of,
    under_way,
)
from tests.kit.values import (
    MEMORY,
    NOW,
    PRO_DAEMONSETS,
    a_gpu_pod,
    a_node,
    a_plugin_pod,
    a_pool,
)


def test_a_node_in_the_pools_mode_already_is_labelled_in_one_write_without_a_cordon() -> None:
    apply = expect_apply(plan_of(a_node(labels=CGPU), a_pool(), a_gpu_pod()))
    assert apply.labels == {**CGPU, **OURS, **UNVERIFIED}
    assert not apply.cordon
    assert names.ANNOTATION_CHANGE not in apply.annotations


def test_the_first_take_over_records_what_was_found_in_the_same_write() -> None:
    apply = expect_apply(plan_of(a_node(labels=CGPU), a_pool()))
    assert apply.annotations[names.ANNOTATION_FOUND] == (
        '{"ack.node.gpu.schedule":"cgpu","gpushare.io/pool":null}'
    )


def test_a_node_that_is_as_the_pool_says_is_ready_and_nothing_is_written() -> None:
    node = a_node(labels={**CGPU, **OURS}, records=applied(), allocatable={MEMORY: 15})
    plan = plan_of(node, a_pool(), a_plugin_pod(), INSTALLER)
    assert (plan.state, plan.action) == (NodeState.READY, None)


def test_a_node_that_serves_nothing_any_more_is_reported_and_nothing_is_written() -> None:
    silent = a_node(labels={**CGPU, **OURS}, records=applied(), allocatable={MEMORY: 0})
    plan = plan_of(silent, a_pool(), a_plugin_pod(), INSTALLER)
    expect_idle(plan, NodeState.BLOCKED, Reason.RESOURCE_NOT_READY)
    away = a_node(labels={**CGPU, **OURS}, records=applied(), allocatable={MEMORY: 15})
    assert plan_of(away, a_pool(), INSTALLER).reason is Reason.PLUGIN_RESTARTING


def test_a_change_of_mode_begins_with_the_cordon_and_its_record() -> None:
    node = a_node(labels={**SHARE, **OURS}, records=applied(Schedule.SHARE))
    plan = plan_of(node, a_pool(), a_plugin_pod())
    apply = expect_apply(plan)
    assert apply.cordon
    assert apply.labels == {**SHARE, **OURS}
    assert '"step":"Cordoned"' in apply.annotations[names.ANNOTATION_CHANGE]
    assert plan.takes_slot


def test_a_node_that_joins_takes_no_slot() -> None:
    plan = plan_of(a_node(), a_pool(), slot_free=False)
    assert expect_apply(plan).cordon
    assert not plan.takes_slot


def test_a_new_node_with_gpu_pods_is_no_joining_one() -> None:
    pod = a_gpu_pod(requests={names.RESOURCE_TOPOLOGY_GPU: 1})
    plan = plan_of(a_node(), a_pool(), pod, slot_free=False)
    assert (plan.state, plan.reason) == (NodeState.WAITING, Reason.WAITING_FOR_BUDGET)


def test_without_a_slot_the_node_waits_for_the_budget() -> None:
    node = a_node(labels={**SHARE, **OURS}, records=applied(Schedule.SHARE))
    plan = plan_of(node, a_pool(), slot_free=False)
    expect_idle(plan, NodeState.WAITING, Reason.WAITING_FOR_BUDGET)


@pytest.mark.parametrize("phase", ["Running", "Pending"])
def test_pods_of_the_old_modes_resource_hold_up_a_professional_node(phase: str) -> None:
    node = a_node(labels={**SHARE, **OURS}, records=applied(Schedule.SHARE))
    plan = plan_of(node, a_pool(), a_gpu_pod("train-1", phase=phase))
    expect_idle(plan, NodeState.BLOCKED, Reason.WORKLOADS_PRESENT)
    assert "default/train-1" in plan.message


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_finished_pods_hold_up_nothing(phase: str) -> None:
    node = a_node(labels={**SHARE, **OURS}, records=applied(Schedule.SHARE))
    assert expect_apply(plan_of(node, a_pool(), a_gpu_pod(phase=phase))).cordon


def test_a_pod_that_selects_the_old_mode_holds_up_the_change() -> None:
    node = a_node(labels={**SHARE, **OURS}, records=applied(Schedule.SHARE))
    pod = a_gpu_pod(requests={}, selects=frozenset(SHARE.items()))
    assert plan_of(node, a_pool(), pod).reason is Reason.WORKLOADS_PRESENT


def test_leaving_isolation_for_share_is_never_attempted() -> None:
    node = a_node(labels={**CGPU, **OURS}, records=applied())
    plan = plan_of(node, a_pool(schedule="share"))
    expect_idle(plan, NodeState.BLOCKED, Reason.REQUIRES_TEARDOWN)


def test_an_unknown_mode_on_the_node_is_left_for_a_person() -> None:
    plan = plan_of(a_node(labels={names.LABEL_SCHEDULE: "egpu"}), a_pool())
    assert (plan.reason, plan.action) == (Reason.REQUIRES_PERSON, None)
    assert "1. " in plan.message


def test_a_missing_daemonset_is_found_before_anything_is_written() -> None:
    plan = plan_of(a_node(), a_pool(), daemonsets=PRO_DAEMONSETS - {"cgpu-installer"})
    assert (plan.reason, plan.action) == (Reason.COMPONENT_MISSING, None)
    assert "cgpu-installer" in plan.message


def test_a_node_with_mig_devices_is_left_alone() -> None:
    plan = plan_of(a_node(allocatable={"nvidia.com/mig-1g.5gb": 7}), a_pool())
    assert (plan.reason, plan.action) == (Reason.MIG_NODE, None)


def test_a_node_that_another_edition_shares_is_left_alone() -> None:
    plan = plan_of(a_node(labels={"cgpu": "true"}), a_pool())
    assert (plan.reason, plan.action) == (Reason.OTHER_EDITION_LABELS, None)
    assert "cgpu=true" in plan.message


def test_drift_is_put_back_at_once_while_the_plugin_is_the_one_that_was_verified() -> None:
    written = {names.LABEL_SCHEDULE: NOW}
    node = a_node(
        labels={**SHARE, **OURS}, records=applied(), owned=frozenset(), written_at=written
    )
    apply = expect_apply(plan_of(node, a_pool(), a_plugin_pod("plugin-1"), a_gpu_pod()))
    assert apply.labels == {**CGPU, **OURS, **VERIFIED}
    assert not apply.cordon


def test_drift_that_deleted_the_label_and_so_the_plugin_is_put_back_at_once() -> None:
    node = a_node(labels=OURS, records=applied(), owned=frozenset())
    apply = expect_apply(plan_of(node, a_pool(), a_gpu_pod()))
    assert apply.labels == {**CGPU, **OURS, **VERIFIED}
    assert not apply.cordon


@pytest.mark.parametrize("plugin", [a_plugin_pod("plugin-2"), a_plugin_pod("plugin-1", restarts=1)])
def test_drift_that_a_plugin_may_have_read_takes_the_whole_sequence(plugin: Pod) -> None:
    node = a_node(labels={**SHARE, **OURS}, records=applied(), owned=frozenset())
    assert expect_apply(plan_of(node, a_pool(), plugin)).cordon


def test_a_plugin_replaced_under_the_right_labels_is_remembered_as_right() -> None:
    node = a_node(labels={**CGPU, **OURS}, records=applied())
    apply = expect_apply(plan_of(node, a_pool(), a_plugin_pod("plugin-2", ready=False)))
    assert '"plugins":{"plugin-2":0}' in apply.annotations[names.ANNOTATION_APPLIED]
    assert not apply.cordon


def test_a_plugin_that_is_away_changes_no_record() -> None:
    node = a_node(labels={**CGPU, **OURS}, records=applied())
    assert plan_of(node, a_pool()).action is None


def test_a_label_that_somebody_else_took_over_with_our_value_is_owned_again() -> None:
    node = a_node(labels={**CGPU, **OURS}, records=applied(), owned=frozenset({names.LABEL_POOL}))
    apply = expect_apply(plan_of(node, a_pool(), a_plugin_pod()))
    assert apply.labels == {**CGPU, **OURS, **UNVERIFIED}


def test_placement_changes_without_cordon_or_slot() -> None:
    node = a_node(labels={**CGPU, **OURS}, records=applied())
    pool = a_pool(placement="spread")
    plan = plan_of(node, pool, a_plugin_pod(), a_gpu_pod(), slot_free=False)
    apply = expect_apply(plan)
    assert apply.labels[names.LABEL_PLACEMENT] == "spread"
    assert not apply.cordon


def test_with_restart_never_labels_are_written_and_the_node_is_reported() -> None:
    node = a_node(labels={**SHARE, **OURS}, records=applied(Schedule.SHARE))
    apply = expect_apply(plan_of(node, NEVER, a_plugin_pod()))
    assert apply.labels == {**CGPU, **OURS, **UNVERIFIED}
    assert not apply.cordon
    assert '"awaitsRestart":true' in apply.annotations[names.ANNOTATION_APPLIED]


def test_a_node_whose_plugin_nobody_restarted_is_not_ready() -> None:
    node = a_node(labels={**CGPU, **OURS}, records=applied(awaits_restart=True))
    plan = plan_of(node, NEVER, a_plugin_pod("plugin-1"))
    assert (plan.state, plan.reason) == (NodeState.BLOCKED, Reason.PLUGIN_RESTART_NEEDED)


def test_a_person_who_restarts_the_plugin_makes_the_node_ready() -> None:
    records = applied(awaits_restart=True)
    node = a_node(labels={**CGPU, **OURS}, records=records, allocatable={MEMORY: 15})
    apply = expect_apply(plan_of(node, NEVER, a_plugin_pod("plugin-2"), INSTALLER))
    assert '"awaitsRestart":false' in apply.annotations[names.ANNOTATION_APPLIED]


def test_restarts_allowed_again_are_made_up_for_with_the_whole_sequence() -> None:
    node = a_node(labels={**CGPU, **OURS}, records=applied(awaits_restart=True))
    apply = expect_apply(plan_of(node, a_pool(), a_plugin_pod("plugin-1"), a_gpu_pod()))
    assert apply.cordon
    assert '"restart":true' in apply.annotations[names.ANNOTATION_CHANGE]


def test_after_a_late_binding_the_node_rests() -> None:
    plan = plan_of(a_node(labels={**SHARE, **OURS}, records=deferred(0.4)), a_pool())
    assert (plan.reason, plan.action) == (Reason.WAITING_AFTER_LATE_BINDING, None)
    assert plan.wake_after_seconds == 24


def test_a_time_that_is_far_off_is_not_waited_for() -> None:
    records = deferred(60 * 24 * 365)
    plan = plan_of(a_node(labels={**SHARE, **OURS}, records=records), a_pool())
    assert expect_apply(plan).cordon


def test_nothing_begins_on_a_node_that_is_not_ready() -> None:
    node = a_node(labels={**SHARE, **OURS}, records=applied(Schedule.SHARE), ready=False)
    plan = plan_of(node, a_pool())
    assert (plan.reason, plan.action) == (Reason.NODE_NOT_READY, None)


def test_a_node_that_came_with_a_pool_label_of_its_template_joins_like_any_other() -> None:
    node = a_node(labels={**SHARE, names.LABEL_POOL: "ghost"})
    assert not plan_of(node, a_pool(), slot_free=False).takes_slot
    assert expect_apply(plan_of(node, a_pool(), slot_free=False)).cordon


def test_after_its_rest_the_node_is_tried_again() -> None:
    plan = plan_of(a_node(labels={**SHARE, **OURS}, records=deferred(0)), a_pool())
    assert expect_apply(plan).cordon


def test_a_node_that_leaves_is_released_with_its_labels() -> None:
    plan = expect_leaving(a_node(labels={**CGPU, **OURS}, records=applied()))
    assert plan.action == ReleaseNode("gpu-1", "uid-of-gpu-1", VERIFIED)


def test_a_node_on_which_nothing_is_ours_is_not_touched() -> None:
    assert plan_leave_of(a_node(labels={**CGPU, **OURS})) is None


def test_a_node_that_leaves_while_only_cordoned_is_let_go_first() -> None:
    records = under_way(Step.CORDONED)
    node = a_node(labels={**SHARE, **OURS}, records=records, unschedulable=True, owns_cordon=True)
    plan = expect_leaving(node)
    apply = expect_apply(plan)
    assert not apply.cordon
    assert names.ANNOTATION_CHANGE not in apply.annotations


def test_a_node_that_leaves_after_its_labels_were_written_is_finished_first() -> None:
    node = a_node(labels={**CGPU, **OURS}, records=under_way(Step.LABELLED), unschedulable=True)
    plan = expect_leaving(node)
    assert plan.state is NodeState.UPDATING
    assert not isinstance(plan.action, ReleaseNode)


def test_a_change_whose_labels_are_not_written_is_dropped_when_the_spec_changes() -> None:
    node = a_node(labels={**SHARE, **OURS}, records=under_way(Step.CORDONED), unschedulable=True)
    apply = expect_apply(plan_of(node, a_pool(schedule="share")))
    assert not apply.cordon
    assert apply.labels == {**SHARE, **OURS}


def test_a_node_that_gave_way_is_no_step_towards_a_mode_that_nobody_wants_any_more() -> None:
    node = a_node(labels={**SHARE, **OURS}, records=deferred(0.4), allocatable={MEMORY: 15})
    assert plan_of(node, a_pool(), a_plugin_pod()).kind is not None
    assert plan_of(node, a_pool(schedule="default"), a_plugin_pod()).kind is None
