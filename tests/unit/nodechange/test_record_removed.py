"""A policy or client removes the record of a change, while its node is cordoned."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Edition
from gpushare.core.records.node_records import parse_records
from gpushare.core.snapshot.actions import NodeState
from gpushare.editions.registry import get_mode
from gpushare.names import Reason
from tests.kit.values.node_plans import (
    CGPU,
    INSTALLER,
    OURS,
    SHARE,
    a_settled,
    expect_applied,
    expect_apply,
    expect_change,
    expect_idle,
    plan_of,
    record_removed,
    written,
)
from tests.kit.values.objects import NOW, a_node, a_plugin_pod, a_pool

POOL, PLUGIN = a_pool(schedule="cgpu"), a_plugin_pod()
UPGRADE = "nvidia.com/gpu-driver-upgrade-state"
CORDONED: dict[str, Any] = {"unschedulable": True, "owns_cordon": True}
OFFERED: dict[str, Any] = {"allocatable": {names.RESOURCE_GPU_MEMORY: 15}}


def count_removals(node: Node) -> int:
    drift = parse_records(node).drift
    return len(drift.removals) if drift is not None else 0


def test_removed_three_times_the_node_is_in_service_and_no_change_begins() -> None:
    node = a_settled()
    for _ in range(3):
        plan = plan_of(node, POOL, PLUGIN)
        assert plan.reason is Reason.CORDONED
        node = written(node, expect_apply(plan))
        kept = {k: v for k, v in node.annotations.items() if k != names.ANNOTATION_CHANGE}
        node = replace(node, annotations=kept)
    plan = plan_of(node, POOL, PLUGIN)
    assert plan.reason is Reason.RECORD_REMOVED
    assert names.ANNOTATION_CHANGE in plan.message
    assert not expect_apply(plan).cordon
    after = plan_of(written(node, expect_apply(plan)), POOL, PLUGIN)
    expect_idle(after, NodeState.BLOCKED, Reason.RECORD_REMOVED)


def test_removed_once_it_is_written_again_under_the_cordon_and_counted() -> None:
    node = a_settled(**CORDONED)
    plan = plan_of(node, POOL, PLUGIN)
    assert expect_apply(plan).cordon
    assert expect_change(plan).to == "cgpu"
    assert count_removals(written(node, expect_apply(plan))) == 1


@pytest.mark.parametrize(
    "node",
    [
        a_settled(records=record_removed(3, claim="training/2")),
        a_settled(records=record_removed(3), retry="again"),
        a_settled(records=record_removed(2)),
    ],
    ids=["another spec", "a retry", "not often"],
)
def test_the_change_begins_in_another_attempt(node: Node) -> None:
    assert plan_of(node, POOL, PLUGIN).reason is Reason.CORDONED


def test_removals_that_are_far_apart_do_not_add_up() -> None:
    node = a_settled(records=record_removed(2), **CORDONED)
    plan = plan_of(node, POOL, PLUGIN, now=NOW + timedelta(minutes=11))
    assert plan.reason is Reason.CORDONED
    assert count_removals(written(node, expect_apply(plan))) == 1


@pytest.mark.parametrize(
    ("labels", "plugins"),
    [(SHARE, ()), (CGPU, (PLUGIN,))],
    ids=["its plugin is gone", "its labels are written"],
)
def test_a_node_that_is_changed_half_way_stays_cordoned_and_is_written_once(
    labels: dict[str, str], plugins: tuple[Pod, ...]
) -> None:
    node = a_node(labels={**labels, **OURS}, records=record_removed(2), **CORDONED)
    first = plan_of(node, POOL, *plugins)
    assert (first.reason, expect_apply(first).cordon) == (Reason.RECORD_REMOVED, True)
    again = plan_of(written(node, expect_apply(first)), POOL, *plugins)
    expect_idle(again, NodeState.BLOCKED, Reason.RECORD_REMOVED)


@pytest.mark.parametrize("labels", [{}, {**SHARE, **OURS}], ids=["cordoned", "labelled"])
def test_a_node_that_joins_is_uncordoned_where_it_has_no_label_yet(labels: dict[str, str]) -> None:
    records = record_removed(2).model_copy(update={"applied": None})
    node = a_node(labels=labels, records=records, **CORDONED)
    plan = plan_of(node, POOL, PLUGIN)
    assert plan.reason is Reason.RECORD_REMOVED
    assert expect_apply(plan).cordon is bool(labels)


@pytest.mark.parametrize("schedule", ["share", "cgpu"])
def test_where_all_records_are_removed_half_way_the_plugin_restarts_under_the_cordon(
    schedule: str,
) -> None:
    """It may have read the labels of before: it serves both modes."""
    pool = a_pool(edition="Basic", schedule=schedule)
    labels = {**get_mode(Edition.BASIC, schedule).labels, **OURS}
    node = a_node(labels=labels, **CORDONED, **OFFERED)
    doubted = plan_of(node, pool, PLUGIN, INSTALLER)
    assert (expect_applied(doubted).mode_unknown, expect_apply(doubted).cordon) == (True, True)
    node = written(node, doubted.action)
    assert expect_change(plan_of(node, pool, PLUGIN, INSTALLER)).restart
    restarted = plan_of(node, pool, a_plugin_pod("plugin-2"), INSTALLER)
    assert expect_applied(restarted).mode_unknown is None
    assert not expect_apply(restarted).cordon


def test_a_cordon_without_its_record_stays_until_another_controller_is_done() -> None:
    """What it drained relies on a cordon that is ours, and nothing else says so."""
    node, pool = a_settled(**CORDONED, **OFFERED), a_pool(schedule="share")
    assert not expect_apply(plan_of(node, pool, PLUGIN)).cordon
    at_work = replace(node, labels={**node.labels, UPGRADE: "drain-required"})
    plan = plan_of(at_work, pool, PLUGIN)
    if plan.action is not None:
        assert expect_apply(plan).cordon
        at_work = written(at_work, plan.action)
    expect_idle(plan_of(at_work, pool, PLUGIN), NodeState.BLOCKED, Reason.UNDER_MAINTENANCE)
    done = replace(at_work, labels={**at_work.labels, UPGRADE: "upgrade-done"})
    assert not expect_apply(plan_of(done, pool, PLUGIN)).cordon
