"""Nodes that are not ready for a change: NotReady, or without their driver."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpushare.api.k8s.node import Node
from gpushare.core.records.change_record import ChangePhase, PluginPod
from gpushare.core.records.node_records import NodeRecords
from gpushare.core.snapshot.actions import NodeState
from gpushare.names import Reason
from tests.kit.values.node_plans import (
    a_settled,
    cordoned,
    expect_apply,
    expect_change,
    expect_idle,
    plan_of,
    under_way,
    unlabelled,
)
from tests.kit.values.objects import NOW, a_node, a_plugin_pod, a_pool

DRIVER = a_plugin_pod(
    "driver-1", daemonset="nvidia-driver-daemonset", ready=False, ready_since=None
)
INSTALLED = replace(DRIVER, ready=True, ready_since=NOW + timedelta(minutes=20))
PLUGIN = a_plugin_pod()
MUCH_LATER = NOW + timedelta(hours=3)


def _joining(phase: ChangePhase, **more: Any) -> NodeRecords:
    values = {"initializing": True, "plugins": (PluginPod(name="old", uid="old"),), **more}
    return under_way(phase, **values).model_copy(update={"applied": None})


@pytest.mark.parametrize("node", [a_node(), a_settled()], ids=["joins", "is a member"])
def test_a_node_is_not_cordoned_while_its_driver_is_being_installed(node: Node) -> None:
    plan = plan_of(node, a_pool(), PLUGIN, DRIVER)
    plan = expect_idle(plan, NodeState.WAITING, Reason.DRIVER_NOT_READY)
    assert DRIVER.name in plan.message


def test_it_is_cordoned_once_its_driver_is_ready() -> None:
    assert expect_apply(plan_of(a_node(), a_pool(), PLUGIN, INSTALLED)).cordon


def test_a_node_whose_driver_goes_before_the_labels_is_uncordoned() -> None:
    """As where NFD restarts and the driver's pod starts anew (NVIDIA/gpu-operator#782)."""
    plan = plan_of(unlabelled(_joining(ChangePhase.CORDONED, plugins=())), a_pool(), DRIVER)
    assert (plan.reason, expect_apply(plan).cordon) == (Reason.DRIVER_NOT_READY, False)


@pytest.mark.parametrize("phase", [ChangePhase.LABELLED, ChangePhase.RESTARTING])
@pytest.mark.parametrize(
    ("fields", "pods", "reason"),
    [({"ready": False}, (), Reason.NODE_NOT_READY), ({}, (DRIVER,), Reason.DRIVER_NOT_READY)],
    ids=["NotReady", "without driver"],
)
def test_a_node_that_joins_waits_until_it_can_succeed_and_fails_at_the_deadline(
    phase: ChangePhase, fields: Mapping[str, Any], pods: tuple[Any, ...], reason: Reason
) -> None:
    node = cordoned(_joining(phase), **fields)
    expect_idle(plan_of(node, a_pool(), *pods), NodeState.UPDATING, reason)
    failure = expect_change(plan_of(node, a_pool(), *pods, now=MUCH_LATER)).failure
    assert failure is not None
    assert failure.reason == Reason.DEADLINE_EXCEEDED


def test_a_member_that_is_not_ready_still_fails_at_its_deadline() -> None:
    records = under_way(ChangePhase.RESTARTING, plugins=(PluginPod(name="old", uid="old"),))
    plan = plan_of(cordoned(records, ready=False), a_pool(), now=MUCH_LATER)
    assert expect_change(plan).failure is not None


@pytest.mark.parametrize(
    ("ready_since", "pods"),
    [(NOW + timedelta(minutes=20), ()), (None, (INSTALLED,))],
    ids=["of the node", "of the driver"],
)
def test_the_deadline_of_a_node_that_joins_runs_from_its_readiness(
    ready_since: Any, pods: tuple[Any, ...]
) -> None:
    node = cordoned(_joining(ChangePhase.RESTARTING), ready_since=ready_since)
    minutes = [
        minute
        for minute in (25, 29, 31)
        if plan_of(node, a_pool(), *pods, now=NOW + timedelta(minutes=minute)).state
        is NodeState.FAILED
    ]
    assert minutes == [31]
