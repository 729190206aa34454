"""What is in force on a node is not always what its labels say."""

from dataclasses import replace
from typing import Any

import pytest

from gpushare import names
from gpushare.api.pod import Pod
from gpushare.api.pool import Edition, Schedule
from gpushare.core.actions import ReleaseNode
from gpushare.core.inforce import find_in_force
from gpushare.core.records import Step
from gpushare.names import Reason
from tests.kit.values.node_plans import (
    CGPU,
    INSTALLER,
    NEVER,
    OURS,
    SHARE,
    VERIFIED,
    applied,
    expect_applied,
    expect_apply,
    expect_change,
    expect_leaving,
    plan_of,
    plan_once_noted,
    under_way,
)
from tests.kit.values.objects import (
    MEMORY,
    a_gpu_pod,
    a_node,
    a_plugin_pod,
    a_pool,
)


@pytest.mark.parametrize("ours", [False, True], ids=["in service", "its record was removed"])
def test_a_mode_that_was_labelled_by_hand_is_not_taken_for_one_that_is_in_force(ours: bool) -> None:
    records = applied(Schedule.SHARE)
    node = a_node(labels={**CGPU, **OURS}, records=records, unschedulable=ours, owns_cordon=ours)
    plan = plan_of(node, a_pool(), a_plugin_pod("plugin-1"))
    assert expect_apply(plan).cordon
    change = expect_change(plan)
    assert (change.of, change.restart) == (Schedule.SHARE, True)
    held = plan_of(node, a_pool(), a_plugin_pod("plugin-1"), a_gpu_pod())
    assert held.reason is Reason.WORKLOADS_PRESENT
    assert ("The cordon is ours" in held.message) is ours


@pytest.mark.parametrize("boot", ["boot-1", "boot-0"], ids=["same boot", "after a reboot"])
@pytest.mark.parametrize("plugin", ["plugin-1", "plugin-2"], ids=["same plugin", "another"])
def test_isolation_that_was_unlabelled_by_hand_still_needs_its_teardown(
    plugin: str, boot: str
) -> None:
    records = applied(boot_id=boot)
    node = a_node(labels={**SHARE, **OURS}, records=records, allocatable={MEMORY: 15})
    plan = plan_of(node, a_pool(schedule="share"), a_plugin_pod(plugin))
    assert (plan.reason, plan.action) == (Reason.REQUIRES_TEARDOWN, None)
    assert plan.message.startswith("cgpu -> share:")


def test_pods_of_another_mode_hold_up_labels_that_would_give_their_cards_away() -> None:
    plan = plan_of(a_node(), a_pool(schedule="default"), a_gpu_pod())
    assert (plan.reason, plan.action) == (Reason.WORKLOADS_PRESENT, None)


def test_pods_that_select_their_pool_hold_up_a_move_to_another() -> None:
    other = {names.LABEL_POOL: "other"}
    node = a_node(labels={**CGPU, **other}, records=applied(pool="other"))
    pod = a_gpu_pod(selects=frozenset(other.items()))
    plan = plan_of(node, a_pool(), pod, a_plugin_pod())
    assert (plan.reason, plan.action) == (Reason.WORKLOADS_PRESENT, None)
    assert expect_apply(plan_of(node, a_pool(), a_gpu_pod(), a_plugin_pod())).labels == {
        **CGPU,
        **OURS,
        **VERIFIED,
    }


OFFERS: dict[str, Any] = {"allocatable": {MEMORY: 15}, "gpu_count": 1}


def test_a_cordon_of_ours_without_a_record_is_lifted_before_the_node_is_released() -> None:
    node = a_node(labels={**CGPU, **OURS}, records=applied(), unschedulable=True, owns_cordon=True)
    plan = expect_leaving(node)
    assert not expect_apply(plan).cordon


def test_a_reboot_that_changed_nothing_is_remembered_as_the_one_that_counts() -> None:
    records = applied(boot_id="boot-0", before=("train-1",))
    node = a_node(labels={**CGPU, **OURS}, records=records)
    record = expect_applied(plan_of(node, a_pool(), a_plugin_pod("plugin-1", restarts=1)))
    assert (record.boot_id, record.before) == ("boot-1", ())


def test_a_node_on_which_only_our_annotations_are_left_is_released_too() -> None:
    node = a_node(labels={**CGPU, **OURS}, records=applied(), owned=frozenset())
    plan = expect_leaving(node)
    assert isinstance(plan.action, ReleaseNode)


def test_a_restart_that_is_forbidden_meanwhile_is_not_begun() -> None:
    records = under_way(Step.CORDONED, restart=True)
    node = a_node(labels={**SHARE, **OURS}, records=records, unschedulable=True)
    assert not expect_apply(plan_of(node, NEVER)).cordon


@pytest.mark.parametrize(("phase", "in_force"), [("Pending", "share"), ("Running", "default")])
def test_another_modes_plugin_puts_it_in_force_once_it_runs(phase: str, in_force: str) -> None:
    """Until then the label is put back at once, and the pod goes with it."""
    node = a_node(labels={names.LABEL_SCHEDULE: "default", **OURS})
    foreign = a_plugin_pod("nvidia", daemonset="ack-nvidia-device-plugin", phase=phase)
    record = applied(Schedule.SHARE).applied
    assert find_in_force(Edition.PROFESSIONAL, node, (foreign,), record) == in_force


@pytest.mark.parametrize(
    ("theirs", "plugin", "misread"),
    [
        ("SamePlugin", a_plugin_pod("plugin-2"), True),
        ("SamePlugin", a_plugin_pod("plugin-1", restarts=1), True),
        ("OtherPlugin", a_plugin_pod("plugin-2"), False),
        ("OtherPlugin", a_plugin_pod("plugin-1", restarts=1), True),
        ("OtherPlugin", a_plugin_pod("plugin-1"), False),
    ],
)
def test_a_plugin_that_is_told_of_after_a_label_was_put_back_may_have_read_the_other_one(
    theirs: str, plugin: Pod, misread: bool
) -> None:
    """A pod that left with the foreign label, and came back with ours, has read ours."""
    node = a_node(labels={**CGPU, **OURS}, records=applied(put_back=theirs), **OFFERS)
    plan = plan_once_noted(node, a_pool(), plugin, INSTALLER)
    assert (plan.reason is Reason.CORDONED) is misread


@pytest.mark.parametrize(("theirs", "told"), [("share", "SamePlugin"), ("default", "OtherPlugin")])
def test_what_was_put_back_is_remembered_by_the_plugin_that_it_had(theirs: str, told: str) -> None:
    records = applied().model_copy(update={"found": {names.LABEL_SCHEDULE: None}})
    labels = {**CGPU, **OURS, names.LABEL_SCHEDULE: theirs}
    node = a_node(labels=labels, records=records, **OFFERS)
    node = replace(node, owned=node.owned - {names.LABEL_SCHEDULE})
    plan = plan_of(node, a_pool(), a_plugin_pod("plugin-1"), INSTALLER)
    assert expect_applied(plan).put_back == told
