"""Kinds of change, what a person has agreed to, and how agreements and retries are written."""

from dataclasses import replace
from typing import Any

import pytest

from gpushare import names
from gpushare.analysis.approve_and_retry import (
    NotCalledForError,
    explain_no_pool,
    find_pool_to_join,
    judge_approval,
    judge_node_retry,
    judge_pool_retry,
    judge_start_now,
    judge_told_retry,
)
from gpushare.api.k8s.node import Node
from gpushare.api.pool import Pool, Schedule
from gpushare.api.rollout import WorkloadPolicy
from gpushare.api.status import ConditionStatus, NodeCounts, PoolPlan, PoolStatus
from gpushare.core.planner.planner import Planner
from gpushare.core.records.drift_record import Drift, LabelConflict
from gpushare.core.records.record import RecordError
from gpushare.core.rollout.approval import find_approval, is_approved
from gpushare.core.rollout.change_kinds import ChangeKind, hash_kinds
from gpushare.core.snapshot.actions import NodeState
from gpushare.core.snapshot.node import Timing
from gpushare.editions.edition import Outcome
from gpushare.names import Reason
from tests.kit.values.node_plans import (
    OURS,
    a_failure,
    a_kind,
    a_settled,
    agreed,
    applied,
    done,
    expect_idle,
    has_failed,
    plan_of,
    replaced,
)
from tests.kit.values.objects import NOW, a_node, a_plugin_pod, a_pool, a_snapshot
from tests.unit.planner.planner_output import plan_snapshot

FLIP = a_kind()
FOLLOW = a_kind("default", "cgpu", Outcome.APPLY)
EVICTING = replace(FLIP, workloads=WorkloadPolicy.EVICT)
FIRST, SECOND = a_settled("gpu-1"), a_settled("gpu-2")


def _manual(*approved: ChangeKind, status: PoolStatus | None = None, **rollout: Any) -> Pool:
    """A pool with manual approval whose `approvedPlan` stands for the kinds `approved`."""
    wanted = {"approval": "Manual", "approved_plan": hash_kinds(approved) or None, **rollout}
    return a_pool(rollout=wanted, status=status or PoolStatus())


def test_the_hash_does_not_depend_on_order_or_repetition() -> None:
    assert hash_kinds([FLIP, FOLLOW]) == hash_kinds([FOLLOW, FLIP, FLIP])


@pytest.mark.parametrize(
    "others",
    [
        [replace(FLIP, from_mode="default")],
        [replace(FLIP, to="topology")],
        [replace(FLIP, outcome=Outcome.APPLY)],
        [EVICTING],
        [FLIP, FOLLOW],
    ],
    ids=["from", "to", "outcome", "policy", "one more"],
)
def test_each_kind_and_each_part_of_it_changes_the_hash(others: list[ChangeKind]) -> None:
    assert hash_kinds(others) != hash_kinds([FLIP])


def test_the_hash_of_a_kind_stays_the_same_for_ever() -> None:
    """People's approvals stand in specs: another hash for the same kinds would void them."""
    assert str(FLIP) == "share -> cgpu: apply and restart the plugin; workloads Wait"
    assert hash_kinds([FLIP]) == "9f2b209da3b5"
    assert hash_kinds([]) == ""


BOTH = tuple(sorted([str(FLIP), str(FOLLOW)]))


@pytest.mark.parametrize(
    ("pool", "left", "kinds"),
    [
        (_manual(FLIP, FOLLOW), [FOLLOW, FLIP], BOTH),
        (_manual(FOLLOW), [FLIP], None),
        (_manual(FLIP, FOLLOW, status=agreed(FLIP, FOLLOW)), [FLIP], BOTH),
        (_manual(FLIP, FOLLOW, status=agreed(FLIP, FOLLOW)), [FOLLOW], BOTH),
        (_manual(FLIP, FOLLOW, status=agreed(FLIP, FOLLOW)), [], BOTH),
        (_manual(FLIP, status=agreed(FLIP)), [FLIP, FOLLOW], (str(FLIP),)),
        (_manual(FOLLOW, status=agreed(FLIP)), [FLIP], None),
        (_manual(status=agreed(FLIP)), [FLIP], None),
        (a_pool(rollout={"approved_plan": hash_kinds([FLIP])}), [FLIP], None),
    ],
    ids=["same", "other", "one left", "other left", "none left", "new", "changed", "back", "auto"],
)
def test_an_approval_covers_what_was_agreed_to_while_its_hash_stands_in_the_spec(
    pool: Pool, left: list[ChangeKind], kinds: tuple[str, ...] | None
) -> None:
    found = find_approval(pool, left)
    assert found is None or found.hash == pool.spec.rollout.approved_plan
    assert (found and found.kinds) == kinds


@pytest.mark.parametrize(
    ("pool", "kind", "approved"),
    [
        (_manual(FLIP), FLIP, False),
        (_manual(FLIP, status=PoolStatus(plan=PoolPlan())), FLIP, False),
        (_manual(FLIP, status=agreed(FLIP)), FLIP, True),
        (_manual(FLIP, status=agreed(FLIP)), FOLLOW, False),
        (_manual(FLIP, status=agreed(FLIP)), EVICTING, False),
        (_manual(FOLLOW, status=agreed(FLIP)), FLIP, False),
        (_manual(status=agreed(FLIP)), FLIP, False),
        (a_pool(rollout={"approved_plan": hash_kinds([FLIP])}), FLIP, True),
    ],
    ids=["unseen", "empty", "seen", "kind", "policy", "changed", "taken back", "automatic"],
)
def test_a_kind_is_approved_once_its_approval_stands_in_the_status(
    pool: Pool, kind: ChangeKind, approved: bool
) -> None:
    assert is_approved(pool, kind) is approved


@pytest.mark.parametrize("node", [FIRST, a_node()], ids=["a member", "one that joins"])
def test_without_an_approval_no_node_begins_and_it_says_what_to_do(node: Node) -> None:
    (plan,) = plan_snapshot(a_snapshot(pools=(_manual(),), nodes=(node,))).members["training"]
    expect_idle(plan, NodeState.WAITING, Reason.WAITING_FOR_APPROVAL)
    assert "gpushare plan pool training" in plan.message


def test_an_approval_that_is_taken_back_holds_the_nodes_that_have_not_begun() -> None:
    planner, pool = Planner(Timing()), _manual(FLIP, status=agreed(FLIP))
    busy = replace(FIRST, ready=False)
    snapshot = a_snapshot(pools=(pool,), nodes=(busy, SECOND))
    planner.update(snapshot, None, NOW)
    back = _manual(status=agreed(FLIP)).model_copy(update={"generation": 2})
    planner.update(replace(snapshot, pools=(back,)), set(), NOW)
    assert planner.plans_by_pool["training"].plans["gpu-2"].reason is Reason.WAITING_FOR_APPROVAL


@pytest.mark.parametrize("canary", [0, 1])
def test_a_new_kind_stops_alone_and_takes_nobodys_turn(canary: int) -> None:
    pool = _manual(FLIP, status=agreed(FLIP), canary=canary)
    new = a_node("gpu-0", {**OURS}, records=applied("default", plugins={}))
    plan = plan_snapshot(a_snapshot(pools=(pool,), nodes=(new, FIRST)))
    assert [decided.node for decided in plan.decided.values() if decided.uses_budget] == ["gpu-1"]
    reasons = {member.node: member.reason for member in plan.members["training"]}
    assert reasons["gpu-0"] is Reason.WAITING_FOR_APPROVAL


SEEN = "0123456789ab"
TIME = "2026-01-02T03:04:05+00:00"
LATER = "2026-01-02T05:04:05+00:00"
LIMITED = "its device plugin was replaced too often within an hour"


def a_waiting_pool(
    reason: str = "WaitingForApproval", *, plan: PoolPlan | None = None, **more: Any
) -> Pool:
    condition = ConditionStatus(
        type="RolloutComplete", status="False", last_transition_time=NOW, reason=reason, message=""
    )
    status = PoolStatus(
        observed_generation=1,
        conditions=(condition,),
        plan=plan or PoolPlan(hash=SEEN, summary="share -> cgpu on 3 nodes"),
    )
    rollout = {"approval": "Manual", **more.pop("rollout", {})}
    return a_pool(status=status, rollout=rollout, **more)


@pytest.mark.parametrize(
    ("pool", "value"),
    [
        (a_waiting_pool(), SEEN),
        (a_waiting_pool("RolloutHalted"), SEEN),
        (a_waiting_pool(rollout={"approved_plan": SEEN}), ""),
    ],
    ids=["it waits", "it is halted besides", "the agreement stands"],
)
@pytest.mark.parametrize("seen", ["", SEEN])
def test_the_plans_hash_is_agreed_to_once(pool: Pool, value: str, seen: str) -> None:
    word = judge_approval(pool, seen)
    assert (word.value, word.about) == (value, "share -> cgpu on 3 nodes")


@pytest.mark.parametrize(
    ("pool", "seen", "sentence"),
    [
        (a_waiting_pool(), "ba9876543210", "is now 0123456789ab, not ba9876543210"),
        (a_waiting_pool(rollout={"approval": "Automatic"}), "", "is Automatic"),
        (a_waiting_pool(deleting=True), "", "is being deleted"),
        (a_waiting_pool(generation=2), "", "has not read the latest spec"),
        (a_waiting_pool(plan=PoolPlan()), SEEN, "nothing left to change"),
        (a_waiting_pool("RequiresManualAction"), "", "nothing in the plan 0123456789ab"),
    ],
)
def test_where_nothing_waits_for_it_no_agreement_is_written(
    pool: Pool, seen: str, sentence: str
) -> None:
    with pytest.raises(NotCalledForError, match=sentence):
        judge_approval(pool, seen)


def test_a_pool_with_a_node_that_failed_is_tried_again_once() -> None:
    nodes = [has_failed("gpu-2"), has_failed("gpu-1"), a_settled("gpu-3")]
    word = judge_pool_retry(a_pool(), nodes, TIME)
    assert (word.value, word.about) == (TIME, "gpu-1, gpu-2 failed")
    assert judge_pool_retry(a_pool(retry=TIME), nodes, "later").value == ""


def test_a_node_of_another_pool_is_no_reason() -> None:
    with pytest.raises(NotCalledForError, match="no node of pool other has failed"):
        judge_pool_retry(a_pool("other"), [has_failed(), done("gpu-1")], TIME)


def test_of_nodes_whose_records_cannot_be_read_only_those_of_the_pool_hold_its_retry_up() -> None:
    broken = replace(a_node("broken"), annotations={names.ANNOTATION_CHANGE: "{"})
    judged = judge_pool_retry(a_pool(), [broken, has_failed("gpu-1")], TIME)
    assert judged.value == TIME
    own = replace(
        broken, labels={names.LABEL_POOL: "training"}, owned=frozenset({names.LABEL_POOL})
    )
    with pytest.raises(RecordError, match="broken"):
        judge_pool_retry(a_pool(), [own, has_failed("gpu-1")], TIME)


def test_a_pool_whose_spec_is_contested_is_released_by_a_retry() -> None:
    contested = a_waiting_pool("SpecContested")
    assert judge_pool_retry(contested, [a_settled()], TIME).value == TIME
    assert judge_told_retry(contested, TIME).value == TIME


@pytest.mark.parametrize(("failed", "reason"), [(1, "ChangesLeft"), (0, "RolloutHalted")])
def test_who_may_not_list_nodes_goes_by_what_the_controller_told(failed: int, reason: str) -> None:
    pool = a_waiting_pool(reason)
    status = pool.status.model_copy(update={"nodes": NodeCounts(failed=failed)})
    assert judge_told_retry(pool.model_copy(update={"status": status}), TIME).value == TIME


def test_who_may_not_list_nodes_writes_nothing_where_the_controller_told_of_no_failure() -> None:
    with pytest.raises(NotCalledForError, match="cannot be listed"):
        judge_told_retry(a_waiting_pool(), TIME)


def test_a_node_that_failed_is_tried_again_once() -> None:
    word = judge_node_retry(has_failed(), a_pool(), TIME)
    assert word.value == TIME
    assert word.about.startswith("Node gpu-0 failed in phase Restarting: ")
    assert judge_node_retry(has_failed(), a_pool(retry="meanwhile"), TIME).value == ""


def test_a_node_that_was_rolled_back_is_tried_again() -> None:
    node = done("gpu-1", failure=a_failure())
    assert judge_node_retry(node, a_pool(), TIME).value == TIME


def test_a_node_whose_label_was_left_to_another_is_tried_again() -> None:
    conflict = LabelConflict(key="cgpu", manager="terraform", ours="true", since=NOW)
    drift = Drift(claim="training/1", conflicts=(conflict,))
    records = applied(Schedule.SHARE).model_copy(update={"drift": drift})
    word = judge_node_retry(a_node(records=records), a_pool(), TIME)
    assert (word.value, word.about) == (TIME, "cgpu was left to terraform")
    retried = replace(a_node(records=records), retry=TIME)
    with pytest.raises(NotCalledForError, match="no change of node"):
        judge_node_retry(retried, a_pool(), LATER)


def test_a_node_whose_plugin_was_replaced_often_is_released_also_where_it_only_joins() -> None:
    node = a_node("gpu-1", records=replaced(5))
    assert judge_node_retry(node, a_pool(), TIME).value == TIME
    with pytest.raises(NotCalledForError, match="no change of node"):
        judge_node_retry(replace(node, retry=TIME), a_pool(), TIME)
    acting = a_pool(nodes={"names": ["gpu-1"]})
    looking_on = a_pool("careful", reconcile="Observe", nodes={"names": ["gpu-1"]})
    assert find_pool_to_join(a_node("gpu-1"), [looking_on, acting]) is acting
    assert find_pool_to_join(a_node("gpu-2"), [acting]) is None


def test_a_node_is_released_from_the_limit_also_where_a_tool_removed_the_last_retry() -> None:
    node = a_settled("gpu-1", records=replaced(5, retry="once"))
    assert plan_of(node, a_pool(), a_plugin_pod()).reason is Reason.RESTART_LIMIT
    word = judge_node_retry(node, a_pool(), TIME)
    assert (word.value, word.about) == (TIME, LIMITED)


def test_a_node_whose_plugin_was_replaced_long_ago_needs_no_retry() -> None:
    for times, now in ((4, TIME), (6, LATER)):
        with pytest.raises(NotCalledForError, match="no change of node"):
            judge_node_retry(a_node("gpu-1", records=replaced(times)), a_pool(), now)


def test_of_a_node_that_no_pool_has_it_is_told_which_one_only_observes_it() -> None:
    node = a_node("gpu-1")
    looking_on = a_pool("careful", reconcile="Observe", nodes={"names": ["gpu-1"]})
    elsewhere = a_pool("other", nodes={"names": ["gpu-2"]}, reconcile="Observe")
    acting = a_pool(nodes={"names": ["gpu-1"]})
    told = str(explain_no_pool(node, [elsewhere, acting, looking_on]))
    assert told.startswith("pool careful only observes node gpu-1 (its reconcile is Observe)")
    assert "gpu-1 belongs to no pool" in str(explain_no_pool(node, [elsewhere, acting]))


def test_a_node_that_has_not_failed_is_left_alone() -> None:
    with pytest.raises(NotCalledForError, match="no change of node gpu-1 has failed"):
        judge_node_retry(a_settled("gpu-1"), a_pool(), TIME)


@pytest.mark.parametrize("plan", [None, PoolPlan()])
def test_a_plan_without_changes_is_not_started(plan: PoolPlan | None) -> None:
    pool = a_pool(status=PoolStatus(plan=plan))
    for seen in ("", hash_kinds([FLIP])):
        with pytest.raises(NotCalledForError, match="has nothing left to change"):
            judge_start_now(pool, seen, "2026-05-06T02:00Z")
