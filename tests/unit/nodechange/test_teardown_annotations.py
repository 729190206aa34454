"""What people are told to do stands within what is shown; what they say counts once."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gpushare import names
from gpushare.api.k8s.job import Job, JobState, parse_job
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Edition, Pool, Schedule
from gpushare.cli.exit_codes import CommandError
from gpushare.cli.render.teardown import expect_commands_due
from gpushare.core.cause import Cause
from gpushare.core.deviceplugin.findings import (
    explain_still_offered,
    find_competing_plugins,
    find_plugin_problem,
)
from gpushare.core.deviceplugin.verification import verify_mode
from gpushare.core.nodechange.phases.teardown import name_job
from gpushare.core.records.change_record import ChangePhase
from gpushare.core.snapshot.actions import ApplyNode, CreateJob, JobPhase, NodePlan, NodeState
from gpushare.core.snapshot.node import ReconcileContext
from gpushare.core.status.pool_status import MAX_SAMPLE_BYTES
from gpushare.editions.registry import MODES
from gpushare.names import Reason
from gpushare.render.teardown import render_teardown_job
from gpushare.settings import Settings
from tests.kit.values.node_plans import (
    CGPU,
    INSTALLER,
    LEFT_INSTALLER,
    OURS,
    an_isolating,
    applied,
    observe,
    recheck,
    written,
)
from tests.kit.values.objects import (
    MEMORY,
    NOW,
    a_node,
    a_plugin_pod,
    a_pool,
    a_snapshot,
    a_static_plugin,
)
from tests.kit.values.teardown_plans import (
    PLUGIN,
    a_job,
    a_teardown,
    change_of,
    job_pool,
    manual_pool,
    plan_teardown,
    teardown_node,
    write,
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
    node = teardown_node(ChangePhase.CORDONED, teardown=DONE)
    rebooted = replace(written(node, recheck(node, PLUGIN)), boot_id="boot-2")
    node, plan = _settle(rebooted, job_pool())
    assert isinstance(plan.action, CreateJob)

    _, plan = _settle(node, manual_pool())
    expect_unverified(plan)


def test_done_does_not_count_while_the_installer_is_there() -> None:
    node = teardown_node(ChangePhase.REBOOTED, boot="boot-2", teardown=DONE)
    plan = plan_teardown(node, manual_pool(), pods=[PLUGIN, INSTALLER])
    # Nor once it has left: it may have loaded the module since that was said.
    _, plan = _settle(written(node, plan.action), manual_pool())
    expect_unverified(plan)


def test_done_does_not_count_where_a_job_has_seen_the_module_in_this_boot() -> None:
    node = teardown_node(ChangePhase.REBOOTED, boot="boot-2", teardown=DONE)
    failed = a_job(node, JobPhase.VERIFY, JobState.FAILED, "it is loaded")
    plan = plan_teardown(node, manual_pool(), failed)
    plan = plan_teardown(written(node, plan.action), manual_pool(), failed)
    assert (plan.state, plan.reason) == (NodeState.FAILED, Reason.MODULE_STILL_LOADED)


def test_a_job_that_did_something_else_under_the_verifying_jobs_name_shows_nothing() -> None:
    node = teardown_node(
        ChangePhase.REBOOTED, boot="boot-2", records=a_teardown(ChangePhase.REBOOTED)
    )
    name = name_job(node, change_of(node), JobPhase.VERIFY)
    forged = CreateJob("gpu-1", name, JobPhase.UNINSTALL)
    raw = render_teardown_job(forged, pool="training", namespace="teardown", image="shell:1")
    raw["metadata"]["uid"] = "uid-of-forged"
    raw["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    job = parse_job(raw)
    jobs = [job] if job is not None else []

    assert not isinstance(plan_teardown(node, job_pool(), *jobs).action, ApplyNode)


ISOLATING = an_isolating(allocatable={MEMORY: 15})
LABELLED = teardown_node(ChangePhase.LABELLED)


def ask(node: Node, pool: Pool, *pods: Pod) -> None:
    snapshot = a_snapshot(pools=(pool,), nodes=(node,), pods=(PLUGIN, *pods))
    expect_commands_due(snapshot, Settings(allow_teardown_jobs=True), node.name, NOW)


def test_they_are_typed_once_the_node_is_labelled_and_nothing_puts_the_module_back() -> None:
    ask(LABELLED, manual_pool())


@pytest.mark.parametrize(
    ("node", "pool", "told"),
    [
        (ISOLATING, a_pool(schedule="cgpu"), "ComponentNotReady: DaemonSet cgpu-installer"),
        (ISOLATING, manual_pool(), "RequiresTeardown: cgpu -> share: "),
        (
            teardown_node(ChangePhase.REBOOTED, boot="boot-2"),
            manual_pool(),
            "ModuleUnverified: The node has rebooted",
        ),
        (LABELLED, job_pool(), "ModuleRemoval: Creating a Job"),
    ],
    ids=["isolating", "not begun", "rebooted", "a Job's"],
)
def test_elsewhere_it_is_said_where_the_node_is_and_what_comes_first(
    node: Node, pool: Pool, told: str
) -> None:
    with pytest.raises(CommandError, match="annotate the node ") as no:
        ask(node, pool)
    assert told in str(no.value)


@pytest.mark.parametrize("installer", [INSTALLER, LEFT_INSTALLER], ids=["known", "left over"])
def test_the_installer_must_leave_first(installer: Pod) -> None:
    with pytest.raises(CommandError, match="Waiting for DaemonSet cgpu-installer to leave"):
        ask(LABELLED, manual_pool(), installer)


NAME = "cn-hangzhou." + "n" * 51
WHOLE = "nvidia.com/gpu"
AT = ReconcileContext(NOW + timedelta(minutes=5))
STATIC = a_static_plugin()
LONG_NAMED = a_node(NAME, labels={**CGPU, **OURS}, records=applied())
NAMED = teardown_node(ChangePhase.LABELLED, name=NAME)
UNINSTALLED = teardown_node(ChangePhase.UNINSTALLED, name=NAME)
REBOOTED = teardown_node(ChangePhase.REBOOTED, name=NAME, boot="boot-2")
SAY_IT = f"{names.ANNOTATION_TEARDOWN}=done"
START = f"kubectl annotate node {NAME} {names.ANNOTATION_TEARDOWN}=start --overwrite"


def expect_advice(message: str, *words: str) -> None:
    """All of these stand in what is shown."""
    shown = message.encode()[: MAX_SAMPLE_BYTES - len("…".encode())].decode(errors="ignore")
    assert [word for word in words if word not in shown] == [], shown


def _early(node: Node) -> Node:
    """The node once a person has said `done` too early."""
    said = replace(node, teardown=names.TEARDOWN_DONE, boot_id="boot-1")
    return replace(write(said, plan_teardown(said, manual_pool())), boot_id=node.boot_id)


DEFAULT, SHARE = (MODES[Edition.PROFESSIONAL, Schedule(mode)] for mode in ("default", "share"))
EMPTY = a_node(NAME, allocatable={WHOLE: 0})
LEFT_OVER = a_node(allocatable=dict.fromkeys(names.GPU_RESOURCES - {names.RESOURCE_SHARED_GPU}, 1))
IN_MIB = a_node(allocatable={MEMORY: 16_384 * 16}, gpu_count=16)
CONFLICTS = [a_plugin_pod("w", daemonset="ack-nvidia-device-plugin"), STATIC]
OFF_THE_NODE = ("Move /etc/kubernetes/manifests", "on the node")


LOADED = a_job(REBOOTED, JobPhase.VERIFY, JobState.FAILED, "Job has reached the limit " * 9)
LOG = f"`kubectl logs -n gpushare-teardown job/{LOADED.name}` shows why"
JOBS = ("teardown.jobs.enabled", "to Manual")
TYPED = ("ModuleUnverified", f"gpushare render teardown {NAME}")


def _say(node: Node, pool: Pool, *jobs: Job) -> str:
    return plan_teardown(node, pool, *jobs, may_tear_down=bool(jobs)).message


def _tell(trouble: Cause | None) -> str:
    assert trouble is not None
    return trouble.message


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (_say(LONG_NAMED, manual_pool()), (START,)),
        (_say(replace(LONG_NAMED, teardown="\x00\U000e0001" * 40), manual_pool()), (START,)),
        (_say(LONG_NAMED, job_pool()), JOBS),
        (_say(NAMED, manual_pool()), TYPED),
        (_say(_early(NAMED), manual_pool()), (START,)),
        (_say(NAMED, job_pool()), JOBS),
        (_say(UNINSTALLED, job_pool("Sentinel")), ("kured reboots the node", "or you reboot it")),
        (_say(REBOOTED, manual_pool()), (SAY_IT,)),
        (_say(REBOOTED, job_pool(), LOADED), (LOG,)),
        (_tell(verify_mode(observe(EMPTY, [STATIC]), DEFAULT, AT)), ("move it back",)),
        (_tell(find_plugin_problem(observe(LEFT_OVER, []), DEFAULT, AT)), ("restart the kubelet",)),
        (_tell(explain_still_offered([STATIC], DEFAULT, WHOLE)), OFF_THE_NODE),
        (_tell(explain_still_offered([], SHARE, MEMORY)), ("restart the kubelet",)),
        (_tell(find_plugin_problem(observe(IN_MIB, [PLUGIN]), SHARE, AT)), ("--memory-unit=GiB",)),
        (_tell(find_competing_plugins(LEFT_OVER, CONFLICTS, DEFAULT, AT)), OFF_THE_NODE),
    ],
    ids=[
        "to begin", "a word that is none", "Jobs are switched off", "to type", "said too early",
        "switched off meanwhile", "kured", "to confirm", "a Job's log", "static plugin",
        "left over", "still offered", "by no known plugin", "memory unit", "competing plugins",
    ],
)  # fmt: skip
def test_what_helps_is_not_cut_off(message: str, words: tuple[str, ...]) -> None:
    expect_advice(message, *words)
