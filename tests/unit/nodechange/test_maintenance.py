"""Another controller at work on a node in its change: whose cordon it is, and whose time."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpushare.api.k8s.node import Node
from gpushare.api.pool import Pool
from gpushare.core.nodechange.phases.labelled import plan_restart
from gpushare.core.nodechange.phases.teardown import is_job_due, name_job
from gpushare.core.records.change_record import Change, ChangePhase, Maintenance, PluginPod
from gpushare.core.records.node_records import parse_records
from gpushare.core.snapshot.actions import CreateJob, JobPhase, NodePlan, NodeState
from gpushare.core.snapshot.cluster import build_node_context
from gpushare.core.snapshot.node import NodeSnapshot
from gpushare.core.snapshot.write_outcome import judge_write
from gpushare.names import Reason
from tests.kit.values.node_plans import (
    INSTALLER,
    cordoned,
    expect_apply,
    expect_change,
    expect_idle,
    expect_release,
    failed,
    plan_of,
    recheck,
    under_way,
    unlabelled,
    written,
)
from tests.kit.values.objects import LATER, NOW, a_plugin_pod, a_pool, a_snapshot
from tests.kit.values.teardown_plans import change_of, teardown_node

UPGRADE = "nvidia.com/gpu-driver-upgrade-state"
AT_WORK, AGAIN = Maintenance.AT_WORK, Maintenance.CORDONED_AGAIN
OLD = PluginPod(name="old", uid="old")
NEW = a_plugin_pod("new")
DEFAULT = a_pool(schedule="default")


def _say(node: Node, state: str = "drain-required") -> Node:
    """The node on which the GPU Operator is at this state of a driver's upgrade."""
    return replace(node, labels={**node.labels, UPGRADE: state})


def _open(node: Node) -> Node:
    """The node once the other controller has uncordoned it, whoever had cordoned it."""
    return replace(node, unschedulable=False, owns_cordon=False)


def _unlabelled(**more: Any) -> Node:
    return unlabelled(under_way(ChangePhase.CORDONED, **more))


def _restarting(**more: Any) -> Node:
    """The node whose plugin is back, so that it would be uncordoned now."""
    records = under_way(ChangePhase.RESTARTING, restart=True, plugins=(OLD,), **more)
    return cordoned(records, offered=15)


def _plan(node: Node, pool: Pool | None = None) -> NodePlan:
    return plan_of(node, pool or a_pool(), NEW, INSTALLER, now=LATER)


def _expect_written(node: Node, plan: NodePlan) -> tuple[Node, Change]:
    """The node after a write that leaves it cordoned, and its change."""
    assert expect_apply(plan).cordon
    return written(node, plan.action), expect_change(plan)


in_each_phase = pytest.mark.parametrize("build", [_unlabelled, _restarting])


@in_each_phase
def test_while_another_controller_is_at_work_the_node_stays_cordoned(
    build: Callable[..., Node],
) -> None:
    plan = _plan(_say(build()))
    assert (plan.state, plan.reason) == (NodeState.BLOCKED, Reason.UNDER_MAINTENANCE)
    assert f"The GPU Operator is at work on the node ({UPGRADE}=drain-required)" in plan.message
    node, change = _expect_written(_say(build()), plan)
    assert change.maintenance is AT_WORK
    plan = plan_of(node, a_pool(), NEW, now=LATER)
    expect_idle(plan, NodeState.BLOCKED, Reason.UNDER_MAINTENANCE)
    assert plan.facts.deadline is None


@in_each_phase
def test_what_it_did_until_its_end_counts_for_no_deadline(build: Callable[..., Node]) -> None:
    node, change = _expect_written(build(), _plan(build(maintenance=AT_WORK)))
    begun_at = change.since if change.labelled_at is None else change.labelled_at
    assert (change.maintenance, begun_at) == (None, LATER)
    assert _plan(node).state is NodeState.UPDATING


def test_a_plugin_without_its_resource_has_its_minute_after_the_maintenance() -> None:
    node = replace(_restarting(labelled_at=LATER, restarted_again=True), allocatable={})
    assert _plan(node).state is NodeState.UPDATING
    late = plan_of(node, a_pool(), NEW, INSTALLER, now=LATER + timedelta(minutes=1))
    assert late.reason is Reason.RESOURCE_STAYS_ZERO


@pytest.mark.parametrize("state", ["uncordon-required", "upgrade-done"])
@in_each_phase
def test_an_uncordon_at_the_end_of_its_work_is_undone_also_where_its_sign_went_first(
    build: Callable[..., Node], state: str
) -> None:
    node = _open(_say(build(maintenance=AT_WORK), state))
    plan = _plan(node)
    _, change = _expect_written(node, plan)
    assert change.maintenance is (AGAIN if state == "uncordon-required" else None)
    assert judge_write(node, expect_apply(plan), LATER).is_cordoned_again


def test_a_cordon_that_is_only_kept_is_not_told_as_restored() -> None:
    node = _say(_unlabelled())
    assert not judge_write(node, expect_apply(_plan(node)), LATER).is_cordoned_again


@pytest.mark.parametrize(
    "node",
    [_say(_unlabelled(maintenance=AGAIN)), _unlabelled()],
    ids=["a second time under maintenance", "without any sign of maintenance"],
)
def test_before_the_labels_any_other_uncordon_wins(node: Node) -> None:
    plan = _plan(_open(node))
    change = expect_change(plan)
    assert (expect_apply(plan).cordon, change.phase) == (False, ChangePhase.DEFERRED)


def test_after_the_labels_each_uncordon_is_undone() -> None:
    node = _open(_say(_restarting(maintenance=AGAIN)))
    _expect_written(node, _plan(node))


def test_a_change_that_failed_is_not_completed_meanwhile() -> None:
    node = cordoned(failed(), offered=15)
    assert not expect_apply(_plan(node)).cordon
    expect_idle(_plan(_say(node)), NodeState.FAILED, Reason.DEADLINE_EXCEEDED)


@pytest.mark.parametrize("pool", [None, a_pool(deleting=True), a_pool(deletion_policy="WholeCard")])
@in_each_phase
def test_a_node_that_leaves_its_pool_is_given_back_after_the_maintenance(
    build: Callable[..., Node], pool: Pool | None
) -> None:
    plan = expect_release(_say(build()), NEW, INSTALLER, pool=pool, now=LATER)
    assert (plan.state, plan.reason) == (NodeState.BLOCKED, Reason.UNDER_MAINTENANCE)
    assert plan.action is None or expect_apply(plan).cordon


def test_it_uses_up_the_budget() -> None:
    snapshot = a_snapshot(pools=(), nodes=(_say(_restarting(maintenance=AT_WORK)),))
    assert build_node_context(snapshot, "gpu-1").is_unavailable


def test_what_began_after_the_decision_stops_the_labels_the_restart_and_the_job() -> None:
    assert recheck(_unlabelled()) is not None
    assert recheck(_say(_unlabelled())) is None

    def recorded(node: Node) -> bool:
        return plan_restart(NodeSnapshot(node, (), parse_records(node)), NOW) is not None

    node = cordoned(under_way(ChangePhase.LABELLED, restart=True))
    assert (recorded(node), recorded(_say(node))) == (True, False)

    def is_due(node: Node) -> bool:
        name = name_job(node, change_of(node), JobPhase.UNINSTALL)
        job = CreateJob(node.name, name, JobPhase.UNINSTALL)
        return is_job_due(NodeSnapshot(node, (), parse_records(node)), job)

    node = teardown_node(ChangePhase.LABELLED)
    assert (is_due(node), is_due(_say(node))) == (True, False)
