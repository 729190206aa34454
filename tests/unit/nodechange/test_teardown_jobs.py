"""A teardown by Jobs: each is made once, and what it says is written on the node."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from gpushare.api.k8s.job import Job, JobState
from gpushare.api.k8s.node import Node
from gpushare.api.pool import Pool
from gpushare.core.nodechange.phases.teardown import is_job_due, name_job
from gpushare.core.nodechange.releasing import plan_release
from gpushare.core.records.change_record import ChangePhase
from gpushare.core.records.node_records import parse_records
from gpushare.core.snapshot.actions import CreateJob, JobPhase, NodePlan, NodeState, ReleaseNode
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext
from gpushare.names import Reason
from tests.kit.values.node_plans import (
    INSTALLER,
    a_failure,
    expect_apply,
    expect_idle,
    expect_release,
    halted_by,
)
from tests.kit.values.objects import LATER, NOW, a_gpu_pod
from tests.kit.values.teardown_plans import (
    LONG_AFTER,
    PLUGIN,
    a_job,
    a_teardown,
    change_of,
    expect_written,
    job_pool,
    manual_pool,
    plan_teardown,
    teardown_node,
    write,
)

LABELLED, UNINSTALLED = teardown_node(ChangePhase.LABELLED), teardown_node(ChangePhase.UNINSTALLED)
REBOOTED = teardown_node(ChangePhase.REBOOTED, boot="boot-2")
BROKEN = "Job has reached the specified backoff limit"
AGAIN = job_pool(generation=2)
SEEN_LOADED = a_job(REBOOTED, JobPhase.VERIFY, JobState.FAILED, BROKEN)


def _failed(phase: ChangePhase, **more: Any) -> Node:
    """A node whose change failed at this step."""
    failure = a_failure().model_copy(update={"phase": phase})
    return teardown_node(phase, records=a_teardown(phase, failure=failure), **more)


def test_a_jobs_name_is_that_of_node_change_attempt_and_phase_and_short() -> None:
    change = change_of(LABELLED)
    second = change_of(
        teardown_node(ChangePhase.LABELLED, records=a_teardown(ChangePhase.LABELLED, attempt=2))
    )
    later = change.model_copy(update={"since": LATER})
    found = {
        name_job(LABELLED, change, JobPhase.UNINSTALL),
        name_job(LABELLED, change, JobPhase.VERIFY),
        name_job(LABELLED, second, JobPhase.UNINSTALL),
        name_job(LABELLED, later, JobPhase.UNINSTALL),
        name_job(teardown_node(ChangePhase.LABELLED, name="gpu-2"), change, JobPhase.UNINSTALL),
    }
    assert len(found) == 5
    assert all(len(name) <= 63 for name in found)


def test_a_name_stays_the_same_from_step_to_step_but_of_the_verification_only_in_one_boot() -> None:
    third = replace(REBOOTED, boot_id="boot-3")
    names = {name_job(node, change_of(node), JobPhase.UNINSTALL) for node in (LABELLED, REBOOTED)}
    assert len(names) == 1
    names = {name_job(node, change_of(node), JobPhase.VERIFY) for node in (REBOOTED, third)}
    assert len(names) == 2


@pytest.mark.parametrize(("reboot", "leaves"), [("Manual", False), ("Sentinel", True)])
def test_a_job_is_made_that_removes_the_module(reboot: str, leaves: bool) -> None:
    plan = plan_teardown(LABELLED, job_pool(reboot))
    name = name_job(LABELLED, change_of(LABELLED), JobPhase.UNINSTALL)
    assert plan.action == CreateJob("gpu-1", name, JobPhase.UNINSTALL, leaves_sentinel=leaves)
    assert plan.facts.deadline == NOW + timedelta(minutes=10)


def test_none_is_made_while_the_installer_or_a_pod_is_there() -> None:
    plan = plan_teardown(LABELLED, job_pool(), pods=[PLUGIN, INSTALLER])
    expect_idle(plan, NodeState.UPDATING, Reason.MODULE_REMOVAL)
    plan = plan_teardown(LABELLED, job_pool(), pods=[PLUGIN, a_gpu_pod()], now=LONG_AFTER)
    assert (plan.reason, plan.action) == (Reason.WORKLOADS_PRESENT, None)


def test_where_pods_held_it_up_for_long_the_job_has_its_time_all_the_same() -> None:
    change = expect_written(plan_teardown(LABELLED, job_pool(), now=LONG_AFTER))
    assert (change.labelled_at, change.failure) == (LONG_AFTER, None)


def test_a_job_that_failed_fails_the_change_and_says_where_its_log_is() -> None:
    job = a_job(LABELLED, JobPhase.UNINSTALL, JobState.FAILED, BROKEN)
    plan = plan_teardown(LABELLED, job_pool(), job)
    failure = expect_written(plan).failure
    assert failure is not None
    assert plan.state is NodeState.FAILED
    assert {plan.reason, failure.reason} == {Reason.TEARDOWN_FAILED}
    assert f"kubectl logs -n gpushare-teardown job/{job.name}" in plan.message
    assert BROKEN in halted_by(plan)


@pytest.mark.parametrize("policy", ["Halt", "Rollback"])
def test_a_teardown_that_failed_is_neither_rolled_back_nor_made_again(policy: str) -> None:
    """Its Job may be forgotten by now."""
    pool = job_pool(rollout={"on_failure": policy})
    plan = plan_teardown(_failed(ChangePhase.LABELLED), pool, now=LONG_AFTER)
    assert (plan.state, plan.action) == (NodeState.FAILED, None)
    assert ("A teardown is not rolled back" in plan.message) is (policy == "Rollback")
    assert halted_by(plan)


@pytest.mark.parametrize("node", [LABELLED, REBOOTED], ids=["labelled", "rebooted"])
def test_where_jobs_were_switched_off_meanwhile_the_node_says_so_without_a_deadline(
    node: Node,
) -> None:
    plan = plan_teardown(node, job_pool(), now=LONG_AFTER, may_tear_down=False)
    expect_idle(plan, NodeState.BLOCKED, Reason.TEARDOWN_DISABLED)


JOBS, SENTINEL = job_pool(), job_pool("Sentinel")
RUNS, DONE = (a_job(LABELLED, JobPhase.UNINSTALL, s) for s in (JobState.RUNNING, JobState.COMPLETE))
STILL_RUNS, LOOKS = (a_job(REBOOTED, phase) for phase in (JobPhase.UNINSTALL, JobPhase.VERIFY))
FORMER = replace(STILL_RUNS, name="gpushare-uninstall-of-a-former-attempt")
SEES_NONE = a_job(REBOOTED, JobPhase.VERIFY, JobState.COMPLETE)
REMOVED, FOR_KURED = (
    a_job(UNINSTALLED, JobPhase.UNINSTALL, JobState.COMPLETE, leaves_sentinel=leaves)
    for leaves in (False, True)
)
DOWN = teardown_node(ChangePhase.REBOOTED, boot="boot-2", ready=False)
REMOVAL, REBOOT = Reason.MODULE_REMOVAL, Reason.REBOOT_NEEDED
WAITS: dict[str, tuple[Node, Pool, tuple[Job, ...], Reason, str]] = {
    "the removal runs": (LABELLED, JOBS, (RUNS,), REMOVAL, ""),
    "it runs, though the pool says by hand now": (LABELLED, manual_pool(), (RUNS,), REMOVAL, ""),
    "a person is to reboot": (UNINSTALLED, JOBS, (), REBOOT, "Reboot the node"),
    "kured is to reboot": (UNINSTALLED, SENTINEL, (), REBOOT, "kured"),
    "kured has nothing to go by": (UNINSTALLED, SENTINEL, (REMOVED,), REBOOT, "kured does not"),
    "kured has": (UNINSTALLED, JOBS, (FOR_KURED,), REBOOT, "kured reboots the node"),
    "the verification runs": (REBOOTED, JOBS, (LOOKS,), Reason.MODULE_UNVERIFIED, ""),
    "the removal still runs": (REBOOTED, JOBS, (STILL_RUNS,), Reason.MODULE_UNVERIFIED, ""),
    "a former removal runs": (REBOOTED, JOBS, (FORMER,), Reason.MODULE_UNVERIFIED, ""),
    "the node is down": (DOWN, JOBS, (), Reason.MODULE_UNVERIFIED, ""),
}


@pytest.mark.parametrize(("node", "pool", "jobs", "reason", "told"), WAITS.values(), ids=WAITS)
def test_nothing_is_done_while_a_job_or_a_reboot_is_waited_for(
    node: Node, pool: Pool, jobs: tuple[Job, ...], reason: Reason, told: str
) -> None:
    plan = plan_teardown(node, pool, *jobs)
    assert (plan.reason, plan.action) == (reason, None)
    assert (plan.facts.deadline is None) is (reason is REBOOT)
    assert told in plan.message


@pytest.mark.parametrize(
    ("node", "job", "phase"),
    [(LABELLED, DONE, ChangePhase.UNINSTALLED), (REBOOTED, SEES_NONE, ChangePhase.RESTARTING)],
)
def test_a_job_that_is_complete_moves_the_node_on(node: Node, job: Job, phase: ChangePhase) -> None:
    change = expect_written(plan_teardown(node, job_pool(), job, now=LATER))
    assert (change.phase, change.failure) == (phase, None)
    if phase is ChangePhase.RESTARTING:
        assert change.labelled_at == LATER


def test_where_it_sees_one_no_second_reboot_is_asked_for() -> None:
    job = a_job(REBOOTED, JobPhase.VERIFY, JobState.FAILED, BROKEN)
    plan = plan_teardown(REBOOTED, job_pool("Sentinel"), job)
    assert (plan.state, plan.reason) == (NodeState.FAILED, Reason.MODULE_STILL_LOADED)
    failed = write(REBOOTED, plan)
    for jobs in ((job,), ()):
        plan = plan_teardown(failed, job_pool("Sentinel"), *jobs, now=LONG_AFTER)
        assert (plan.state, plan.action) == (NodeState.FAILED, None)


def test_a_retry_begins_again_at_the_removal_in_the_boot_that_is() -> None:
    failed = write(REBOOTED, plan_teardown(REBOOTED, job_pool(), SEEN_LOADED))
    change = expect_written(plan_teardown(failed, AGAIN, now=LATER))
    assert change.teardown is not None
    assert (change.phase, change.boot_id) == (ChangePhase.LABELLED, "boot-2")
    assert (change.teardown.attempt, change.failure) == (2, None)


def test_a_retry_in_yet_another_boot_looks_for_the_module_before_it_asks_for_one_more() -> None:
    failed = write(REBOOTED, plan_teardown(REBOOTED, job_pool(), SEEN_LOADED))
    rebooted = replace(failed, boot_id="boot-3")
    again = write(rebooted, plan_teardown(rebooted, AGAIN, now=LATER))
    plan = plan_teardown(again, AGAIN, SEEN_LOADED, now=LATER)
    assert isinstance(plan.action, CreateJob)
    assert plan.action.phase is JobPhase.VERIFY
    seen = a_job(again, JobPhase.VERIFY, JobState.FAILED, BROKEN)
    loaded = write(again, plan_teardown(again, AGAIN, seen, now=LATER))
    anew = expect_written(plan_teardown(loaded, job_pool(generation=3)))
    assert anew.phase is ChangePhase.LABELLED


def test_no_job_removes_the_module_beside_a_pod_that_came_since_it_was_planned() -> None:
    records, job = parse_records(LABELLED), plan_teardown(LABELLED, job_pool()).action
    assert isinstance(job, CreateJob)
    due = [is_job_due(NodeSnapshot(LABELLED, pods, records), job) for pods in ((), (a_gpu_pod(),))]
    assert due == [True, False]


def test_a_teardown_by_hand_stays_that_on_a_node_that_leaves_unless_jobs_were_agreed_to() -> None:
    pool = job_pool(rollout={"approval": "Manual"})
    plan = expect_release(LABELLED, PLUGIN, pool=pool)
    assert (plan.reason, plan.action) == (Reason.MODULE_REMOVAL, None)


def _plan_release_beside(state: JobState, now: datetime = NOW, **node_fields: Any) -> NodePlan:
    node = _failed(ChangePhase.LABELLED, **node_fields)
    job = a_job(node, JobPhase.UNINSTALL, state)
    seen = NodeSnapshot(node, (), parse_records(node), jobs={job.name: job})
    plan = plan_release(seen, job_pool(deleting=True), ReconcileContext(now))
    assert plan is not None
    return plan


def test_a_failed_node_is_not_released_while_its_job_runs() -> None:
    plan = _plan_release_beside(JobState.RUNNING)
    assert (plan.state, plan.action) == (NodeState.BLOCKED, None)
    assert "gpushare-uninstall-" in plan.message


def test_a_failed_node_that_waits_for_its_job_is_cordoned_again() -> None:
    plan = _plan_release_beside(JobState.RUNNING, unschedulable=False, owns_cordon=False)
    assert expect_apply(plan).cordon


@pytest.mark.parametrize(("state", "now"), [(JobState.FAILED, NOW), (JobState.RUNNING, LONG_AFTER)])
def test_a_failed_node_is_released_once_its_job_has_ended_or_never_will(
    state: JobState, now: datetime
) -> None:
    assert isinstance(_plan_release_beside(state, now).action, ReleaseNode)
