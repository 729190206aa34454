"""Leaving isolation for good: who begins it, and what a node waits for until its module is gone."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gpushare import names
from gpushare.api.k8s.gpu_request import ALL_DEVICES
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Pool, Schedule
from gpushare.core.nodechange.phases.labelled import plan_restart
from gpushare.core.ownership.drift import PATIENCE
from gpushare.core.records.change_record import ChangePhase
from gpushare.core.records.node_records import NodeRecords, parse_records
from gpushare.core.snapshot.actions import NodeState, RecheckPods, RecordPlugins
from gpushare.core.snapshot.node import NodeSnapshot
from gpushare.names import Reason
from tests.kit.values.node_plans import (
    CGPU,
    OURS,
    SHARE,
    a_failure,
    agreed,
    an_isolating,
    applied,
    expect_applied,
    expect_apply,
    expect_change,
    expect_idle,
    expect_release,
    halted_by,
    plan_of,
    recheck,
    written,
)
from tests.kit.values.objects import LATER, NOW, a_gpu_pod, a_node, a_plugin_pod, a_pool
from tests.kit.values.teardown_plans import (
    LONG_AFTER,
    PLUGIN,
    a_teardown,
    change_of,
    expect_written,
    job_pool,
    manual_pool,
    plan_teardown,
    teardown_node,
    write,
)

START, DONE = names.TEARDOWN_START, names.TEARDOWN_DONE


@pytest.mark.parametrize("pool", [manual_pool(), job_pool()], ids=["by hand", "by a Job"])
def test_it_begins_like_any_change_with_a_cordon(pool: Pool) -> None:
    plan = plan_teardown(an_isolating(teardown=START), pool)
    change = expect_change(plan)
    assert plan.uses_budget
    assert (change.from_mode, change.to) == (Schedule.CGPU, Schedule.SHARE)
    assert change.phase is ChangePhase.CORDONED
    assert change.teardown is not None
    assert not change.restart


def test_jobs_begin_by_themselves_only_where_the_installation_allows_it() -> None:
    assert plan_teardown(an_isolating(), job_pool()).uses_budget
    plan = plan_teardown(an_isolating(), job_pool(), may_tear_down=False)
    assert (plan.state, plan.reason) == (NodeState.BLOCKED, Reason.TEARDOWN_DISABLED)
    assert "teardown.jobs.enabled" in plan.message


def test_who_agreed_to_a_teardown_by_hand_did_not_agree_to_jobs() -> None:
    kinds = {
        plan.kind
        for pool in (manual_pool(), job_pool(), job_pool("Sentinel"))
        if (plan := plan_teardown(an_isolating(), pool))
    }
    assert len({str(kind) for kind in kinds}) == 3
    by_hand = "cgpu -> share: needs a teardown; workloads Wait; teardown Manual"
    assert by_hand in map(str, kinds)
    assert all(kind is not None and kind.is_done and kind.reboots for kind in kinds)


def test_a_teardown_that_began_by_hand_stays_so_until_somebody_agrees_to_jobs() -> None:
    manual = plan_teardown(an_isolating(), manual_pool()).kind
    job = plan_teardown(an_isolating(), job_pool()).kind
    assert manual is not None
    assert job is not None
    for kind, reason in ((manual, NodeState.BLOCKED), (job, NodeState.UPDATING)):
        status = agreed(kind, to="abc")
        rollout = {"approval": "Manual", "approved_plan": "abc"}
        pool = job_pool(rollout=rollout, status=status)
        plan = plan_teardown(teardown_node(ChangePhase.LABELLED), pool)
        assert (plan.state, plan.reason) == (reason, Reason.MODULE_REMOVAL)
        plan = plan_teardown(teardown_node(ChangePhase.REBOOTED, boot="boot-2"), pool)
        assert (plan.state, plan.reason) == (reason, Reason.MODULE_UNVERIFIED)


def test_it_is_dropped_before_the_labels_when_nobody_wants_it_any_more() -> None:
    plan = plan_teardown(teardown_node(ChangePhase.CORDONED), manual_pool())
    assert not expect_apply(plan).cordon
    wanted = teardown_node(ChangePhase.CORDONED, teardown=START)
    assert isinstance(plan_teardown(wanted, manual_pool()).action, RecheckPods)
    assert not expect_apply(plan_teardown(wanted, a_pool(schedule="cgpu"))).cordon


def test_the_labels_remember_the_boot_in_which_the_module_is_loaded() -> None:
    node = teardown_node(ChangePhase.CORDONED, boot="boot-7")
    change = change_of(written(node, recheck(node)))
    assert (change.phase, change.boot_id) == (ChangePhase.LABELLED, "boot-7")


LABELLED, UNINSTALLED = teardown_node(ChangePhase.LABELLED), teardown_node(ChangePhase.UNINSTALLED)
REBOOTED = teardown_node(ChangePhase.REBOOTED, boot="boot-2")
MISSPELT = replace(REBOOTED, teardown="Done")
IN_MPS = a_node(
    labels={names.LABEL_SCHEDULE: "mps", **OURS}, records=applied(Schedule.MPS, module=True)
)
PODS, TO_REMOVE = Reason.WORKLOADS_PRESENT, Reason.MODULE_REMOVAL
HELD: dict[str, tuple[Node, Pool, tuple[Pod, ...], Reason, str]] = {
    "to be removed": (LABELLED, manual_pool(), (), TO_REMOVE, "gpushare render teardown gpu-1"),
    "a pod uses the module": (LABELLED, manual_pool(), (a_gpu_pod(),), PODS, ""),
    "to be rebooted": (UNINSTALLED, a_pool(schedule="cgpu"), (), Reason.REBOOT_NEEDED, ""),
    "to be confirmed": (REBOOTED, manual_pool(), (), Reason.MODULE_UNVERIFIED, "=done"),
    "a word that is no word": (MISSPELT, manual_pool(), (), Reason.MODULE_UNVERIFIED, "'Done'"),
    "a mode that needs a person": (IN_MPS, manual_pool(), (), Reason.REQUIRES_MANUAL_ACTION, ""),
}


@pytest.mark.parametrize(("node", "pool", "pods", "reason", "told"), HELD.values(), ids=HELD)
def test_the_node_waits_for_a_person_without_a_deadline(
    node: Node, pool: Pool, pods: tuple[Pod, ...], reason: Reason, told: str
) -> None:
    plan = plan_teardown(node, pool, pods=[PLUGIN, *pods], now=LONG_AFTER)
    expect_idle(plan, NodeState.BLOCKED, reason)
    assert (plan.facts.deadline, halted_by(plan)) == (None, "")
    assert told in plan.message


def test_a_word_that_it_is_done_counts_only_in_another_boot() -> None:
    node = teardown_node(ChangePhase.LABELLED, teardown=DONE)
    early = write(node, plan_teardown(node, manual_pool(), now=LONG_AFTER))
    assert (change_of(early).phase, change_of(early).labelled_at) == (ChangePhase.LABELLED, NOW)
    plan = plan_teardown(early, manual_pool())
    assert (plan.reason, plan.action) == (Reason.MODULE_REMOVAL, None)


def test_a_word_that_is_taken_back_and_said_again_counts() -> None:
    node = teardown_node(ChangePhase.LABELLED, teardown=DONE)
    early = replace(write(node, plan_teardown(node, manual_pool())), boot_id="boot-2")
    rebooted = write(early, plan_teardown(early, manual_pool()))
    plan = plan_teardown(rebooted, manual_pool())
    assert (plan.reason, plan.action) == (Reason.MODULE_UNVERIFIED, None)
    assert "was set too early" in plan.message
    taken_back = replace(rebooted, teardown=START)
    taken_back = write(taken_back, plan_teardown(taken_back, manual_pool()))
    again = replace(taken_back, teardown=DONE)
    assert expect_written(plan_teardown(again, manual_pool())).phase is ChangePhase.RESTARTING


@pytest.mark.parametrize("phase", [ChangePhase.LABELLED, ChangePhase.UNINSTALLED])
@pytest.mark.parametrize("pool", [manual_pool(), job_pool()], ids=["by hand", "by a Job"])
def test_another_boot_is_written_down_whenever_it_is_seen(phase: ChangePhase, pool: Pool) -> None:
    plan = plan_teardown(teardown_node(phase, boot="boot-2"), pool, now=LONG_AFTER)
    change = expect_written(plan)
    assert (change.phase, change.labelled_at) == (ChangePhase.REBOOTED, LONG_AFTER)
    assert change.boot_id == "boot-1"


def test_with_it_the_node_comes_back_like_after_any_change_and_without_the_module() -> None:
    node = teardown_node(ChangePhase.REBOOTED, boot="boot-2", teardown=DONE)
    seen = write(node, plan_teardown(node, manual_pool(), now=LONG_AFTER))
    assert change_of(seen).phase is ChangePhase.RESTARTING
    starting = [a_plugin_pod("plugin-1", ready=False)]
    plan = plan_teardown(seen, manual_pool(), pods=starting, now=LONG_AFTER)
    assert (plan.state, plan.reason) == (NodeState.UPDATING, Reason.PLUGIN_RESTARTING)
    assert plan.facts.deadline == LONG_AFTER + timedelta(minutes=10)
    plan = plan_teardown(seen, manual_pool(), now=LONG_AFTER)
    apply, after = expect_apply(plan), expect_applied(plan)
    assert not apply.cordon
    assert apply.annotations.keys().isdisjoint({names.ANNOTATION_MODULE, names.ANNOTATION_CHANGE})
    assert (after.schedule, after.from_mode) == (Schedule.SHARE, Schedule.CGPU)
    assert (after.boot_id, after.before) == ("boot-2", ())


def test_a_boot_that_was_not_known_at_the_labels_is_no_reboot() -> None:
    node = teardown_node(ChangePhase.LABELLED, records=a_teardown(ChangePhase.LABELLED, boot_id=""))
    change = expect_written(plan_teardown(node, manual_pool()))
    assert (change.phase, change.boot_id) == (ChangePhase.LABELLED, "boot-1")


WAITING = pytest.mark.parametrize(
    "phase", [ChangePhase.LABELLED, ChangePhase.UNINSTALLED, ChangePhase.REBOOTED], ids=str
)


@WAITING
def test_the_deadline_runs_from_when_the_node_was_seen_down(phase: ChangePhase) -> None:
    boot = "boot-2" if phase is ChangePhase.REBOOTED else "boot-1"
    node = teardown_node(phase, boot=boot, ready=False)
    not_ready = write(node, plan_teardown(node, manual_pool(), now=LONG_AFTER))
    change = change_of(not_ready)
    assert change.teardown is not None
    assert (change.phase, change.labelled_at) == (phase, LONG_AFTER)
    assert change.teardown.not_ready is True
    plan = plan_teardown(not_ready, manual_pool(), now=LONG_AFTER + timedelta(minutes=4))
    assert (plan.state, plan.reason) == (NodeState.UPDATING, Reason.REBOOT_NEEDED)
    assert plan.facts.deadline == LONG_AFTER + timedelta(minutes=10)


def test_one_that_comes_back_late_is_finished_and_after_a_retry_forgiven() -> None:
    failure = a_failure("training/1")
    records = a_teardown(ChangePhase.UNINSTALLED, not_ready=True, failure=failure)
    node = teardown_node(ChangePhase.UNINSTALLED, boot="boot-2", records=records)
    late = expect_written(plan_teardown(node, manual_pool(), now=LATER))
    assert (late.phase, late.failure) == (ChangePhase.REBOOTED, failure)
    again = expect_written(plan_teardown(node, manual_pool(generation=2), now=LATER))
    assert again.teardown is not None
    assert again.phase is ChangePhase.UNINSTALLED
    assert (again.failure, again.teardown.not_ready) == (None, None)


def test_one_that_fails_when_the_module_is_gone_is_not_taken_back_to_its_reboot() -> None:
    records = a_teardown(ChangePhase.RESTARTING, failure=a_failure("training/1"))
    node = teardown_node(ChangePhase.RESTARTING, boot="boot-2", records=records)
    assert plan_teardown(node, manual_pool(), pods=(), now=LATER).action is None


def _label_by_hand(node: Node) -> Node:
    foreign = replace(node, labels={"group": "gpu", **CGPU, **OURS})
    return replace(foreign, owned=foreign.owned - {names.LABEL_SCHEDULE})


@pytest.mark.parametrize("phase", [ChangePhase.LABELLED, ChangePhase.UNINSTALLED])
def test_labels_are_put_back_and_the_step_stays(phase: ChangePhase) -> None:
    plan = plan_teardown(_label_by_hand(teardown_node(phase)), manual_pool(), now=LONG_AFTER)
    change = expect_written(plan)
    assert expect_apply(plan).labels == {**SHARE, **OURS}
    assert (change.phase, change.restart, change.failure) == (phase, False, None)


def test_after_the_reboot_the_module_is_looked_for_again_and_the_plugin_restarted() -> None:
    node = teardown_node(ChangePhase.REBOOTED, boot="boot-2", teardown=DONE)
    verified = replace(node, annotations=a_teardown(ChangePhase.RESTARTING).annotations())
    change = expect_written(plan_teardown(_label_by_hand(verified), manual_pool()))
    assert change.teardown is not None
    assert change.phase is ChangePhase.REBOOTED
    assert (change.restart, change.teardown.attempt) == (True, 2)
    again = replace(node, annotations=NodeRecords(change=change).annotations())
    again = replace(again, owned=frozenset({*SHARE, *OURS, *again.annotations}))
    plan = plan_teardown(again, manual_pool(), now=LONG_AFTER)
    expect_idle(plan, NodeState.BLOCKED, Reason.MODULE_UNVERIFIED)
    anew = replace(again, teardown=START)
    again = replace(write(anew, plan_teardown(anew, manual_pool())), teardown=DONE)
    confirmed = expect_written(plan_teardown(again, manual_pool(), now=LONG_AFTER))
    assert confirmed.labelled_at == LONG_AFTER
    assert isinstance(plan_teardown(again, manual_pool()).action, RecordPlugins)
    restarted = written(
        again, plan_restart(NodeSnapshot(again, (PLUGIN,), parse_records(again)), NOW)
    )
    assert change_of(restarted).phase is ChangePhase.RESTARTING


def test_a_silent_plugin_is_restarted_once_more_and_the_module_is_not_removed_again() -> None:
    records = a_teardown(ChangePhase.RESTARTING, boot_id="boot-2")
    silent = {"allocatable": {}, "gpu_count": 1}
    node = teardown_node(ChangePhase.RESTARTING, boot="boot-2", records=records, **silent)
    plan = plan_teardown(node, manual_pool(), now=NOW + timedelta(minutes=2))
    change = expect_written(plan)
    assert change.phase is ChangePhase.REBOOTED
    assert (change.restarted_again, change.restart) == (True, True)


def test_a_node_without_a_pool_is_finished_by_hand() -> None:
    plan = expect_release(teardown_node(ChangePhase.LABELLED), PLUGIN)
    assert (plan.state, plan.reason) == (NodeState.BLOCKED, Reason.MODULE_REMOVAL)


def test_a_teardown_that_followed_a_failed_change_and_is_dropped_leaves_the_module_known() -> None:
    records = a_teardown(ChangePhase.CORDONED, labelled_at=NOW)
    node = teardown_node(ChangePhase.CORDONED, records=records)
    back = expect_written(plan_teardown(node, manual_pool()))
    assert (back.from_mode, back.to, back.teardown) == (Schedule.CGPU, Schedule.CGPU, None)


def test_a_node_that_is_ready_again_in_the_same_boot_waits_on_without_a_deadline() -> None:
    records = a_teardown(ChangePhase.UNINSTALLED, not_ready=True)
    node = teardown_node(ChangePhase.UNINSTALLED, records=records)
    up = write(node, plan_teardown(node, manual_pool(), now=LONG_AFTER))
    assert change_of(up).teardown == change_of(teardown_node(ChangePhase.UNINSTALLED)).teardown
    assert (
        plan_teardown(up, manual_pool(), now=LONG_AFTER + timedelta(days=9)).facts.deadline is None
    )


def test_a_rival_is_known_at_every_step_also_on_a_node_that_had_no_record() -> None:
    node = teardown_node(ChangePhase.UNINSTALLED)
    unknown = {"applied": None, "initial_values": {names.LABEL_SCHEDULE: "cgpu"}}
    records = parse_records(node).model_copy(update=unknown)
    node = replace(node, annotations=records.annotations())
    for _ in range(PATIENCE):
        plan = plan_teardown(_label_by_hand(node), manual_pool())
        assert plan.reason is Reason.DRIFT_REVERTED
        node = write(node, plan)
    assert plan_teardown(_label_by_hand(node), manual_pool()).reason is Reason.LABEL_CONFLICT


HOLDER = a_gpu_pod("notebook", requests={}, unrequested="runtimeClassName nvidia")


@pytest.mark.parametrize(
    ("pod", "is_waited_for"),
    [
        (HOLDER, True),
        (replace(HOLDER, unrequested=ALL_DEVICES), False),
        (replace(HOLDER, phase="Succeeded"), False),
        (replace(HOLDER, unrequested=""), False),
    ],
    ids=["may hold cards", "may use any device", "has ended", "holds none"],
)
def test_it_waits_for_a_pod_that_may_hold_cards_without_a_request(
    pod: Pod, is_waited_for: bool
) -> None:
    plan = plan_teardown(an_isolating(teardown=START), manual_pool(), pods=(PLUGIN, pod))
    assert plan.uses_budget is not is_waited_for
    if is_waited_for:
        assert (plan.state, plan.reason) == (NodeState.BLOCKED, Reason.WORKLOADS_PRESENT)
        assert "default/notebook (runtimeClassName nvidia)" in plan.message


def test_a_pod_without_a_request_that_came_since_keeps_the_module() -> None:
    node = teardown_node(ChangePhase.LABELLED)
    assert plan_teardown(node, job_pool()).action is not None
    plan = plan_teardown(node, job_pool(), pods=(PLUGIN, HOLDER))
    assert (plan.reason, plan.action) == (Reason.WORKLOADS_PRESENT, None)


def test_no_other_change_waits_for_a_pod_without_a_request() -> None:
    node, pool = an_isolating(), a_pool(schedule="default")
    with_pod = plan_of(node, pool, PLUGIN, HOLDER)
    assert with_pod == plan_of(node, pool, PLUGIN)
    assert with_pod.uses_budget
