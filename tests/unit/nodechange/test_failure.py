"""Changes that fail, at their deadline or since the resource stays away; and what follows them."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Edition, Pool, Schedule
from gpushare.core.nodechange.deadline import Progress, time_out
from gpushare.core.nodechange.phases.cordoned import plan_abort
from gpushare.core.nodechange.step import Step
from gpushare.core.planner.planner import Planner
from gpushare.core.records.applied_record import LastApplied
from gpushare.core.records.change_record import Change, ChangePhase, Failure, PluginPod
from gpushare.core.records.node_records import NodeRecords, parse_records
from gpushare.core.records.restart_record import Restarts
from gpushare.core.snapshot.actions import NodePlan, NodeState, RecheckPods, RecordPlugins, Verdict
from gpushare.core.snapshot.change_policy import Policy
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext, Timing
from gpushare.names import Reason
from tests.kit.values.node_plans import (
    CGPU,
    INSTALLER,
    NEVER,
    OURS,
    SHARE,
    UNVERIFIED,
    a_failure,
    applied,
    cordoned,
    expect_apply,
    expect_change,
    expect_idle,
    failed,
    follow,
    halted_by,
    on_basic,
    plan_of,
    seconds_to_next,
    under_way,
)
from tests.kit.values.objects import (
    LATER,
    MEMORY,
    NOW,
    a_gpu_pod,
    a_node,
    a_plugin_pod,
    a_pool,
    a_snapshot,
)

DEADLINE = NOW + timedelta(minutes=10)
NEW = a_plugin_pod("new")
OLD = PluginPod(name="old", uid="old")
SOON = a_pool(rollout={"ready_timeout_seconds": 30})
AGAIN = a_pool(generation=2)


def _records(phase: ChangePhase = ChangePhase.RESTARTING, **more: Any) -> NodeRecords:
    """A change from share to cgpu, as it is after its labels were written at NOW."""
    return under_way(phase, **{"restart": True, "plugins": (OLD,), **more})


NODE = cordoned(_records())
RECORDING = cordoned(_records(ChangePhase.LABELLED, plugins=()))


def _plan_back(node: Node, pool: Pool | None = None, *pods: Pod) -> NodePlan:
    """What is planned at LATER, with the plugin back unless other pods are there."""
    return plan_of(node, pool or a_pool(), *(pods or (NEW, INSTALLER)), now=LATER)


def _come_back(records: NodeRecords) -> Node:
    """The node once its plugin is back, and with it the resource."""
    node = cordoned(records, offered=15)
    return follow(node, _plan_back(node))


def test_a_deadline_that_was_written_by_a_clock_that_is_ahead_starts_again() -> None:
    node = cordoned(_records(labelled_at=NOW + timedelta(hours=1)))
    assert expect_change(plan_of(node, a_pool(), NEW)).labelled_at == NOW


@pytest.mark.parametrize(
    ("offered", "pool", "minutes", "deadline", "wake"),
    [
        (0, a_pool(), 4, DEADLINE, 360),
        (0, SOON, 0, NOW + timedelta(seconds=30), 30),
        (15, a_pool(), 0, DEADLINE, 12),
    ],
    ids=["it passes", "the pool's own", "another look is due before"],
)
def test_a_change_says_its_deadline_and_when_it_is_looked_at_next(
    offered: int, pool: Pool, minutes: int, deadline: datetime, wake: float
) -> None:
    node = cordoned(_records(), offered=offered)
    pods = (NEW, INSTALLER) if offered else ()
    plan = plan_of(node, pool, *pods, now=NOW + timedelta(minutes=minutes))
    assert (plan.state, plan.facts.deadline) == (NodeState.UPDATING, deadline)
    assert seconds_to_next(plan) == wake


def test_a_deadline_that_passes_is_written_and_halts_in_the_same_pass() -> None:
    plan = plan_of(NODE, a_pool(), INSTALLER, now=DEADLINE)
    failure = expect_change(plan).failure
    assert failure is not None
    assert (failure.phase, failure.reason) == (ChangePhase.RESTARTING, Reason.DEADLINE_EXCEEDED)
    assert (failure.attempt, failure.at) == ("training/1", DEADLINE)
    assert "gpushare-device-plugin-ds" in failure.message
    assert plan.state is NodeState.FAILED
    assert halted_by(plan) == f"Node gpu-1 failed in phase Restarting: {failure.message}"


def test_the_node_that_failed_stays_cordoned_with_its_labels() -> None:
    plan = plan_of(NODE, a_pool(), now=DEADLINE)
    apply = expect_apply(plan)
    assert (apply.cordon, apply.labels) == (True, {**CGPU, **OURS, **UNVERIFIED})
    assert "stays cordoned" in plan.message


@pytest.mark.parametrize("retry", ["", "now"], ids=["no retry", "a retry that was there"])
def test_a_failure_is_written_once(retry: str) -> None:
    pool = a_pool(retry=retry)
    node = follow(NODE, plan_of(NODE, pool, now=DEADLINE))
    for hours in (1, 2):
        plan = plan_of(node, pool, now=DEADLINE + timedelta(hours=hours))
        expect_idle(plan, NodeState.FAILED, Reason.DEADLINE_EXCEEDED)
        assert halted_by(plan)


def test_pods_on_the_labelled_node_are_waited_for_without_a_deadline() -> None:
    plan = plan_of(RECORDING, a_pool(), a_gpu_pod(), now=NOW + timedelta(days=9))
    expect_idle(plan, NodeState.BLOCKED, Reason.WORKLOADS_PRESENT)
    assert (halted_by(plan), plan.facts.deadline) == ("", None)


def test_a_change_that_waited_for_pods_has_its_time_once_they_are_gone() -> None:
    node = follow(RECORDING, plan_of(RECORDING, a_pool(), now=LATER))
    plan = plan_of(node, a_pool(), now=LATER)
    assert (plan.state, plan.action) == (NodeState.UPDATING, RecordPlugins("gpu-1"))


def test_what_is_ours_to_do_and_is_refused_past_the_deadline_has_failed() -> None:
    plan = plan_of(RECORDING, a_pool(), now=DEADLINE, is_refused=True)
    assert (plan.state, plan.reason) == (NodeState.FAILED, Reason.DEADLINE_EXCEEDED)


def test_a_long_message_is_cut_to_what_the_record_may_hold() -> None:
    seen = NodeSnapshot(NODE, (), parse_records(NODE))
    long = Verdict(NodeState.UPDATING, Reason.LABELLED, "m" * 4000)
    late = Progress(Step(seen, Policy(), ReconcileContext(DEADLINE)), long)
    failed = time_out(late)
    assert failed is not None
    failure = expect_change(failed).failure
    assert failure is not None
    assert (len(failure.message), failure.message[-1]) == (400, "m")


def test_a_reason_that_only_another_version_knows_is_a_passed_deadline() -> None:
    odd = a_failure().model_copy(update={"reason": "PluginSulks"})
    plan = plan_of(cordoned(failed(failure=odd)), a_pool(), now=LATER)
    assert (plan.state, plan.reason) == (NodeState.FAILED, Reason.DEADLINE_EXCEEDED)


@pytest.mark.parametrize(
    ("seconds", "initializing", "state", "halts"),
    [
        (-1, False, NodeState.UPDATING, False),
        (0, False, NodeState.FAILED, True),
        (0, True, NodeState.FAILED, False),
    ],
    ids=["before the deadline", "at it", "of a node that joins"],
)
def test_a_look_that_is_refused_for_too_long_halts_the_pool_and_is_tried_again_all_the_same(
    seconds: int, initializing: bool, state: NodeState, halts: bool
) -> None:
    records = _records(
        ChangePhase.CORDONED, plugins=(), labelled_at=None, initializing=initializing
    )
    node = a_node(labels={**SHARE, **OURS}, records=records, unschedulable=True)
    plan = plan_of(node, a_pool(), now=DEADLINE + timedelta(seconds=seconds), is_refused=True)
    assert (plan.state, plan.action) == (state, RecheckPods("gpu-1"))
    assert ("Node gpu-1 continues automatically" in halted_by(plan)) is halts
    assert bool(plan.halt and plan.halt.resumes) is halts
    if state is NodeState.FAILED:
        assert plan.reason is Reason.DEADLINE_EXCEEDED
    else:
        assert seconds_to_next(plan) == -seconds


def test_a_node_that_came_back_too_late_is_ready_remembers_it_and_still_halts_its_pool() -> None:
    node = _come_back(failed())
    record = parse_records(node).applied
    assert record is not None
    assert (record.schedule, record.failure) == (Schedule.CGPU, a_failure())
    plan = _plan_back(node)
    assert (plan.state, plan.facts.verified) == (NodeState.READY, False)
    assert halted_by(plan).startswith("Node gpu-1 failed in phase Restarting: cgpu-installer")


def test_in_another_attempt_a_node_that_came_back_too_late_is_proven() -> None:
    node = _come_back(failed())
    plan = _plan_back(follow(node, _plan_back(node, AGAIN)), AGAIN)
    assert (plan.state, plan.facts.verified, halted_by(plan)) == (NodeState.READY, True, "")


def test_a_failure_of_another_attempt_does_not_come_back_with_it() -> None:
    """A person takes the retry annotation away that resumed the pool."""
    node = _come_back(failed())
    plan = _plan_back(follow(node, _plan_back(node, a_pool(retry="once"))))
    assert (plan.state, halted_by(plan)) == (NodeState.READY, "")


@pytest.mark.parametrize(
    ("records", "verified"),
    [(_records(), True), (_records(initializing=True), False), (failed(initializing=True), False)],
    ids=["in time", "joined", "joined too late"],
)
def test_a_change_that_halts_nothing_is_proven_unless_the_node_joined(
    records: NodeRecords, verified: bool
) -> None:
    plan = _plan_back(_come_back(records))
    assert (plan.state, plan.facts.verified, halted_by(plan)) == (NodeState.READY, verified, "")


@pytest.mark.parametrize(
    ("pool", "retry"),
    [(AGAIN, ""), (a_pool(retry="now"), ""), (a_pool(), "now")],
    ids=["the spec changed", "the pool's annotation", "the node's annotation"],
)
def test_a_failed_change_is_tried_again_with_a_new_deadline(pool: Pool, retry: str) -> None:
    node = cordoned(failed(restarted_again=True), retry=retry)
    plan = plan_of(node, pool, now=LATER)
    change = expect_change(plan)
    assert (plan.state, halted_by(plan)) == (NodeState.UPDATING, "")
    assert (change.failure, change.restarted_again, change.labelled_at) == (None, None, LATER)
    assert change.plugins == (OLD,)
    resumed = plan_of(follow(node, plan), pool, now=LATER)
    assert (resumed.state, resumed.facts.deadline) == (
        NodeState.UPDATING,
        LATER + timedelta(minutes=10),
    )


def test_where_the_pool_wants_what_cant_be_done_the_failed_node_says_both() -> None:
    pool = a_pool(schedule="share", generation=2)
    plan = plan_of(cordoned(failed()), pool, now=LATER)
    expect_idle(plan, NodeState.FAILED, Reason.DEADLINE_EXCEEDED)
    assert "cgpu-installer" in plan.message
    assert "teardown=start" in plan.message
    assert halted_by(plan) == ""


PATIENCE = NOW + timedelta(minutes=1)


def _silent(*, now: datetime, pool: Pool | None = None, **more: Any) -> NodePlan:
    """What is planned for a node whose plugin is Ready, and whose resource stays at zero."""
    return plan_of(cordoned(_records(**more)), pool or a_pool(), NEW, INSTALLER, now=now)


@pytest.mark.parametrize(
    "change",
    [{}, {"restart": False, "from_mode": Schedule.DEFAULT, "plugins": ()}],
    ids=["of the same plugin", "of one that follows the label"],
)
def test_a_silent_plugin_is_restarted_once_more_under_the_same_deadline(
    change: dict[str, Any],
) -> None:
    plan = _silent(now=PATIENCE, **change)
    begun = expect_change(plan)
    assert (plan.state, plan.reason) == (NodeState.UPDATING, Reason.PLUGIN_RESTARTING)
    assert (begun.phase, begun.restart, begun.plugins) == (ChangePhase.LABELLED, True, ())
    assert (begun.restarted_again, begun.failure, begun.labelled_at) == (True, None, NOW)
    assert (plan.facts.deadline, seconds_to_next(plan)) == (DEADLINE, 540)
    assert _silent(now=DEADLINE, **change).reason is Reason.DEADLINE_EXCEEDED


def test_silence_after_the_second_restart_is_a_failure_before_the_deadline() -> None:
    plan = _silent(now=PATIENCE, restarted_again=True)
    failure = expect_change(plan).failure
    assert failure is not None
    assert {plan.reason, failure.reason} == {Reason.RESOURCE_STAYS_ZERO}
    assert "second restart" in failure.message
    assert halted_by(plan)
    # If that cannot be written until then, the deadline is the reason.
    assert seconds_to_next(plan) == 540


def test_where_restarts_are_forbidden_silence_lasts_until_the_deadline() -> None:
    never: dict[str, Any] = {"pool": NEVER, "restart": False, "plugins": ()}
    quiet = _silent(now=PATIENCE, **never)
    assert quiet.state is NodeState.UPDATING
    assert (quiet.action, seconds_to_next(quiet)) == (None, 540)
    assert _silent(now=DEADLINE, **never).reason is Reason.DEADLINE_EXCEEDED


ISOLATED = {"cgpu": "true", "cgpu.disable.isolation": "false", **OURS}
FAILED = on_basic(Schedule.SHARE, Schedule.CGPU, ChangePhase.RESTARTING, failure=a_failure())
IN_SHARE, IN_CGPU = (applied(mode, edition=Edition.BASIC).applied for mode in ("share", "cgpu"))
UNKNOWN = applied("cgpu", edition=Edition.BASIC, mode_unknown=True).applied


ZERO = timedelta(seconds=70)
"""Longer than a resource may stay 0."""


def _a_member(records: NodeRecords, name: str = "gpu-1") -> Node:
    values: dict[str, Any] = {"unschedulable": True, "owns_cordon": True}
    return a_node(name, ISOLATED, records=records, allocatable={MEMORY: 15}, **values)


def _plan_pool(pool: Pool, *nodes: Node, ready: bool = True) -> Mapping[str, NodePlan]:
    """What is planned at LATER for these, on which the plugins run."""
    parts = (a_plugin_pod("plugin-1", ready=ready), INSTALLER)
    pods = tuple(replace(part, node=node.name) for node in nodes for part in parts)
    planner = Planner(Timing())
    planner.update(a_snapshot(pools=(pool,), nodes=nodes, pods=pods), None, LATER)
    return planner.plans_by_pool[pool.name].plans


@pytest.mark.parametrize(
    ("rolls_back", "before", "plugin"),
    [
        (a_failure(), IN_SHARE, "plugin-1"),
        (None, IN_SHARE, "plugin-1"),
        (a_failure(), None, "plugin-1"),
        (None, IN_CGPU, "misled"),
        (None, UNKNOWN, "plugin-1"),
    ],
    ids=["rollback", "another change", "no record", "a repair", "a repair before its restart"],
)
def test_a_plugin_is_not_believed_when_what_followed_a_failed_change_is_given_up(
    rolls_back: Failure | None, before: LastApplied | None, plugin: str
) -> None:
    """Nothing says whether it was restarted before that failed."""
    back = on_basic(Schedule.CGPU, Schedule.SHARE, ChangePhase.CORDONED, rolls_back=rolls_back)
    back = back.model_copy(update={"applied": before})
    seen = NodeSnapshot(_a_member(back), (a_plugin_pod(plugin),), back)

    apply = plan_abort(seen, why="A user uncordoned the node", now=NOW)

    assert apply.cordon
    change = Change.model_validate_json(apply.annotations[names.ANNOTATION_CHANGE])
    assert (change.to, change.phase, change.restart) == (Schedule.CGPU, ChangePhase.LABELLED, True)


def test_nodes_that_failed_together_do_not_wait_for_each_others_place() -> None:
    pool = a_pool(schedule="share", edition="Basic", generation=2)
    nodes = (_a_member(FAILED), _a_member(FAILED, "gpu-2"))
    plans = _plan_pool(pool, *nodes, ready=False)
    assert [plans[node.name].reason for node in nodes] == [Reason.CORDONED] * 2


def test_a_node_that_failed_to_join_still_joins_in_what_follows() -> None:
    way = (Schedule.SHARE, Schedule.CGPU, ChangePhase.RESTARTING)
    records = on_basic(*way, failure=a_failure(), initializing=True)
    pool = a_pool(schedule="share", edition="Basic", generation=2)
    begun = _plan_pool(pool, _a_member(records))["gpu-1"]
    assert (begun.reason, begun.uses_budget) == (Reason.CORDONED, False)


def test_a_failed_node_that_waits_for_an_agreement_is_failed_all_the_same() -> None:
    manual = {"approval": "Manual"}
    pool = a_pool(schedule="share", edition="Basic", generation=2, rollout=manual)
    held = _plan_pool(pool, _a_member(FAILED))["gpu-1"]
    assert held.state is NodeState.FAILED
    assert "gpushare plan pool training" in held.message


def test_a_paused_pool_begins_no_other_change_on_a_node_that_failed() -> None:
    pool = a_pool(schedule="share", edition="Basic", generation=2, reconcile="Paused")
    held = _plan_pool(pool, _a_member(FAILED), ready=False)["gpu-1"]
    assert (held.reason, held.action) == (Reason.PAUSED, None)


def _replaced_often(records: NodeRecords) -> NodeRecords:
    """Records of a node whose next restart is admitted in a minute."""
    moments = tuple(NOW - timedelta(minutes=minutes) for minutes in (59, 50, 40, 30, 20, 2))
    return records.model_copy(update={"restarts": Restarts(retry="", at=moments)})


def test_a_rollback_that_waits_for_the_restart_limit_is_due_when_that_ends() -> None:
    records = _replaced_often(FAILED)
    pool = a_pool(edition="Basic", rollout={"on_failure": "Rollback"})
    plugin = a_plugin_pod("plugin-2", ready=False, ready_since=None)
    plan = plan_of(_a_member(records), pool, plugin)
    assert (plan.state, plan.requeue_after) == (NodeState.FAILED, timedelta(minutes=1))


def test_a_second_restart_that_waits_for_the_restart_limit_is_due_when_that_ends() -> None:
    records = _replaced_often(_records(labelled_at=NOW - 2 * ZERO))
    node = cordoned(records)
    plan = plan_of(node, a_pool(), a_plugin_pod("new", ready_since=NOW - ZERO), INSTALLER)
    assert plan.requeue_after == timedelta(minutes=1)


def test_a_node_that_joins_is_patient_with_a_missing_resource_from_when_it_is_ready() -> None:
    records = _records(labelled_at=NOW - 4 * ZERO, initializing=True)
    node = cordoned(records, ready_since=NOW)
    plan = plan_of(node, a_pool(), a_plugin_pod("new", ready_since=NOW - 3 * ZERO), INSTALLER)
    assert plan.action is None


def test_a_failed_node_that_may_not_follow_its_pool_still_says_why_it_failed() -> None:
    frozen = {"freeze": {"reason": "audit"}}
    pool = a_pool(schedule="share", edition="Basic", generation=2, rollout=frozen)
    held = _plan_pool(pool, _a_member(FAILED), ready=False)["gpu-1"]
    assert FAILED.failure is not None
    assert FAILED.failure.message in held.message
    assert "audit" in held.message
