"""A person's `done`, and a Job's end, count for the boot and the phase in which they were said."""

from dataclasses import replace

import pytest

from gpushare import names
from gpushare.api.job import JobState, parse_job
from gpushare.api.node import Node
from gpushare.api.pod import Pod
from gpushare.api.pool import Pool
from gpushare.core.actions import ApplyNode, CreateJob, NodePlan, NodeState, Phase
from gpushare.core.dueteardown import NotDueError, expect_commands_due
from gpushare.core.observed import Observed, Timing
from gpushare.core.records import Step, parse_records
from gpushare.core.rollout import plan_after_look
from gpushare.core.setup import Setup
from gpushare.core.teardown import name_job
from gpushare.names import Reason
from gpushare.render.teardown import render_teardown_job
from tests.kit.values.node_plans import CGPU, INSTALLER, LEFT_INSTALLER, OURS, an_isolating, written
from tests.kit.values.objects import MEMORY, NOW, a_pool, a_world
from tests.kit.values.teardown_plans import (
    PLUGIN,
    a_job,
    a_teardown,
    change_of,
    job_pool,
    manual_pool,
    plan_teardown,
    teardown_node,
)

DONE = names.TEARDOWN_DONE


def _settle(node: Node, pool: Pool) -> tuple[Node, NodePlan]:
    """The node once everything was written that follows from what is there, and what is next."""
    for _ in range(9):
        plan = plan_teardown(node, pool)
        if not isinstance(plan.action, ApplyNode):
            return node, plan
        node = written(node, plan.action)
    raise AssertionError(f"writes without an end: {plan}")


def expect_unverified(plan: NodePlan) -> None:
    assert (plan.state, plan.reason) == (NodeState.BLOCKED, Reason.MODULE_UNVERIFIED), plan


def test_done_that_is_left_from_the_last_teardown_says_nothing_of_this_one() -> None:
    node = teardown_node(Step.CORDONED, teardown=DONE)
    labels = plan_after_look(Observed(node, (PLUGIN,), parse_records(node)), NOW, Timing())
    assert labels is not None
    rebooted = replace(written(node, labels), boot_id="boot-2")
    node, plan = _settle(rebooted, job_pool())
    assert isinstance(plan.action, CreateJob)

    _, plan = _settle(node, manual_pool())
    expect_unverified(plan)


def test_done_that_was_said_before_the_reboot_says_nothing_of_the_boot_after_it() -> None:
    node, plan = _settle(teardown_node(Step.LABELLED, teardown=DONE), manual_pool())
    assert plan.reason is Reason.MODULE_REMOVAL

    _, plan = _settle(replace(node, boot_id="boot-2"), manual_pool())
    expect_unverified(plan)


def test_done_is_said_anew_after_a_foreign_label_may_have_loaded_the_module_again() -> None:
    node = teardown_node(Step.RESTARTING, boot="boot-2", teardown=DONE)
    node = replace(
        node,
        labels={**node.labels, **CGPU, **OURS},
        owned=node.owned - {names.LABEL_SCHEDULE},
    )
    plan = plan_teardown(node, manual_pool(), pods=[PLUGIN, INSTALLER])

    _, plan = _settle(written(node, plan.action), manual_pool())
    expect_unverified(plan)


def test_done_does_not_count_while_the_installer_is_there() -> None:
    node = teardown_node(Step.REBOOTED, boot="boot-2", teardown=DONE)
    plan = plan_teardown(node, manual_pool(), pods=[PLUGIN, INSTALLER])
    # Nor once it has left: it may have loaded the module since that was said.
    _, plan = _settle(written(node, plan.action), manual_pool())
    expect_unverified(plan)


def test_nor_where_a_job_has_seen_the_module_in_this_boot() -> None:
    node = teardown_node(Step.REBOOTED, boot="boot-2", teardown=DONE)
    failed = a_job(node, Phase.VERIFY, JobState.FAILED, "it is loaded")
    plan = plan_teardown(node, manual_pool(), failed)
    plan = plan_teardown(written(node, plan.action), manual_pool(), failed)
    assert (plan.state, plan.reason) == (NodeState.FAILED, Reason.MODULE_STILL_LOADED)


def test_a_job_that_did_something_else_under_the_verifying_jobs_name_shows_nothing() -> None:
    node = teardown_node(Step.REBOOTED, boot="boot-2", records=a_teardown(Step.REBOOTED))
    name = name_job(node, change_of(node), Phase.VERIFY)
    forged = CreateJob("gpu-1", name, Phase.UNINSTALL)
    raw = render_teardown_job(forged, pool="training", namespace="teardown", image="shell:1")
    raw["metadata"]["uid"] = "uid-of-forged"
    raw["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    job = parse_job(raw)
    jobs = [job] if job is not None else []

    assert not isinstance(plan_teardown(node, job_pool(), *jobs).action, ApplyNode)


# Whether a person is to remove the module now.


ISOLATING = an_isolating(allocatable={MEMORY: 15})
LABELLED = teardown_node(Step.LABELLED)


def ask(node: Node, pool: Pool, *pods: Pod) -> None:
    world = a_world(pools=(pool,), nodes=(node,), pods=(PLUGIN, *pods))
    expect_commands_due(world, Setup(may_tear_down=True), node.name, NOW)


def test_they_are_typed_once_the_node_is_labelled_and_nothing_puts_the_module_back() -> None:
    ask(LABELLED, manual_pool())


@pytest.mark.parametrize(
    ("node", "pool", "told"),
    [
        (ISOLATING, a_pool(schedule="cgpu"), "ComponentNotReady: labelled cgpu"),
        (ISOLATING, manual_pool(), "RequiresTeardown: cgpu -> share: annotate"),
        (teardown_node(Step.REBOOTED, boot="boot-2"), manual_pool(), "ModuleUnverified: rebooted"),
        (LABELLED, job_pool(), "ModuleRemoval: a Job is made"),
    ],
    ids=["isolating", "not begun", "rebooted", "a Job's"],
)
def test_elsewhere_it_is_said_where_the_node_is_and_what_comes_first(
    node: Node, pool: Pool, told: str
) -> None:
    with pytest.raises(NotDueError, match="somebody annotate it ") as no:
        ask(node, pool)
    assert told in str(no.value)


@pytest.mark.parametrize("installer", [INSTALLER, LEFT_INSTALLER], ids=["known", "left over"])
def test_the_installer_must_leave_first(installer: Pod) -> None:
    with pytest.raises(NotDueError, match="must leave first, or it loads the module again"):
        ask(LABELLED, manual_pool(), installer)
