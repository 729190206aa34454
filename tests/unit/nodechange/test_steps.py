"""An isolation change on one node, step by step."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Edition, Schedule
from gpushare.core.nodechange.member_step import MemberStep
from gpushare.core.nodechange.phases import labelled
from gpushare.core.nodechange.phases.cordoned import plan_abort
from gpushare.core.nodechange.phases.labelled import plan_restart
from gpushare.core.nodechange.state_machine import find_rule
from gpushare.core.nodechange.step import Step
from gpushare.core.records.applied_record import LastApplied
from gpushare.core.records.change_record import Change, ChangePhase, PluginPod
from gpushare.core.records.node_records import parse_records
from gpushare.core.snapshot.actions import ApplyNode, DeletePlugins, NamedPod, NodePlan, NodeState
from gpushare.core.snapshot.change_policy import Policy
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext
from gpushare.names import Reason
from tests.kit.values import node_plans as members
from tests.kit.values.node_plans import (
    INSTALLER,
    UNVERIFIED,
    applied,
    expect_apply,
    expect_change,
    expect_recheck,
    seconds_to_next,
)
from tests.kit.values.objects import LATER, MEMORY, NOW, a_gpu_pod, a_node, a_plugin_pod, a_pool

SHARE, CGPU = ({**mode, **members.OURS} for mode in (members.SHARE, members.CGPU))
BASIC_CGPU = {"cgpu": "true", "cgpu.disable.isolation": "false", **members.OURS}
OLD, NEW = a_plugin_pod("old"), a_plugin_pod("new")
RECORDED = (PluginPod(name=OLD.name, uid="old"),)
DELETE = DeletePlugins("gpu-1", (NamedPod(OLD.namespace, OLD.name, "old"),))


def _at(
    phase: ChangePhase, labels: dict[str, str] = CGPU, *, node: Any = None, **change: Any
) -> Node:
    """A cordoned node at this step from share to cgpu; nothing is recorded from before."""
    records = members.under_way(phase, **{"restart": True, **change})
    records = records.model_copy(update={"applied": None})
    return a_node(labels=labels, records=records, **{"unschedulable": True, **(node or {})})


def _restarting(offered: int = 15) -> Node:
    node = {"allocatable": {MEMORY: offered}}
    return _at(ChangePhase.RESTARTING, plugins=RECORDED, node=node)


CORDONED = _at(ChangePhase.CORDONED, SHARE)
CUT = replace(CORDONED, allocatable={"nvidia.com/mig-1g.5gb": 7})
LABELLED = _at(ChangePhase.LABELLED)


def _seen(node: Node, *pods: Pod, was_zero: bool = True) -> NodeSnapshot:
    return NodeSnapshot(node, pods, parse_records(node), was_zero)


def _step(node: Node, *pods: Pod, seconds: float = 0, was_zero: bool = True) -> NodePlan:
    now = NOW + timedelta(seconds=seconds)
    seen = _seen(node, *pods, was_zero=was_zero)
    step = MemberStep(seen, Policy(), ReconcileContext(now), a_pool())
    found = find_rule(step)
    return NodePlan(node.name, found.verdict, found.facts)


def _read_change(apply: ApplyNode | None) -> Change:
    assert apply is not None
    return Change.model_validate_json(apply.annotations[names.ANNOTATION_CHANGE])


def test_a_person_who_uncordons_the_node_is_given_way() -> None:
    plan = _step(_at(ChangePhase.CORDONED, SHARE, node={"unschedulable": False}))
    assert not expect_apply(plan).cordon
    assert expect_change(plan).phase is ChangePhase.DEFERRED


@pytest.mark.parametrize("phase", ["Pending", "Running"])
def test_a_pod_seen_after_the_cordon_makes_the_node_let_go_and_rest(phase: str) -> None:
    apply = expect_recheck(CORDONED, a_gpu_pod(phase=phase))
    assert (apply.cordon, apply.labels) == (False, SHARE)
    change = _read_change(apply)
    assert (change.phase, change.not_before) == (ChangePhase.DEFERRED, NOW + timedelta(seconds=30))
    assert change.why is not None
    assert "default/train-1" in change.why


def test_a_cordoned_node_that_offers_mig_devices_is_uncordoned() -> None:
    assert not expect_apply(_step(CUT)).cordon


@pytest.mark.parametrize("stays", [True, False])
def test_mig_devices_that_come_between_cordon_and_labels_end_the_change(*, stays: bool) -> None:
    apply = expect_recheck(CUT, stays=stays)
    assert (apply.cordon, apply.labels) == (False, SHARE)


def test_an_empty_cordoned_node_is_labelled_in_the_write_that_says_so() -> None:
    apply = expect_recheck(CORDONED, OLD)
    assert (apply.cordon, apply.labels) == (True, {**CGPU, **UNVERIFIED})
    change = _read_change(apply)
    assert (change.phase, change.labelled_at) == (ChangePhase.LABELLED, NOW)


def test_what_the_node_came_with_is_recorded_in_the_write_of_its_labels() -> None:
    node = _at(ChangePhase.CORDONED, SHARE, node={"owned": frozenset({names.ANNOTATION_CHANGE})})
    noted = expect_recheck(node, OLD).annotations
    assert parse_records(replace(node, annotations=noted)).initial_values == SHARE


def test_a_write_fails_where_the_node_moved_on_since_it_was_decided() -> None:
    assert expect_recheck(replace(CORDONED, resource_version="7")).resource_version == "7"


def _sharing(said: Mapping[str, str], before: LastApplied | None = None, **change: Any) -> Node:
    """Cordoned on its way from whole cards to sharing, with somebody's labels on it."""
    way: dict[str, Any] = {"from_mode": Schedule.DEFAULT, "to": Schedule.SHARE, **change}
    records = members.under_way(ChangePhase.CORDONED, **way).model_copy(update={"applied": before})
    return a_node(labels={**said, **members.OURS}, records=records, unschedulable=True)


ONCE_SHARED = applied(Schedule.SHARE, plugins={OLD.uid: 0}).applied
OF_AN_EARLIER_START = applied(Schedule.SHARE, plugins={OLD.uid: 1}).applied
FOREIGN = members.CGPU
ON_BASIC = _sharing({"cgpu": "true"}, edition=Edition.BASIC, to=Schedule.CGPU)
ON_OPEN_SOURCE = _sharing({"gpushare": "false"}, edition=Edition.OPEN_SOURCE)


@pytest.mark.parametrize(
    ("node", "plugins", "restart"),
    [
        pytest.param(_sharing(FOREIGN), (OLD,), True, id="may have read it"),
        pytest.param(_sharing(FOREIGN), (), False, id="not there yet"),
        pytest.param(_sharing(SHARE), (OLD,), False, id="has read ours"),
        pytest.param(_sharing(FOREIGN, ONCE_SHARED), (OLD,), False, id="never left"),
        pytest.param(_sharing(FOREIGN, OF_AN_EARLIER_START), (OLD,), True, id="came anew"),
        pytest.param(ON_BASIC, (OLD,), False, id="a label says ours in short"),
        pytest.param(ON_OPEN_SOURCE, (OLD,), False, id="reads no label"),
    ],
)
def test_a_plugin_that_came_by_anothers_label_is_restarted_under_ours(
    node: Node, plugins: tuple[Pod, ...], restart: bool
) -> None:
    assert _read_change(expect_recheck(node, *plugins)).restart is restart


def test_where_no_plugin_may_be_restarted_the_node_lets_go_of_one_that_came_by_anothers_label() -> (
    None
):
    apply = expect_recheck(_sharing(FOREIGN), OLD, may_restart=False)
    assert (apply.cordon, _read_change(apply).phase) == (False, ChangePhase.DEFERRED)


@pytest.mark.parametrize("is_strict", [False, True])
def test_on_basic_a_running_pod_ends_the_way_out_of_isolation_where_it_requires_isolation(
    is_strict: bool,
) -> None:
    way: dict[str, Any] = {"from_mode": Schedule.CGPU, "to": Schedule.SHARE}
    node = _at(ChangePhase.CORDONED, BASIC_CGPU, edition=Edition.BASIC, **way)
    apply = expect_recheck(node, a_gpu_pod(requires_isolation=is_strict))
    assert apply.cordon is not is_strict


def test_the_record_names_the_plugins_pods_and_the_gpu_pods_that_were_bound() -> None:
    node = _at(ChangePhase.LABELLED, BASIC_CGPU, edition=Edition.BASIC)
    change = _read_change(plan_restart(_seen(node, OLD, INSTALLER, a_gpu_pod("train-1")), NOW))
    assert (change.phase, change.plugins) == (ChangePhase.RESTARTING, RECORDED)
    assert change.before == ("uid-of-train-1",)


def test_no_plugin_is_recorded_for_deletion_on_a_node_that_is_in_service() -> None:
    assert plan_restart(_seen(replace(LABELLED, unschedulable=False), OLD), NOW) is None


def test_a_pod_that_came_after_the_labels_is_waited_for_before_the_restart() -> None:
    plan = _step(LABELLED, OLD, a_gpu_pod())
    members.expect_idle(plan, NodeState.BLOCKED, Reason.WORKLOADS_PRESENT)
    assert plan_restart(_seen(LABELLED, OLD, a_gpu_pod()), NOW) is None


def test_only_recorded_pods_are_deleted() -> None:
    assert _step(_restarting(), OLD, NEW).action == DELETE


def test_a_pod_that_is_being_deleted_is_not_deleted_again() -> None:
    assert _step(_restarting(), a_plugin_pod("old", deleting=True)).action is None


def test_a_record_never_makes_a_pod_a_victim_that_is_no_plugin() -> None:
    proxy = a_plugin_pod("old", daemonset="kube-proxy")
    assert not isinstance(_step(_restarting(), proxy).action, DeletePlugins)


def test_the_pod_is_deleted_by_its_own_name_whatever_the_record_says() -> None:
    node = _at(
        ChangePhase.RESTARTING,
        plugins=(PluginPod(name="../../nodes/x", uid="old"),),
    )
    assert _step(node, OLD).action == DELETE


NOT_READY = a_plugin_pod("new", ready=False, ready_since=None)


@pytest.mark.parametrize(
    ("offered", "pods", "reason"),
    [
        (15, (a_plugin_pod("old", deleting=True), INSTALLER), Reason.PLUGIN_RESTARTING),
        (15, (NOT_READY, INSTALLER), Reason.PLUGIN_RESTARTING),
        (15, (NEW,), Reason.COMPONENT_NOT_READY),
        (0, (NEW, INSTALLER), Reason.RESOURCE_NOT_READY),
    ],
    ids=["the old plugin", "a plugin that is not ready", "no installer", "no resource"],
)
def test_a_change_is_not_over_before_plugin_installer_and_resource_are_there(
    offered: int, pods: tuple[Pod, ...], reason: Reason
) -> None:
    members.expect_idle(_step(_restarting(offered), *pods), NodeState.UPDATING, reason)


def test_a_resource_that_never_went_through_zero_is_believed_only_after_a_while() -> None:
    plan = _step(_restarting(), NEW, INSTALLER, was_zero=False)
    assert (plan.reason, seconds_to_next(plan)) == (Reason.RESOURCE_NOT_READY, 12)
    expect_apply(_step(_restarting(), NEW, INSTALLER, was_zero=False, seconds=12))


def test_the_verified_node_is_uncordoned_in_the_write_that_records_it() -> None:
    plan = _step(_restarting(), NEW, INSTALLER, a_gpu_pod("train-1"))
    assert not expect_apply(plan).cordon
    assert names.ANNOTATION_CHANGE not in expect_apply(plan).annotations
    record = members.expect_applied(plan)
    assert (record.schedule, record.plugins) == (Schedule.CGPU, {"new": 0})
    assert (record.boot_id, record.before) == ("boot-1", ("uid-of-train-1",))


FIRST = frozenset({names.BEFORE_FIRST_APPLY})
TWO = FIRST | {"kubectl-cordon"}


@pytest.mark.parametrize(
    ("node", "own", "lifts"),
    [
        ({}, True, True),
        ({"owns_cordon": True, "cordoned_by": FIRST}, True, True),
        ({"owns_cordon": True}, True, False),
        ({"owns_cordon": True, "cordoned_by": TWO}, True, False),
        ({"cordoned_by": frozenset({"kubectl-cordon"})}, True, False),
        ({"owns_cordon": True, "cordoned_by": FIRST}, None, False),
        ({"unschedulable": False}, True, False),
    ],
    ids=[
        "emptied",
        "emptied and applied since",
        "ours alone",
        "a user's, too",
        "a user's",
        "not known to be its own",
        "none",
    ],
)
def test_a_cordon_of_a_change_is_lifted_where_managed_fields_were_emptied(
    node: dict[str, Any], own: bool | None, lifts: bool
) -> None:
    """What an apply leaves out stays, where the field manager does not own it alone."""
    ready = _at(
        ChangePhase.RESTARTING,
        plugins=RECORDED,
        was_schedulable=own,
        node={"allocatable": {MEMORY: 15}, **node},
    )
    cordoned = _at(ChangePhase.CORDONED, SHARE, was_schedulable=own, node=node)
    done = labelled.complete(Step(_seen(ready, NEW, INSTALLER), Policy(), ReconcileContext(NOW)))
    aborted = plan_abort(_seen(cordoned), why="the pool changed", now=NOW)
    for action in (expect_apply(done), aborted):
        assert (action.cordon, action.lifts_cordon) == (False, lifts)


@pytest.mark.parametrize(
    ("node", "own"),
    [
        ({}, True),
        ({"unschedulable": True, "cordoned_by": frozenset({"kubectl-cordon"})}, None),
        ({"unschedulable": True}, None),
        ({"unschedulable": True, "owns_cordon": True}, True),
    ],
    ids=["in service", "a user cordoned it", "nobody knows who did", "we did, and nobody else"],
)
def test_a_change_records_whether_the_cordon_is_its_own(
    node: dict[str, Any], own: bool | None
) -> None:
    plan = members.plan_of(members.a_settled(**node), a_pool(schedule="cgpu"), a_plugin_pod())
    assert expect_change(plan).was_schedulable is own


def test_leaving_sharing_on_open_source_is_done_when_plugin_and_memory_are_gone() -> None:
    labels = {names.LABEL_GPUSHARE: "false", **members.OURS}
    way = {"edition": Edition.OPEN_SOURCE, "to": Schedule.DEFAULT, "restart": False}
    busy, free = (
        _at(ChangePhase.LABELLED, labels, node={"allocatable": {MEMORY: offered}}, **way)
        for offered in (15, 0)
    )
    assert _step(busy, OLD).reason is Reason.PLUGIN_RESTARTING
    assert _step(busy).reason is Reason.RESOURCE_NOT_READY
    expect_apply(_step(free))


def test_a_node_is_not_done_while_pods_hold_cards_of_the_mode_that_went() -> None:
    whole = a_gpu_pod(requests={names.RESOURCE_WHOLE_GPU: 1})
    way: dict[str, Any] = {"from_mode": Schedule.DEFAULT, "restart": False}
    node = _at(ChangePhase.LABELLED, node={"allocatable": {MEMORY: 15}}, **way)
    plan = _step(node, NEW, INSTALLER, whole)
    members.expect_idle(plan, NodeState.BLOCKED, Reason.WORKLOADS_PRESENT)


PUT_BACK = {
    "owned": frozenset({*members.OURS, names.ANNOTATION_CHANGE}),
    "managers": dict.fromkeys(members.CGPU, "kubectl-label"),
}


@pytest.mark.parametrize(
    ("labels", "node"),
    [(SHARE, {}), (CGPU, PUT_BACK)],
    ids=["another value", "taken away and put back by somebody else"],
)
def test_labels_that_somebody_changes_during_the_change_are_put_back_and_the_restart_repeated(
    labels: dict[str, str], node: dict[str, Any]
) -> None:
    """The plugin may have read them."""
    plan = _step(_at(ChangePhase.RESTARTING, labels, node=node, plugins=RECORDED), NEW, INSTALLER)
    apply = expect_apply(plan)
    assert (apply.cordon, apply.labels) == (True, {**CGPU, **UNVERIFIED})
    change = expect_change(plan)
    assert (change.phase, change.plugins, change.restart) == (ChangePhase.LABELLED, (), True)


def test_managed_fields_that_are_emptied_during_the_change_repeat_no_restart() -> None:
    emptied = {"owned": frozenset(), "allocatable": {MEMORY: 15}}
    node = _at(ChangePhase.RESTARTING, node=emptied, plugins=RECORDED, node_uid="uid-of-gpu-1")
    change = expect_change(_step(node, NEW, INSTALLER))
    assert (change.phase, change.plugins) == (ChangePhase.RESTARTING, RECORDED)


@pytest.mark.parametrize("phase", [ChangePhase.LABELLED, ChangePhase.RESTARTING])
def test_a_cordon_that_a_person_lifts_before_the_plugin_is_back_is_set_again(
    phase: ChangePhase,
) -> None:
    node = _at(phase, node={"unschedulable": False})
    assert expect_apply(_step(node, NEW, INSTALLER)).cordon


def test_a_failed_node_that_a_user_uncordoned_is_cordoned_again_in_another_attempt_too() -> None:
    pool = a_pool(schedule="share", generation=2)
    plan = members.plan_of(members.cordoned(members.failed(), unschedulable=False), pool, now=LATER)
    assert (plan.state, expect_apply(plan).cordon) == (NodeState.FAILED, True)


def test_a_failed_node_is_looked_at_in_time_though_the_pool_wants_another_mode() -> None:
    plugin = a_plugin_pod("new", ready_since=LATER - timedelta(seconds=2))
    pool = a_pool(schedule="share", generation=2)
    node = members.cordoned(members.failed(restart=True), offered=15)
    plan = members.plan_of(node, pool, plugin, INSTALLER, now=LATER)
    members.expect_idle(plan, NodeState.FAILED, Reason.DEADLINE_EXCEEDED)
    assert seconds_to_next(plan) == 10
