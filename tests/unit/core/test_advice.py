"""What a node's message says to do stands within what its pool's status shows of it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gpushare import names
from gpushare.api.job import JobState
from gpushare.api.node import Node
from gpushare.api.pool import Edition, Pool, Schedule
from gpushare.core.actions import Phase
from gpushare.core.diagnosis import diagnose, explain_still_offered, find_competing_plugins
from gpushare.core.modes import MODES, Mode
from gpushare.core.observed import Pass
from gpushare.core.records import Step
from gpushare.core.status import MAX_SAMPLE_BYTES
from gpushare.core.verify import verify_mode
from tests.kit.values.node_plans import CGPU, OURS, applied
from tests.kit.values.objects import MEMORY, NOW, a_node, a_plugin_pod, a_static_plugin
from tests.kit.values.teardown_plans import (
    a_job,
    job_pool,
    manual_pool,
    plan_teardown,
    teardown_node,
    write,
)

NAME = "cn-hangzhou." + "n" * 51
WHOLE = "nvidia.com/gpu"
AT = Pass(NOW + timedelta(minutes=5))
STATIC = a_static_plugin()
ISOLATING = a_node(NAME, labels={**CGPU, **OURS}, records=applied())
LABELLED = teardown_node(Step.LABELLED, name=NAME)
UNINSTALLED = teardown_node(Step.UNINSTALLED, name=NAME)
REBOOTED = teardown_node(Step.REBOOTED, name=NAME, boot="boot-2")
DONE, START = f"annotate the node {names.ANNOTATION_TEARDOWN}=done", "teardown=start to begin"


def expect_advice(message: str, *words: str) -> None:
    """All of these stand in what is shown."""
    shown = message.encode()[: MAX_SAMPLE_BYTES - len("…".encode())].decode(errors="ignore")
    assert [word for word in words if word not in shown] == [], shown


def _early(node: Node) -> Node:
    """The node once a person has said `done` too early."""
    said = replace(node, teardown=names.TEARDOWN_DONE, boot_id="boot-1")
    return replace(write(said, plan_teardown(said, manual_pool())), boot_id=node.boot_id)


@pytest.mark.parametrize(
    ("node", "pool", "words"),
    [
        (ISOLATING, manual_pool(), (START, "ends with a reboot")),
        (replace(ISOLATING, teardown="\x00\U000e0001" * 40), manual_pool(), (START,)),
        (ISOLATING, job_pool(), ("teardown.jobs.enabled", "or set the policy to Manual")),
        (LABELLED, manual_pool(), (DONE, f"gpushare render teardown {NAME}", "what to type")),
        (_early(LABELLED), manual_pool(), (DONE, f"gpushare render teardown {NAME}")),
        (LABELLED, job_pool(), ("teardown.jobs.enabled", "or set the policy to Manual")),
        (UNINSTALLED, job_pool(), ("reboot it",)),
        (UNINSTALLED, job_pool("Sentinel"), ("kured reboots it", "or reboot it")),
        (REBOOTED, manual_pool(), (DONE,)),
    ],
)  # fmt: skip
def test_what_helps_a_teardown_is_not_cut_off(
    node: Node, pool: Pool, words: tuple[str, ...]
) -> None:
    expect_advice(plan_teardown(node, pool, may_tear_down=False).message, *words)


def test_nor_is_what_makes_a_word_count_that_was_said_too_early() -> None:
    early = replace(_early(LABELLED), boot_id="boot-2")
    rebooted = write(early, plan_teardown(early, manual_pool()))
    expect_advice(plan_teardown(rebooted, manual_pool()).message, DONE, "annotate it start first")


def test_nor_where_kured_has_nothing_to_go_by() -> None:
    removed = a_job(UNINSTALLED, Phase.UNINSTALL, JobState.COMPLETE)
    plan = plan_teardown(UNINSTALLED, job_pool("Sentinel"), removed)
    expect_advice(plan.message, "reboot it", "left nothing for kured")


@pytest.mark.parametrize(("node", "phase"), [(LABELLED, "uninstall"), (REBOOTED, "verify")])
def test_nor_is_the_way_to_the_log_of_a_job_that_failed(node: Node, phase: str) -> None:
    failed = a_job(node, Phase(phase), JobState.FAILED, "Job has reached the limit " * 9)
    log = f"`kubectl logs -n gpushare-teardown job/{failed.name}` says why"
    expect_advice(plan_teardown(node, job_pool(), failed).message, log)


def test_a_person_is_told_all_of_it_where_the_static_plugin_must_be_restarted() -> None:
    missing = verify_mode(a_node(NAME, allocatable={WHOLE: 0}), [STATIC], _mode("default"), AT)
    assert missing is not None
    expect_advice(missing.message, "wait 5 s, move the copy back", "never leave a copy")


def test_what_gets_a_resource_off_the_node_is_not_cut_off() -> None:
    left = dict.fromkeys(sorted(names.GPU_RESOURCES), 1)
    trouble = diagnose(a_node(allocatable=left), [], _mode("default"), AT)
    assert trouble is not None
    expect_advice(trouble.message, "take off the node", "restart the kubelet")
    trouble = explain_still_offered([STATIC], _mode("default"), WHOLE)
    expect_advice(trouble.message, "move /etc/kubernetes/manifests", "on the node")


def test_nor_what_makes_plugins_count_in_one_unit() -> None:
    node = a_node(allocatable={MEMORY: 16_384 * 16}, gpu_count=16)
    trouble = diagnose(node, [a_plugin_pod()], _mode("share"), AT)
    assert trouble is not None
    expect_advice(trouble.message, "--memory-unit=GiB", "set the installation's memory unit")


def test_nor_what_ends_a_competition_of_plugins() -> None:
    node = a_node(allocatable={WHOLE: 1})
    rivals = [a_plugin_pod("w", daemonset="ack-nvidia-device-plugin"), STATIC]
    trouble = find_competing_plugins(node, rivals, _mode("default"), AT)
    assert trouble is not None
    expect_advice(trouble.message, "move /etc/kubernetes/manifests", "on the node")


def _mode(schedule: str) -> Mode:
    return MODES[Edition.PROFESSIONAL, Schedule(schedule)]
