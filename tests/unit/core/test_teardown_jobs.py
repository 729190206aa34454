"""A teardown by Jobs: each is made once, and what it says is written on the node."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpushare.api.job import Job, JobState
from gpushare.api.node import Node
from gpushare.api.pool import Schedule
from gpushare.core.actions import CreateJob, NodeState, Phase
from gpushare.core.records import Step
from gpushare.core.teardown import name_job
from gpushare.names import Reason
from tests.kit.values.node_plans import INSTALLER, a_failure, expect_apply, expect_idle
from tests.kit.values.objects import LATER, NOW, a_gpu_pod, a_pool
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

LABELLED, UNINSTALLED = teardown_node(Step.LABELLED), teardown_node(Step.UNINSTALLED)
REBOOTED = teardown_node(Step.REBOOTED, boot="boot-2")
BROKEN = "Job has reached the specified backoff limit"
REMOVED, REMOVED_FOR_KURED = (
    a_job(UNINSTALLED, Phase.UNINSTALL, JobState.COMPLETE, leaves_sentinel=leaves)
    for leaves in (False, True)
)
AGAIN = job_pool(generation=2)
SEEN_LOADED = a_job(REBOOTED, Phase.VERIFY, JobState.FAILED, BROKEN)


def _failed(step: Step, **more: Any) -> Node:
    """A node whose change failed at this step."""
    failure = a_failure().model_copy(update={"step": step})
    return teardown_node(step, records=a_teardown(step, failure=failure), **more)


# Names.


def test_a_jobs_name_is_that_of_node_change_attempt_and_phase_and_short() -> None:
    change = change_of(LABELLED)
    second = change_of(teardown_node(Step.LABELLED, records=a_teardown(Step.LABELLED, attempt=2)))
    later = change.model_copy(update={"since": LATER})
    found = {
        name_job(LABELLED, change, Phase.UNINSTALL),
        name_job(LABELLED, change, Phase.VERIFY),
        name_job(LABELLED, second, Phase.UNINSTALL),
        name_job(LABELLED, later, Phase.UNINSTALL),
        name_job(teardown_node(Step.LABELLED, name="gpu-2"), change, Phase.UNINSTALL),
    }
    assert len(found) == 5
    assert all(len(name) <= 63 for name in found)


def test_a_name_stays_the_same_from_step_to_step_but_of_the_verification_only_in_one_boot() -> None:
    third = replace(REBOOTED, boot_id="boot-3")
    names = {name_job(node, change_of(node), Phase.UNINSTALL) for node in (LABELLED, REBOOTED)}
    assert len(names) == 1
    names = {name_job(node, change_of(node), Phase.VERIFY) for node in (REBOOTED, third)}
    assert len(names) == 2


# The removal.


@pytest.mark.parametrize(("reboot", "leaves"), [("Person", False), ("Sentinel", True)])
def test_a_job_is_made_that_removes_the_module(reboot: str, leaves: bool) -> None:
    plan = plan_teardown(LABELLED, job_pool(reboot))
    name = name_job(LABELLED, change_of(LABELLED), Phase.UNINSTALL)
    assert plan.action == CreateJob("gpu-1", name, Phase.UNINSTALL, leaves_sentinel=leaves)
    assert plan.deadline == NOW + timedelta(minutes=10)


def test_it_is_made_once() -> None:
    plan = plan_teardown(LABELLED, job_pool(), a_job(LABELLED, Phase.UNINSTALL))
    expect_idle(plan, NodeState.UPDATING, Reason.MODULE_REMOVAL)
    assert plan.deadline == NOW + timedelta(minutes=10)


def test_none_is_made_while_the_installer_or_a_pod_is_there() -> None:
    plan = plan_teardown(LABELLED, job_pool(), pods=[PLUGIN, INSTALLER])
    expect_idle(plan, NodeState.UPDATING, Reason.MODULE_REMOVAL)
    plan = plan_teardown(LABELLED, job_pool(), pods=[PLUGIN, a_gpu_pod()], now=LONG_AFTER)
    assert (plan.reason, plan.action) == (Reason.WORKLOADS_PRESENT, None)


def test_where_pods_held_it_up_for_long_the_job_has_its_time_all_the_same() -> None:
    change = expect_written(plan_teardown(LABELLED, job_pool(), now=LONG_AFTER))
    assert (change.labelled_at, change.failure) == (LONG_AFTER, None)


def test_a_job_that_hangs_passes_the_deadline() -> None:
    plan = plan_teardown(LABELLED, job_pool(), a_job(LABELLED, Phase.UNINSTALL), now=LATER)
    assert (plan.state, plan.reason) == (NodeState.FAILED, Reason.DEADLINE_EXCEEDED)


def test_a_job_that_is_complete_moves_the_node_on() -> None:
    job = a_job(LABELLED, Phase.UNINSTALL, JobState.COMPLETE)
    change = expect_written(plan_teardown(LABELLED, job_pool(), job, now=LATER))
    assert (change.step, change.failure) == (Step.UNINSTALLED, None)


def test_a_job_that_failed_fails_the_change_and_says_where_its_log_is() -> None:
    job = a_job(LABELLED, Phase.UNINSTALL, JobState.FAILED, BROKEN)
    plan = plan_teardown(LABELLED, job_pool(), job)
    failure = expect_written(plan).failure
    assert failure is not None
    assert plan.state is NodeState.FAILED
    assert {plan.reason, failure.reason} == {Reason.TEARDOWN_FAILED}
    assert f"kubectl logs -n gpushare-teardown job/{job.name}" in plan.message
    assert BROKEN in plan.halts


@pytest.mark.parametrize("policy", ["Halt", "Rollback"])
def test_a_teardown_that_failed_is_neither_rolled_back_nor_made_again(policy: str) -> None:
    """Its Job may be forgotten by now."""
    pool = job_pool(rollout={"on_failure": policy})
    plan = plan_teardown(_failed(Step.LABELLED), pool, now=LONG_AFTER)
    assert (plan.state, plan.action) == (NodeState.FAILED, None)
    assert ("a teardown is not rolled back" in plan.message) is (policy == "Rollback")
    assert plan.halts


def test_it_is_made_again_by_a_retry_under_another_name() -> None:
    node = _failed(Step.LABELLED)
    failed = a_job(node, Phase.UNINSTALL, JobState.FAILED, BROKEN)
    again = write(node, plan_teardown(node, AGAIN, failed, now=LATER))
    plan = plan_teardown(again, AGAIN, failed, now=LATER)
    assert isinstance(plan.action, CreateJob)
    assert plan.action.name != failed.name


@pytest.mark.parametrize("node", [LABELLED, REBOOTED], ids=["labelled", "rebooted"])
def test_where_jobs_were_switched_off_meanwhile_the_node_says_so_without_a_deadline(
    node: Node,
) -> None:
    plan = plan_teardown(node, job_pool(), now=LONG_AFTER, may_tear_down=False)
    expect_idle(plan, NodeState.BLOCKED, Reason.TEARDOWN_DISABLED)


def test_a_job_that_runs_is_waited_for_although_the_pool_says_by_hand_now() -> None:
    plan = plan_teardown(LABELLED, manual_pool(), a_job(LABELLED, Phase.UNINSTALL))
    assert (plan.state, plan.reason) == (NodeState.UPDATING, Reason.MODULE_REMOVAL)


# The reboot.


@pytest.mark.parametrize(
    ("reboot", "jobs", "told"),
    [
        ("Person", (), "reboot it"),
        ("Sentinel", (), "kured"),
        ("Sentinel", (REMOVED,), "left nothing for kured"),
        ("Person", (REMOVED_FOR_KURED,), "kured reboots it"),
    ],
)
def test_somebody_else_reboots_in_a_window_of_theirs(
    reboot: str, jobs: tuple[Job, ...], told: str
) -> None:
    """Kured is spoken of where the Job has left its file, or is to."""
    plan = plan_teardown(UNINSTALLED, job_pool(reboot), *jobs, now=LONG_AFTER)
    expect_idle(plan, NodeState.BLOCKED, Reason.REBOOT_NEEDED)
    assert plan.deadline is None
    assert told in plan.message


# The verification.


def test_after_another_boot_a_job_looks_for_the_module() -> None:
    plan = plan_teardown(REBOOTED, job_pool())
    name = name_job(REBOOTED, change_of(REBOOTED), Phase.VERIFY)
    assert plan.action == CreateJob("gpu-1", name, Phase.VERIFY)
    plan = plan_teardown(REBOOTED, job_pool(), a_job(REBOOTED, Phase.VERIFY))
    assert (plan.reason, plan.action) == (Reason.MODULE_UNVERIFIED, None)


def test_but_not_while_the_removal_still_runs_or_the_node_is_not_ready() -> None:
    running = a_job(REBOOTED, Phase.UNINSTALL)
    former = replace(running, name="gpushare-uninstall-of-a-former-attempt")
    for job in (running, former):
        assert plan_teardown(REBOOTED, job_pool(), job).action is None
    plan = plan_teardown(teardown_node(Step.REBOOTED, boot="boot-2", ready=False), job_pool())
    assert (plan.reason, plan.action) == (Reason.MODULE_UNVERIFIED, None)
    assert plan.deadline is not None


def test_where_it_sees_none_the_plugins_return_is_all_that_is_left() -> None:
    job = a_job(REBOOTED, Phase.VERIFY, JobState.COMPLETE)
    change = expect_written(plan_teardown(REBOOTED, job_pool(), job, now=LATER))
    assert (change.step, change.labelled_at) == (Step.RESTARTING, LATER)


def test_where_it_sees_one_no_second_reboot_is_asked_for() -> None:
    job = a_job(REBOOTED, Phase.VERIFY, JobState.FAILED, BROKEN)
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
    assert (change.step, change.boot_id) == (Step.LABELLED, "boot-2")
    assert (change.teardown.attempt, change.failure) == (2, None)


def test_a_retry_in_yet_another_boot_looks_for_the_module_before_it_asks_for_one_more() -> None:
    failed = write(REBOOTED, plan_teardown(REBOOTED, job_pool(), SEEN_LOADED))
    rebooted = replace(failed, boot_id="boot-3")
    again = write(rebooted, plan_teardown(rebooted, AGAIN, now=LATER))
    plan = plan_teardown(again, AGAIN, SEEN_LOADED, now=LATER)
    assert isinstance(plan.action, CreateJob)
    assert plan.action.phase is Phase.VERIFY
    seen = a_job(again, Phase.VERIFY, JobState.FAILED, BROKEN)
    loaded = write(again, plan_teardown(again, AGAIN, seen, now=LATER))
    assert expect_written(plan_teardown(loaded, job_pool(generation=3))).step is Step.LABELLED


def test_a_job_that_still_runs_is_waited_for_before_the_node_may_isolate_again() -> None:
    node, pool = _failed(Step.LABELLED), a_pool(generation=2)
    runs, ended = (a_job(node, Phase.UNINSTALL, s) for s in (JobState.RUNNING, JobState.FAILED))
    plan = plan_teardown(node, pool, runs)
    assert (plan.state, plan.action) == (NodeState.FAILED, None)
    assert f"Job {runs} must end first" in plan.message
    assert expect_written(plan_teardown(node, pool, ended)).to is Schedule.CGPU


def test_a_verification_that_hung_is_tried_again_without_another_removal() -> None:
    node = _failed(Step.REBOOTED, boot="boot-2")
    again = write(node, plan_teardown(node, AGAIN, now=LATER))
    plan = plan_teardown(again, AGAIN, a_job(node, Phase.VERIFY), now=LATER)
    assert isinstance(plan.action, CreateJob)
    assert plan.action.phase is Phase.VERIFY


def test_a_node_that_went_through_everything_while_nobody_looked_is_understood() -> None:
    node = teardown_node(Step.LABELLED, boot="boot-2")
    removed = a_job(node, Phase.UNINSTALL, JobState.COMPLETE)
    rebooted = write(node, plan_teardown(node, job_pool(), removed, now=LONG_AFTER))
    assert change_of(rebooted).step is Step.REBOOTED
    plan = plan_teardown(rebooted, job_pool(), removed, now=LONG_AFTER)
    assert isinstance(plan.action, CreateJob)
    seen = a_job(rebooted, Phase.VERIFY, JobState.COMPLETE)
    verified = write(rebooted, plan_teardown(rebooted, job_pool(), removed, seen, now=LONG_AFTER))
    plan = plan_teardown(verified, job_pool(), removed, seen, now=LONG_AFTER)
    assert not expect_apply(plan).cordon
