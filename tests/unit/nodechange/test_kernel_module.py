"""A kernel module that may be loaded is forgotten only by a teardown or with its system disk."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Pool, Schedule
from gpushare.core.nodechange.phases.labelled import plan_restart
from gpushare.core.nodechange.releasing import plan_release
from gpushare.core.records.change_record import ChangePhase
from gpushare.core.records.node_records import NodeRecords, parse_records
from gpushare.core.snapshot.actions import (
    ApplyNode,
    DeletePlugins,
    RecheckPods,
    RecordPlugins,
    ReleaseNode,
)
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext
from gpushare.names import Reason
from tests.kit.values.node_plans import (
    CGPU,
    INSTALLER,
    LEFT_INSTALLER,
    OURS,
    SHARE,
    a_failure,
    a_settled,
    an_isolating,
    applied,
    expect_applied,
    expect_apply,
    expect_recheck,
    expect_release,
    plan_leave_of,
    plan_of,
    recheck,
    unlabelled,
    written,
)
from tests.kit.values.objects import LATER, MEMORY, NOW, a_node, a_plugin_pod, a_pool
from tests.kit.values.teardown_plans import (
    PLUGIN,
    a_teardown,
    manual_pool,
    plan_teardown,
    teardown_node,
)

DEFAULT = {names.LABEL_SCHEDULE: "default"}
SHARE_POOL = a_pool(schedule="share")
SHARING = a_settled(allocatable={MEMORY: 15})
UNSEEN = replace(
    SHARING, owned=SHARING.owned - SHARE.keys(), managers=dict.fromkeys(SHARE, "kubectl")
)
"""While nobody looked somebody else took its label away and put it back."""


def _finish(node: Node, pool: Pool) -> NodeRecords:
    """What is recorded once nothing more is done to the node by itself."""
    pods = [PLUGIN]
    for _ in range(12):
        action = plan_teardown(node, pool, pods=pods, now=LATER).action
        seen = NodeSnapshot(node, pods, parse_records(node))
        match action:
            case ApplyNode():
                node = written(node, action)
            case RecheckPods():
                node = written(node, recheck(node, *pods, now=LATER))
            case RecordPlugins():
                node = written(node, plan_restart(seen, NOW))
            case DeletePlugins():
                pods = [a_plugin_pod("plugin-2")]
            case _:
                break
    return parse_records(node)


def expect_not_called_shared(found: NodeRecords) -> None:
    is_shared = found.applied is not None and found.applied.schedule is Schedule.SHARE
    assert not is_shared or found.module, found


def test_a_teardown_that_failed_is_not_forgotten_by_a_pool_that_changes_its_mind_twice() -> None:
    step = {"phase": ChangePhase.LABELLED, "reason": Reason.TEARDOWN_FAILED}
    failure = a_failure().model_copy(update=step)
    # Taken over as it was labelled by hand: no record says cgpu but that of the change.
    records = a_teardown(ChangePhase.LABELLED, failure=failure).model_copy(update={"applied": None})
    node = teardown_node(ChangePhase.LABELLED, records=records)
    begun = plan_teardown(node, a_pool(schedule="cgpu", generation=2))

    expect_not_called_shared(_finish(written(node, begun.action), manual_pool(generation=3)))


def _released(labels: dict[str, str]) -> Node:
    """A node that its last pool gave up: all that is left is what is known of the module."""
    node = a_node(labels=labels, allocatable={MEMORY: 15})
    return replace(node, annotations={names.ANNOTATION_MODULE: names.MODULE_LOADED})


def test_a_module_is_written_down_with_the_first_label_of_a_mode_that_loads_it() -> None:
    apply = expect_recheck(unlabelled(), PLUGIN)
    assert apply.labels[names.LABEL_SCHEDULE] == "cgpu"
    assert names.ANNOTATION_MODULE in apply.annotations


def test_a_node_is_given_up_once_although_its_module_is_known() -> None:
    node = an_isolating(records=applied(module=True))
    assert isinstance(expect_release(node).action, ReleaseNode)
    assert plan_leave_of(_released(DEFAULT)) is None


@pytest.mark.parametrize("labels", [{}, DEFAULT, SHARE], ids=["unlabelled", "default", "share"])
def test_the_next_pool_believes_it_and_carries_it(labels: dict[str, str]) -> None:
    expect_not_called_shared(_finish(_released(labels), manual_pool()))
    plan = plan_teardown(_released(labels), manual_pool())
    if isinstance(plan.action, ApplyNode):
        assert names.ANNOTATION_MODULE in plan.action.annotations
        plan = plan_teardown(written(_released(labels), plan.action), manual_pool())
    assert plan.reason is Reason.REQUIRES_TEARDOWN


@pytest.mark.parametrize(
    ("ready", "installer"),
    [(True, INSTALLER), (False, INSTALLER), (True, LEFT_INSTALLER)],
    ids=["in line", "not ready", "left over under its former name"],
)
def test_an_installer_is_noted_whatever_the_node_waits_for(ready: bool, installer: Pod) -> None:
    node = a_node(labels={**DEFAULT, **OURS}, records=applied("default"), ready=ready)
    plan = plan_of(node, a_pool(), installer, slot_free=False)
    assert not expect_apply(plan).cordon
    seen = written(node, plan.action)
    assert parse_records(seen).module
    assert plan_of(seen, a_pool(), installer, slot_free=False).action is None


def test_an_installer_that_never_ran_has_loaded_nothing() -> None:
    bound = replace(INSTALLER, phase="Pending", ready=False)
    assert plan_of(SHARING, SHARE_POOL, PLUGIN, bound).action is None


@pytest.mark.parametrize(("pods", "known"), [([PLUGIN], False), ([PLUGIN, INSTALLER], True)])
def test_the_end_of_a_teardown_forgets_it_unless_an_installer_came_since(
    pods: list[Pod], known: bool
) -> None:
    records = a_teardown(ChangePhase.RESTARTING).model_copy(update={"module": True})
    node = teardown_node(ChangePhase.RESTARTING, boot="boot-2", records=records)
    apply = expect_apply(plan_teardown(node, manual_pool(), pods=pods))
    assert not apply.cordon
    assert (names.ANNOTATION_MODULE in apply.annotations) is known


def test_a_label_that_somebody_put_back_while_nobody_looked_may_have_brought_an_installer() -> None:
    plan = plan_of(UNSEEN, SHARE_POOL, PLUGIN)
    assert parse_records(written(UNSEEN, plan.action)).module
    assert expect_applied(plan).mode_unknown


def _plan_drifted(schedule: str, *, acting_since: datetime, pod: Pod = PLUGIN) -> NodeRecords:
    """What is noted where somebody wrote `schedule` a second ago on a node in `share`."""
    found: dict[str, str | None] = {names.LABEL_SCHEDULE: None}
    records = applied(Schedule.SHARE).model_copy(update={"initial_values": found})
    node = a_settled(records=records, allocatable={MEMORY: 15})
    node = replace(
        node,
        labels={**node.labels, names.LABEL_SCHEDULE: schedule},
        owned=node.owned - {names.LABEL_SCHEDULE},
        managers={names.LABEL_SCHEDULE: "kubectl"},
        written_at={names.LABEL_SCHEDULE: NOW - timedelta(seconds=1)},
    )
    plan = plan_of(node, SHARE_POOL, pod, acting_since=acting_since)
    return parse_records(written(node, plan.action))


@pytest.mark.parametrize("schedule", ["share", "default", "cgpu"])
def test_before_a_label_that_nobody_saw_being_written_another_may_have_brought_it(
    schedule: str,
) -> None:
    assert _plan_drifted(schedule, acting_since=NOW).module


def test_a_label_that_was_seen_being_written_brought_none_though_its_plugin_is_in_doubt() -> None:
    earlier = NOW - timedelta(minutes=1)
    found = _plan_drifted("default", acting_since=earlier, pod=a_plugin_pod(restarts=1))
    assert found.applied is not None
    assert (found.applied.mode_unknown, found.module) == (True, False)


def test_a_node_that_leaves_keeps_what_a_label_may_have_brought_that_nobody_saw() -> None:
    left = written(UNSEEN, expect_release(UNSEEN, PLUGIN).action)
    assert (parse_records(left).module, parse_records(left).mode_unknown) == (True, True)
    assert isinstance(expect_release(left, PLUGIN).action, ReleaseNode)


def test_a_node_that_leaves_keeps_a_doubt_that_could_not_be_stored() -> None:
    seen = NodeSnapshot(SHARING, [PLUGIN], parse_records(SHARING), is_mode_unsaved=True)
    plan = plan_release(seen, None, ReconcileContext(NOW))
    assert plan is not None
    assert parse_records(written(SHARING, plan.action)).mode_unknown


WHOLE_CARDS = a_plugin_pod("plugin-1", daemonset="ack-nvidia-device-plugin")
OTHER_DISK: dict[str, Any] = {"machine_id": "machine-2", "kernel_version": "kernel-2"}
POOL = a_pool(schedule="default")


def _on(labels: dict[str, str], records: NodeRecords) -> Node:
    """At rest, and its module noted on the disk machine-1, in kernel-1."""
    node = a_node(labels={**labels, **OURS}, records=records, allocatable={MEMORY: 15})
    node = replace(node, machine_id="machine-1", kernel_version="kernel-1")
    noted = parse_records(node).annotations()
    return replace(node, annotations=noted, owned=node.owned | noted.keys())


NOTED = replace(_on(DEFAULT, applied("default", module=True)), allocatable={"nvidia.com/gpu": 1})


def _settle(node: Node) -> Node:
    """As its pool of whole cards leaves it."""
    action = plan_of(node, POOL, WHOLE_CARDS).action
    return node if action is None else written(node, action)


def test_a_replaced_disk_asks_for_no_teardown() -> None:
    plan = plan_teardown(NOTED, manual_pool(), pods=[WHOLE_CARDS])
    assert plan.reason is Reason.REQUIRES_TEARDOWN
    replaced = replace(NOTED, boot_id="boot-2", **OTHER_DISK)
    plan = plan_teardown(replaced, manual_pool(), pods=[WHOLE_CARDS])
    assert plan.reason is not Reason.REQUIRES_TEARDOWN
    settled = _settle(replaced)
    assert names.ANNOTATION_MODULE not in settled.annotations
    assert plan_of(settled, POOL, WHOLE_CARDS).action is None


def _on_other_disk(value: str) -> dict[str, Any]:
    return {**OTHER_DISK, "annotations": {**NOTED.annotations, names.ANNOTATION_MODULE: value}}


NO_PROOF: dict[str, dict[str, Any]] = {
    "another machineID alone": {"machine_id": "machine-2"},
    "another kernel alone": {"kernel_version": "kernel-2"},
    "another boot": {"boot_id": "boot-2"},
    "a machineID that is not told": {"machine_id": "", "kernel_version": "kernel-2"},
    "a kernel that is not told": {"machine_id": "machine-2", "kernel_version": ""},
    "a label of others": {**OTHER_DISK, "owned": NOTED.owned - {names.LABEL_SCHEDULE}},
    "a note of others": {**OTHER_DISK, "owned": NOTED.owned - {names.ANNOTATION_MODULE}},
    "no disk noted": _on_other_disk("loaded"),
    "an empty disk noted": _on_other_disk('{"v":1,"machineID":"","kernelVersion":""}'),
    "a note of another version": _on_other_disk('{"v":2,"machineID":"m","kernelVersion":"k"}'),
}


@pytest.mark.parametrize("change", NO_PROOF.values(), ids=NO_PROOF)
def test_what_proves_no_other_disk_leaves_the_module_noted(change: dict[str, Any]) -> None:
    node = replace(NOTED, **change)
    assert parse_records(node).module
    assert parse_records(_settle(node)).module


def test_a_kernel_that_changes_while_a_node_awaits_its_teardown_is_noted() -> None:
    upgraded = replace(NOTED, kernel_version="kernel-2")
    plan = plan_teardown(upgraded, manual_pool(), pods=[WHOLE_CARDS])
    noted = written(upgraded, plan.action)
    assert parse_records(replace(noted, machine_id="machine-2")).module
    again = plan_teardown(noted, manual_pool(), pods=[WHOLE_CARDS])
    assert (again.reason, again.action) == (Reason.REQUIRES_TEARDOWN, None)


def test_a_mode_that_isolates_is_noted_on_the_new_disk() -> None:
    replaced = replace(_on(CGPU, applied(module=True)), **OTHER_DISK)
    noted = written(replaced, plan_of(replaced, a_pool(), PLUGIN, INSTALLER).action)
    assert "machine-2" in noted.annotations[names.ANNOTATION_MODULE]
    assert parse_records(noted).module
    assert plan_teardown(noted, manual_pool()).reason is Reason.REQUIRES_TEARDOWN


def test_a_change_that_begins_where_the_module_is_to_be_noted_is_logged_by_its_own_rule() -> None:
    upgraded = replace(_on(SHARE, applied(Schedule.SHARE, module=True)), kernel_version="kernel-2")
    begun = plan_of(upgraded, a_pool(), PLUGIN)
    assert (begun.reason, begun.rule) == (Reason.CORDONED, "Stable: start")
    assert "kernel-2" in written(upgraded, begun.action).annotations[names.ANNOTATION_MODULE]
