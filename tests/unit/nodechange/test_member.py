"""What a member of a pool needs next; what is in force is not always what its labels say."""

from dataclasses import replace
from typing import Any

import pytest

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Edition, Pool, Schedule
from gpushare.core.records.change_record import ChangePhase
from gpushare.core.snapshot.actions import NodeState
from gpushare.core.status.pool_status import MAX_SAMPLE_BYTES
from gpushare.editions.registry import MODES
from gpushare.names import Reason
from tests.kit.values.node_plans import (
    CGPU,
    INSTALLER,
    NEVER,
    OURS,
    SHARE,
    UNVERIFIED,
    VERIFIED,
    a_settled,
    an_isolating,
    applied,
    deferred,
    expect_applied,
    expect_apply,
    expect_change,
    expect_idle,
    expect_release,
    plan_of,
    under_way,
    unlabelled,
)
from tests.kit.values.objects import (
    MEMORY,
    NOW,
    PRO_DAEMONSETS,
    a_gpu_pod,
    a_node,
    a_plugin_pod,
    a_pool,
)

PLUGIN = a_plugin_pod()
DEFERRED = a_node(labels={**SHARE, **OURS}, records=deferred(0.4))
OFFERING = an_isolating(allocatable={MEMORY: 15})
MIG = a_node(allocatable={"nvidia.com/mig-1g.5gb": 7})


def test_a_node_in_the_pools_mode_already_is_labelled_in_one_write_without_a_cordon() -> None:
    apply = expect_apply(plan_of(a_node(labels=CGPU), a_pool(), a_gpu_pod()))
    assert (apply.cordon, apply.labels) == (False, {**CGPU, **OURS, **UNVERIFIED})
    assert apply.annotations == {
        names.ANNOTATION_INITIAL_VALUES: '{"ack.node.gpu.schedule":"cgpu","gpushare.io/pool":null}',
        names.ANNOTATION_MODULE: names.MODULE_LOADED,
    }


def test_a_node_that_is_as_the_pool_says_is_ready_and_nothing_is_written() -> None:
    plan = plan_of(OFFERING, a_pool(), PLUGIN, INSTALLER)
    assert (plan.state, plan.action) == (NodeState.READY, None)


@pytest.mark.parametrize(
    "node", [a_node(), a_node(labels={**SHARE, names.LABEL_POOL: "ghost"})], ids=["bare", "ghost"]
)
def test_a_node_that_joins_takes_no_slot_whatever_its_template_says(node: Node) -> None:
    plan = plan_of(node, a_pool(), PLUGIN, slot_free=False)
    assert expect_apply(plan).cordon
    assert not plan.uses_budget


SELECTING = a_gpu_pod(requests={}, selects=frozenset(SHARE.items()))
STRANGE, BASIC = a_node(labels={names.LABEL_SCHEDULE: "egpu"}), a_node(labels={"cgpu": "true"})


@pytest.mark.parametrize(
    ("node", "pool", "pods", "reason", "told"),
    [
        (a_settled(), a_pool(), (a_gpu_pod(),), Reason.WORKLOADS_PRESENT, "default/train-1"),
        (a_settled(), a_pool(), (a_gpu_pod(phase="Pending"),), Reason.WORKLOADS_PRESENT, ""),
        (a_settled(), a_pool(), (SELECTING,), Reason.WORKLOADS_PRESENT, ""),
        (a_node(), a_pool(schedule="default"), (a_gpu_pod(),), Reason.WORKLOADS_PRESENT, ""),
        (STRANGE, a_pool(), (), Reason.REQUIRES_MANUAL_ACTION, "1. "),
        (MIG, a_pool(), (), Reason.MIG_NODE, ""),
        (BASIC, a_pool(), (), Reason.OTHER_EDITION_LABELS, "cgpu=true"),
        (an_isolating(), a_pool(), (PLUGIN, INSTALLER), Reason.RESOURCE_NOT_READY, ""),
        (OFFERING, a_pool(), (INSTALLER,), Reason.PLUGIN_RESTARTING, ""),
    ],
    ids=[
        "pods of the old mode", "a pod that starts", "a pod that selects it",
        "pods whose cards would go",
        "an unknown mode", "MIG devices", "another edition", "it serves nothing", "no plugin",
    ],
)  # fmt: skip
def test_what_holds_a_node_up_is_told_and_nothing_is_written(
    node: Node, pool: Pool, pods: tuple[Pod, ...], reason: Reason, told: str
) -> None:
    plan = plan_of(node, pool, *pods)
    assert (plan.reason, plan.action) == (reason, None)
    assert told in plan.message


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        ({"cgpu": "true"}, "(Basic) share the node's GPUs: cgpu=true. "),
        ({"cgpu": "true"}, "recreate the pool with spec.edition Basic (the edition cannot be "),
        ({"gpushare": "true"}, "with spec.edition OpenSource "),
        ({"gpushare": "true", "cgpu": "true"}, "with spec.edition Basic or OpenSource "),
    ],
)
def test_another_editions_labels_are_told_with_that_edition_which_may_serve_the_node(
    labels: dict[str, str], told: str
) -> None:
    message = plan_of(a_node(labels=labels), a_pool()).message
    assert told in message
    assert len(message) <= MAX_SAMPLE_BYTES


def test_a_missing_daemonset_is_found_before_anything_is_written() -> None:
    plan = plan_of(a_node(), a_pool(), daemonsets=PRO_DAEMONSETS - {"cgpu-installer"})
    expect_idle(plan, NodeState.BLOCKED, Reason.COMPONENT_MISSING)
    assert "cgpu-installer" in plan.message


def test_with_restart_never_labels_are_written_and_the_node_is_reported() -> None:
    plan = plan_of(a_settled(), NEVER, PLUGIN)
    apply = expect_apply(plan)
    assert (apply.cordon, apply.labels) == (False, {**CGPU, **OURS, **UNVERIFIED})
    assert expect_applied(plan).restart_pending


AWAITS = an_isolating(records=applied(restart_pending=True), allocatable={MEMORY: 15})


def test_the_command_that_restarts_the_plugin_fits_in_a_sample_where_names_are_long() -> None:
    node = replace(AWAITS, name="cn-hangzhou.192.168.100.200")
    plugin = replace(PLUGIN, name="gpushare-core-device-plugin-ds-x7k2p", node=node.name)
    idle = plan_of(node, NEVER, plugin, replace(INSTALLER, node=node.name))
    plan = expect_idle(idle, NodeState.BLOCKED, Reason.PLUGIN_RESTART_NEEDED)
    command = f"kubectl cordon {node.name} && kubectl -n kube-system delete pod {plugin.name}`"
    assert command in plan.message[: MAX_SAMPLE_BYTES - 3]


def test_a_person_who_restarts_the_plugin_makes_the_node_ready() -> None:
    plan = plan_of(AWAITS, NEVER, a_plugin_pod("plugin-2"), INSTALLER)
    assert not expect_applied(plan).restart_pending


@pytest.mark.parametrize("ours", [False, True], ids=["in service", "its record was removed"])
def test_a_mode_that_was_labelled_by_hand_is_not_taken_for_one_that_is_in_force(ours: bool) -> None:
    records = applied(Schedule.SHARE)
    node = a_node(labels={**CGPU, **OURS}, records=records, unschedulable=ours, owns_cordon=ours)
    plan = plan_of(node, a_pool(), a_plugin_pod("plugin-1"))
    assert expect_apply(plan).cordon
    change = expect_change(plan)
    assert (change.from_mode, change.restart) == (Schedule.SHARE, True)
    held = plan_of(node, a_pool(), a_plugin_pod("plugin-1"), a_gpu_pod())
    assert held.reason is Reason.WORKLOADS_PRESENT
    assert ("stays cordoned meanwhile" in held.message) is ours
    assert ("The node still takes new pods" in held.message) is not ours


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


def test_a_node_moves_to_another_pool_unless_pods_select_the_one_that_it_leaves() -> None:
    other = {names.LABEL_POOL: "other"}
    node = a_node(labels={**CGPU, **other}, records=applied(pool="other"))
    held = plan_of(node, a_pool(), a_gpu_pod(selects=frozenset(other.items())), PLUGIN)
    assert (held.reason, held.action) == (Reason.WORKLOADS_PRESENT, None)
    moved = expect_apply(plan_of(node, a_pool(), a_gpu_pod(), PLUGIN))
    assert moved.labels == {**CGPU, **OURS, **VERIFIED}


OFFERS: dict[str, Any] = {"allocatable": {MEMORY: 15}, "gpu_count": 1}


def test_a_cordon_of_ours_without_a_record_is_lifted_before_the_node_is_released() -> None:
    node = a_node(labels={**CGPU, **OURS}, records=applied(), unschedulable=True, owns_cordon=True)
    plan = expect_release(node)
    assert not expect_apply(plan).cordon


def test_a_reboot_that_changed_nothing_is_remembered_as_the_one_that_counts() -> None:
    records = applied(boot_id="boot-0", before=("train-1",))
    node = a_node(labels={**CGPU, **OURS}, records=records)
    record = expect_applied(plan_of(node, a_pool(), a_plugin_pod("plugin-1", restarts=1)))
    assert (record.boot_id, record.before) == ("boot-1", ())


@pytest.mark.parametrize(("theirs", "told"), [("share", "SamePlugin"), ("default", "OtherPlugin")])
def test_what_was_put_back_is_remembered_by_the_plugin_that_it_had(theirs: str, told: str) -> None:
    records = applied().model_copy(update={"initial_values": {names.LABEL_SCHEDULE: None}})
    labels = {**CGPU, **OURS, names.LABEL_SCHEDULE: theirs}
    node = a_node(labels=labels, records=records, **OFFERS)
    node = replace(node, owned=node.owned - {names.LABEL_SCHEDULE})
    plan = plan_of(node, a_pool(), a_plugin_pod("plugin-1"), INSTALLER)
    assert expect_applied(plan).reverted == told


def test_when_a_brief_label_is_reverted_pods_are_recorded_that_run_or_were_recorded() -> None:
    """A kubelet that has yet to report that one runs may have to report a plugin's restart."""
    records = applied(before=("uid-of-older",))
    node = a_node(labels={**CGPU, **OURS, **SHARE}, records=records, **OFFERS)
    brief = {names.LABEL_SCHEDULE: NOW}
    node = replace(node, owned=node.owned - SHARE.keys(), written_at=brief)
    waiting = (a_gpu_pod("older", phase="Pending"), a_gpu_pod("late", phase="Pending"))
    plan = plan_of(node, a_pool(), a_plugin_pod("plugin-1"), a_gpu_pod(), *waiting)
    record = expect_applied(plan)
    assert record.reverted == "SamePlugin"
    assert record.before == ("uid-of-older", "uid-of-train-1")
    assert record.admitted == {"uid-of-train-1": "cgpu"}


def test_a_node_that_gave_way_is_no_step_towards_a_mode_that_nobody_wants_any_more() -> None:
    assert plan_of(DEFERRED, a_pool(), PLUGIN).kind is not None
    assert plan_of(DEFERRED, a_pool(schedule="default"), PLUGIN).kind is None


def test_a_node_of_whole_cards_starts_its_change_to_a_mode_of_another_edition() -> None:
    records = applied(Schedule.DEFAULT, plugins={})
    labels = {**MODES[Edition.PROFESSIONAL, Schedule.DEFAULT].labels, **OURS}
    node = a_node(labels=labels, records=records)
    installed = frozenset(MODES[Edition.BASIC, Schedule.CGPU].daemonsets)
    plan = plan_of(node, a_pool(edition="Basic"), daemonsets=installed)
    assert plan.started, plan


def test_a_node_that_leaves_while_only_cordoned_is_let_go_first() -> None:
    apply = expect_apply(expect_release(unlabelled()))
    assert not apply.cordon
    assert names.ANNOTATION_CHANGE not in apply.annotations


def test_a_restart_that_is_forbidden_meanwhile_is_not_begun() -> None:
    node = unlabelled(under_way(ChangePhase.CORDONED, restart=True))
    assert not expect_apply(plan_of(node, NEVER)).cordon


@pytest.mark.parametrize("minutes", [0, 60 * 24 * 365], ids=["it is over", "it is too long"])
def test_a_node_rests_no_longer_than_it_may(minutes: float) -> None:
    node = a_node(labels={**SHARE, **OURS}, records=deferred(minutes))
    assert expect_apply(plan_of(node, a_pool())).cordon


def test_placement_changes_without_cordon_or_slot() -> None:
    pool = a_pool(placement="spread")
    apply = expect_apply(plan_of(an_isolating(), pool, PLUGIN, a_gpu_pod(), slot_free=False))
    assert (apply.cordon, apply.labels[names.LABEL_PLACEMENT]) == (False, "spread")
