"""An isolation change on one node, step by step."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from gpushare import names
from gpushare.api.node import Node
from gpushare.api.pod import Pod
from gpushare.api.pool import Edition, Schedule
from gpushare.core.actions import (
    ApplyNode,
    DeletePlugins,
    LookAgain,
    NodePlan,
    NodeState,
    RecordPlugins,
)
from gpushare.core.observed import Observed, Pass, Timing
from gpushare.core.policy import Policy
from gpushare.core.records import Applied, Change, NodeRecords, PluginPod, Step, parse_records
from gpushare.core.rollout import plan_after_look, plan_restart, plan_step
from gpushare.names import Reason
from tests.kit.members import UNVERIFIED
from tests.kit.values import MEMORY, NOW, a_gpu_pod, a_node, a_plugin_pod

TIMING = Timing(
    backoff=timedelta(seconds=30),
    ready_timeout=timedelta(seconds=600),
    settle=timedelta(seconds=12),
)
SHARE = {names.LABEL_SCHEDULE: "share", names.LABEL_POOL: "training"}
CGPU = {names.LABEL_SCHEDULE: "cgpu", names.LABEL_POOL: "training"}
INSTALLER = a_plugin_pod("installer-1", daemonset="cgpu-installer")
OLD, NEW = a_plugin_pod("old"), a_plugin_pod("new")
RECORDED = (PluginPod(name=OLD.name, uid="old"),)


def _change(step: Step, **more: Any) -> NodeRecords:
    values: dict[str, Any] = {
        "pool": "training",
        "edition": Edition.PROFESSIONAL,
        "of": Schedule.SHARE,
        "to": Schedule.CGPU,
        "step": step,
        "since": NOW,
        "restart": True,
        "labelled_at": None if step is Step.CORDONED else NOW,
        **more,
    }
    return NodeRecords(found={}, change=Change(**values))


def _restarting(offered: int = 15, **more: Any) -> Node:
    records = _change(Step.RESTARTING, plugins=RECORDED, **more)
    return a_node(labels=CGPU, records=records, unschedulable=True, allocatable={MEMORY: offered})


def _seen(node: Node, *pods: Pod, was_zero: bool = True) -> Observed:
    return Observed(node, pods, parse_records(node), was_zero)


def _step(node: Node, *pods: Pod, now: datetime = NOW, was_zero: bool = True) -> NodePlan:
    return plan_step(_seen(node, *pods, was_zero=was_zero), Policy(), Pass(now, TIMING))


def _look(seen: Observed) -> ApplyNode:
    apply = plan_after_look(seen, NOW, TIMING)
    assert apply is not None
    return apply


def _read_change(apply: ApplyNode) -> Change:
    return Change.model_validate_json(apply.annotations[names.ANNOTATION_CHANGE])


def test_a_cordoned_node_gets_its_second_look() -> None:
    node = a_node(labels=SHARE, records=_change(Step.CORDONED), unschedulable=True)
    assert _step(node).action == LookAgain("gpu-1")


def test_a_person_who_uncordons_the_node_is_given_way() -> None:
    node = a_node(labels=SHARE, records=_change(Step.CORDONED), unschedulable=False)
    apply = _step(node).action
    assert isinstance(apply, ApplyNode)
    assert not apply.cordon
    assert _read_change(apply).step is Step.DEFERRED


@pytest.mark.parametrize("phase", ["Pending", "Running"])
def test_a_pod_seen_after_the_cordon_makes_the_node_let_go_and_rest(phase: str) -> None:
    node = a_node(labels=SHARE, records=_change(Step.CORDONED), unschedulable=True)
    apply = _look(_seen(node, a_gpu_pod(phase=phase)))
    assert not apply.cordon
    assert apply.labels == SHARE
    change = _read_change(apply)
    assert (change.step, change.not_before) == (Step.DEFERRED, NOW + timedelta(seconds=30))


def test_an_empty_cordoned_node_is_labelled_in_the_write_that_says_so() -> None:
    node = a_node(labels=SHARE, records=_change(Step.CORDONED), unschedulable=True)
    apply = _look(_seen(node, OLD))
    assert apply.cordon
    assert apply.labels == {**CGPU, **UNVERIFIED}
    change = _read_change(apply)
    assert (change.step, change.labelled_at) == (Step.LABELLED, NOW)


def test_what_the_node_came_with_is_recorded_in_the_write_of_its_labels() -> None:
    records = _change(Step.CORDONED)
    node = a_node(labels=SHARE, owned=frozenset(), records=records, unschedulable=True)
    found = parse_records(replace(node, annotations=_look(_seen(node, OLD)).annotations)).found
    assert found == SHARE


def _sharing(said: Mapping[str, str], applied: Applied | None = None, **change: Any) -> Node:
    """Cordoned on its way from whole cards to sharing, with somebody's labels on it."""
    way = {"of": Schedule.DEFAULT, "to": Schedule.SHARE, "restart": False, **change}
    records = _change(Step.CORDONED, **way).model_copy(update={"applied": applied})
    labels = {**said, names.LABEL_POOL: "training"}
    return a_node(labels=labels, records=records, unschedulable=True)


def _sharing_since(**more: Any) -> Applied:
    plugins = {OLD.uid: 0}
    values: dict[str, Any] = {"schedule": Schedule.SHARE, "boot_id": "boot-1", "plugins": plugins}
    return Applied(pool="training", edition=Edition.PROFESSIONAL, **{**values, **more})


FOREIGN = {names.LABEL_SCHEDULE: "cgpu"}
BASIC_CGPU: dict[str, Any] = {"edition": Edition.BASIC, "to": Schedule.CGPU}


@pytest.mark.parametrize(
    ("node", "plugins", "restart"),
    [
        pytest.param(_sharing(FOREIGN), (OLD,), True, id="may have read it"),
        pytest.param(_sharing(FOREIGN), (), False, id="not there yet"),
        pytest.param(_sharing(SHARE), (OLD,), False, id="has read ours"),
        pytest.param(_sharing(FOREIGN, _sharing_since()), (OLD,), False, id="never left"),
        pytest.param(
            _sharing(FOREIGN, _sharing_since(plugins={OLD.uid: 1})), (OLD,), True, id="came anew"
        ),
        pytest.param(
            _sharing({"cgpu": "true"}, **BASIC_CGPU), (OLD,), False, id="a label says ours in short"
        ),
        pytest.param(
            _sharing({"gpushare": "false"}, edition=Edition.OPEN_SOURCE),
            (OLD,),
            False,
            id="reads no label",
        ),
    ],
)
def test_a_plugin_that_came_by_anothers_label_is_restarted_under_ours(
    node: Node, plugins: tuple[Pod, ...], restart: bool
) -> None:
    assert _read_change(_look(_seen(node, *plugins))).restart is restart


def test_where_no_plugin_may_be_restarted_the_node_lets_go_of_one_that_came_by_anothers_label() -> (
    None
):
    seen = _seen(_sharing(FOREIGN), OLD)
    apply = plan_after_look(seen, NOW, TIMING, may_restart=False)
    assert apply is not None
    assert (apply.cordon, _read_change(apply).step) == (False, Step.DEFERRED)


def test_on_basic_running_pods_stay_through_the_flip_and_starting_ones_do_not() -> None:
    labels = {"cgpu": "true", "cgpu.disable.isolation": "true", names.LABEL_POOL: "training"}
    records = _change(Step.CORDONED, edition=Edition.BASIC)
    node = a_node(labels=labels, records=records, unschedulable=True)
    running, starting = a_gpu_pod("a"), a_gpu_pod("b", phase="Pending")
    assert _look(_seen(node, running)).cordon
    assert not _look(_seen(node, running, starting)).cordon


def test_on_basic_a_pod_that_requires_isolation_holds_up_leaving_it() -> None:
    labels = {"cgpu": "true", "cgpu.disable.isolation": "false", names.LABEL_POOL: "training"}
    records = _change(Step.CORDONED, edition=Edition.BASIC, of=Schedule.CGPU, to=Schedule.SHARE)
    node = a_node(labels=labels, records=records, unschedulable=True)
    strict = a_gpu_pod(requires_isolation=True)
    assert not _look(_seen(node, strict)).cordon
    assert _look(_seen(node, a_gpu_pod())).cordon


def test_a_labelled_node_has_its_plugin_recorded_next() -> None:
    node = a_node(labels=CGPU, records=_change(Step.LABELLED), unschedulable=True)
    assert _step(node, OLD).action == RecordPlugins("gpu-1")


def test_the_record_names_the_plugins_pods_and_the_gpu_pods_that_were_bound() -> None:
    labels = {"cgpu": "true", "cgpu.disable.isolation": "false", names.LABEL_POOL: "training"}
    records = _change(Step.LABELLED, edition=Edition.BASIC)
    node = a_node(labels=labels, records=records, unschedulable=True)
    apply = plan_restart(_seen(node, OLD, INSTALLER, a_gpu_pod("train-1")))
    assert apply is not None
    change = _read_change(apply)
    assert change.step is Step.RESTARTING
    assert change.plugins == RECORDED
    assert change.before == ("uid-of-train-1",)


def test_the_record_is_the_same_in_whichever_order_the_pods_are_listed() -> None:
    node = a_node(labels=CGPU, records=_change(Step.LABELLED), unschedulable=True)
    assert plan_restart(_seen(node, OLD, NEW)) == plan_restart(_seen(node, NEW, OLD))


def test_without_a_restart_only_the_wait_remains() -> None:
    records = _change(Step.LABELLED, of=Schedule.DEFAULT, restart=False)
    node = a_node(labels=CGPU, records=records, unschedulable=True)
    plan = _step(node)
    assert (plan.action, plan.reason) == (None, Reason.COMPONENT_NOT_READY)


def test_only_recorded_pods_are_deleted() -> None:
    assert _step(_restarting(), OLD, NEW).action == DeletePlugins("gpu-1", RECORDED)


def test_a_pod_that_is_being_deleted_is_not_deleted_again() -> None:
    plan = _step(_restarting(), a_plugin_pod("old", deleting=True))
    assert plan.action is None


def test_the_old_plugin_does_not_count_as_returned() -> None:
    plan = _step(_restarting(), a_plugin_pod("old", deleting=True), INSTALLER)
    assert (plan.state, plan.reason) == (NodeState.UPDATING, Reason.PLUGIN_RESTARTING)


def test_a_new_plugin_that_is_not_ready_does_not_count_as_returned() -> None:
    plan = _step(_restarting(), a_plugin_pod("new", ready=False, ready_since=None), INSTALLER)
    assert plan.reason is Reason.PLUGIN_RESTARTING


def test_the_installer_must_be_ready_before_the_node_counts_as_isolated() -> None:
    plan = _step(_restarting(), NEW)
    assert (plan.reason, plan.action) == (Reason.COMPONENT_NOT_READY, None)


def test_a_ready_plugin_without_a_resource_proves_nothing() -> None:
    plan = _step(_restarting(offered=0), NEW, INSTALLER)
    assert (plan.reason, plan.action) == (Reason.RESOURCE_NOT_READY, None)


def test_a_resource_that_never_went_through_zero_is_believed_only_after_a_while() -> None:
    plan = _step(_restarting(), NEW, INSTALLER, was_zero=False)
    assert (plan.reason, plan.wake_after_seconds) == (Reason.RESOURCE_NOT_READY, 12)
    later = NOW + timedelta(seconds=12)
    assert isinstance(
        _step(_restarting(), NEW, INSTALLER, was_zero=False, now=later).action, ApplyNode
    )


def test_the_verified_node_is_uncordoned_in_the_write_that_records_it() -> None:
    apply = _step(_restarting(), NEW, INSTALLER, a_gpu_pod("train-1")).action
    assert isinstance(apply, ApplyNode)
    assert not apply.cordon
    assert names.ANNOTATION_CHANGE not in apply.annotations
    applied = apply.annotations[names.ANNOTATION_APPLIED]
    for part in ('"schedule":"cgpu"', '"plugins":{"new":0}', '"bootID":"boot-1"', "uid-of-train-1"):
        assert part in applied


def test_a_deadline_that_passed_fails_the_node_and_leaves_it_cordoned() -> None:
    plan = _step(_restarting(offered=0), NEW, INSTALLER, now=NOW + timedelta(seconds=601))
    assert (plan.state, plan.reason) == (NodeState.FAILED, Reason.DEADLINE_EXCEEDED)
    assert isinstance(plan.action, ApplyNode)
    assert plan.action.cordon
    failure = _read_change(plan.action).failure
    assert failure is not None
    assert (failure.step, failure.reason) == (Step.RESTARTING, Reason.DEADLINE_EXCEEDED)


def test_a_failed_node_is_looked_at_again_when_its_resource_can_be_believed() -> None:
    late = a_plugin_pod("new", ready_since=NOW + timedelta(hours=1))
    plan = _step(_restarting(), late, INSTALLER, was_zero=False, now=NOW + timedelta(hours=1))
    assert (plan.state, plan.wake_after_seconds) == (NodeState.FAILED, 12)


def test_a_node_that_returns_after_its_deadline_is_finished_all_the_same() -> None:
    plan = _step(_restarting(), NEW, INSTALLER, now=NOW + timedelta(hours=9))
    assert isinstance(plan.action, ApplyNode)


def test_labels_that_somebody_changes_during_the_change_are_put_back() -> None:
    records = _change(Step.RESTARTING, plugins=RECORDED)
    node = a_node(labels=SHARE, records=records, unschedulable=True)
    apply = _step(node, NEW, INSTALLER).action
    assert isinstance(apply, ApplyNode)
    assert apply.labels == {**CGPU, **UNVERIFIED}
    assert apply.cordon


@pytest.mark.parametrize("step", [Step.LABELLED, Step.RESTARTING])
def test_a_cordon_that_a_person_lifts_before_the_plugin_is_back_is_set_again(step: Step) -> None:
    node = a_node(labels=CGPU, records=_change(step), unschedulable=False)
    apply = _step(node, NEW, INSTALLER).action
    assert isinstance(apply, ApplyNode)
    assert apply.cordon


def test_no_plugin_is_recorded_for_deletion_on_a_node_that_is_in_service() -> None:
    node = a_node(labels=CGPU, records=_change(Step.LABELLED), unschedulable=False)
    assert plan_restart(_seen(node, OLD)) is None


def test_a_pod_that_came_after_the_labels_is_waited_for_before_the_restart() -> None:
    node = a_node(labels=CGPU, records=_change(Step.LABELLED), unschedulable=True)
    plan = _step(node, OLD, a_gpu_pod())
    assert (plan.state, plan.reason, plan.action) == (
        NodeState.BLOCKED,
        Reason.WORKLOADS_PRESENT,
        None,
    )
    assert plan_restart(_seen(node, OLD, a_gpu_pod())) is None


def test_a_record_never_makes_a_pod_a_victim_that_is_no_plugin() -> None:
    proxy = a_plugin_pod("old", daemonset="kube-proxy")
    assert _step(_restarting(), proxy, NEW, INSTALLER).action != DeletePlugins("gpu-1", RECORDED)
    assert not isinstance(_step(_restarting(), proxy).action, DeletePlugins)


def test_the_pod_is_deleted_by_its_own_name_whatever_the_record_says() -> None:
    records = _change(Step.RESTARTING, plugins=(PluginPod(name="../../nodes/x", uid="old"),))
    node = a_node(labels=CGPU, records=records, unschedulable=True)
    assert _step(node, OLD).action == DeletePlugins("gpu-1", RECORDED)


def test_a_plugin_that_may_have_read_foreign_labels_in_the_change_is_restarted_again() -> None:
    node = a_node(
        labels=SHARE, records=_change(Step.RESTARTING, plugins=RECORDED), unschedulable=True
    )
    apply = _step(node, NEW, INSTALLER).action
    assert isinstance(apply, ApplyNode)
    change = _read_change(apply)
    assert (change.step, change.plugins, change.restart) == (Step.LABELLED, (), True)


def test_leaving_sharing_on_open_source_is_done_when_plugin_and_memory_are_gone() -> None:
    labels = {names.LABEL_GPUSHARE: "false", names.LABEL_POOL: "training"}
    records = _change(
        Step.LABELLED, edition=Edition.OPEN_SOURCE, to=Schedule.DEFAULT, restart=False
    )
    busy = a_node(labels=labels, records=records, unschedulable=True, allocatable={MEMORY: 15})
    free = a_node(labels=labels, records=records, unschedulable=True, allocatable={MEMORY: 0})
    assert _step(busy, OLD).reason is Reason.PLUGIN_RESTARTING
    assert _step(busy).reason is Reason.RESOURCE_NOT_READY
    assert isinstance(_step(free).action, ApplyNode)


def test_a_node_that_still_offers_the_old_modes_resource_is_not_done() -> None:
    records = _change(Step.LABELLED, of=Schedule.DEFAULT, restart=False)
    both = {MEMORY: 15, names.RESOURCE_WHOLE_GPU: 1}
    node = a_node(labels=CGPU, records=records, unschedulable=True, allocatable=both)
    plan = _step(node, NEW, INSTALLER)
    assert (plan.reason, plan.action) == (Reason.RESOURCE_NOT_READY, None)
    assert names.RESOURCE_WHOLE_GPU in plan.message


def test_a_write_fails_where_the_node_moved_on_since_it_was_decided() -> None:
    node = a_node(
        labels=SHARE, records=_change(Step.CORDONED), unschedulable=True, resource_version="7"
    )
    assert _look(_seen(node)).resource_version == "7"


def test_a_node_is_not_done_while_pods_hold_cards_of_the_mode_that_went() -> None:
    records = _change(Step.LABELLED, of=Schedule.DEFAULT, restart=False)
    node = a_node(labels=CGPU, records=records, unschedulable=True, allocatable={MEMORY: 15})
    whole = a_gpu_pod(requests={names.RESOURCE_WHOLE_GPU: 1})
    plan = _step(node, NEW, INSTALLER, whole)
    assert (plan.state, plan.reason, plan.action) == (
        NodeState.BLOCKED,
        Reason.WORKLOADS_PRESENT,
        None,
    )
    assert "stays cordoned" in plan.message


def test_a_failed_node_is_not_let_go_for_a_pod_that_came() -> None:
    records = _change(Step.CORDONED, of=Schedule.CGPU, to=Schedule.DEFAULT, labelled_at=NOW)
    node = a_node(labels=CGPU, records=records, unschedulable=True)
    apply = _look(_seen(node, a_gpu_pod(phase="Pending")))
    assert apply.cordon
    assert apply.labels == {**CGPU, **UNVERIFIED}
    change = _read_change(apply)
    assert (change.of, change.to, change.step) == (Schedule.CGPU, Schedule.CGPU, Step.LABELLED)


def test_a_change_that_is_given_up_for_one_that_failed_restarts_the_plugin_of_that() -> None:
    """Whether it read the labels before that failed is not known."""
    records = _change(Step.CORDONED, of=Schedule.CGPU, to=Schedule.SHARE, labelled_at=NOW)
    node = a_node(labels=CGPU, records=records, unschedulable=True)
    change = _read_change(_look(_seen(node, OLD, a_gpu_pod(phase="Pending"))))
    assert (change.to, change.step, change.restart) == (Schedule.CGPU, Step.LABELLED, True)
