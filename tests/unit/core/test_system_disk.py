"""A module that was noted on a system disk which was replaced since is forgotten; no other is."""

from dataclasses import replace
from typing import Any

import pytest

from gpushare import names
from gpushare.api.node import Node
from gpushare.core.observed import Observed
from gpushare.core.records import NodeRecords, parse_records
from gpushare.names import Reason
from tests.kit.values.node_plans import CGPU, INSTALLER, OURS, applied, plan_of, written
from tests.kit.values.objects import MEMORY, a_node, a_plugin_pod, a_pool
from tests.kit.values.teardown_plans import PLUGIN, manual_pool, plan_teardown

WHOLE_CARDS = a_plugin_pod("plugin-1", daemonset="ack-nvidia-device-plugin")
DEFAULT = {names.LABEL_SCHEDULE: "default"}
OTHER_DISK: dict[str, Any] = {"machine_id": "machine-2", "kernel_version": "kernel-2"}
POOL = a_pool(schedule="default")


def _on(labels: dict[str, str], records: NodeRecords) -> Node:
    """At rest, and its module noted on the disk machine-1, in kernel-1."""
    node = a_node(labels={**labels, **OURS}, records=records, allocatable={MEMORY: 15})
    node = replace(node, machine_id="machine-1", kernel_version="kernel-1")
    noted = parse_records(node).annotations()
    return replace(node, annotations=noted, owned=node.owned | noted.keys())


NOTED = replace(_on(DEFAULT, applied("default", module=True)), allocatable={"nvidia.com/gpu": 1})


def _annotate(value: str) -> dict[str, str]:
    return {**NOTED.annotations, names.ANNOTATION_MODULE: value}


def _settle(node: Node) -> Node:
    """As its pool of whole cards leaves it."""
    action = plan_of(node, POOL, WHOLE_CARDS).action
    return node if action is None else written(node, action)


def test_a_replaced_disk_asks_for_no_teardown() -> None:
    assert (
        plan_teardown(NOTED, manual_pool(), pods=[WHOLE_CARDS]).reason is Reason.REQUIRES_TEARDOWN
    )
    replaced = replace(NOTED, boot_id="boot-2", **OTHER_DISK)
    plan = plan_teardown(replaced, manual_pool(), pods=[WHOLE_CARDS])
    assert plan.reason is not Reason.REQUIRES_TEARDOWN
    settled = _settle(replaced)
    assert names.ANNOTATION_MODULE not in settled.annotations
    assert plan_of(settled, POOL, WHOLE_CARDS).action is None


@pytest.mark.parametrize(
    "change",
    [
        {"machine_id": "machine-2"},
        {"kernel_version": "kernel-2"},
        {"boot_id": "boot-2"},
        {"machine_id": "", "kernel_version": "kernel-2"},
        {"machine_id": "machine-2", "kernel_version": ""},
        {**OTHER_DISK, "owned": NOTED.owned - {names.LABEL_SCHEDULE}},
        {**OTHER_DISK, "owned": NOTED.owned - {names.ANNOTATION_MODULE}},
        {**OTHER_DISK, "annotations": _annotate("loaded")},
        {**OTHER_DISK, "annotations": _annotate('{"v":1,"machineID":"","kernelVersion":""}')},
        {**OTHER_DISK, "annotations": _annotate('{"v":2,"machineID":"m","kernelVersion":"k"}')},
    ],
    ids=[
        "another machineID alone",
        "another kernel alone",
        "another boot",
        "a machineID that is not told",
        "a kernel that is not told",
        "a label of others",
        "a note of others",
        "no disk noted",
        "an empty disk noted",
        "a note of another version",
    ],
)
def test_what_proves_no_other_disk_leaves_the_module_noted(change: dict[str, Any]) -> None:
    node = replace(NOTED, **change)
    assert parse_records(node).module
    assert parse_records(_settle(node)).module


def test_two_changes_one_after_the_other_prove_nothing() -> None:
    upgraded = _settle(replace(NOTED, boot_id="boot-2", kernel_version="kernel-2"))
    renamed = replace(upgraded, boot_id="boot-3", machine_id="machine-2")
    assert parse_records(renamed).module


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


def test_an_installer_on_the_new_disk_is_noted_there() -> None:
    replaced = replace(NOTED, **OTHER_DISK)
    noted = written(replaced, plan_of(replaced, POOL, WHOLE_CARDS, INSTALLER).action)
    assert Observed(noted, (), parse_records(noted)).records.module
