"""Agreement and retries: written where they are called for, once, and never elsewhere."""

from dataclasses import replace
from typing import Any

import pytest

from gpushare.api.pool import Pool, Schedule
from gpushare.api.status import ConditionStatus, NodeCounts, PoolPlan, PoolStatus
from gpushare.core.consent import (
    NotCalledForError,
    explain_no_pool,
    judge_approval,
    judge_node_retry,
    judge_pool_retry,
    judge_told_retry,
)
from gpushare.core.records import Drift, Rival
from tests.kit.values.node_plans import a_failure, a_settled, applied, done, has_failed
from tests.kit.values.objects import NOW, a_node, a_pool

SEEN = "0123456789ab"
TIME = "2026-01-02T03:04:05"


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
        (a_waiting_pool(), "ba9876543210", "is 0123456789ab by now, and not ba9876543210"),
        (a_waiting_pool(rollout={"approval": "Automatic"}), "", "is Automatic"),
        (a_waiting_pool(deleting=True), "", "is being deleted"),
        (a_waiting_pool(generation=2), "", "has not read the latest spec"),
        (a_waiting_pool(plan=PoolPlan()), SEEN, "nothing left to change"),
        (a_waiting_pool("RequiresPerson"), "", "nothing in the plan 0123456789ab"),
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
    with pytest.raises(NotCalledForError, match="no change of a node of pool other has failed"):
        judge_pool_retry(a_pool("other"), [has_failed(), done("gpu-1")], TIME)


@pytest.mark.parametrize(("failed", "reason"), [(1, "ChangesLeft"), (0, "RolloutHalted")])
def test_who_may_not_list_nodes_goes_by_what_the_controller_told(failed: int, reason: str) -> None:
    pool = a_waiting_pool(reason)
    status = pool.status.model_copy(update={"nodes": NodeCounts(failed=failed)})
    assert judge_told_retry(pool.model_copy(update={"status": status}), TIME).value == TIME


def test_and_writes_nothing_where_that_told_of_no_failure() -> None:
    with pytest.raises(NotCalledForError, match="can't be listed"):
        judge_told_retry(a_waiting_pool(), TIME)


def test_a_node_that_failed_is_tried_again_once() -> None:
    word = judge_node_retry(has_failed(), a_pool(), TIME)
    assert word.value == TIME
    assert word.about.startswith("gpu-0 failed at the step Restarting: ")
    assert judge_node_retry(has_failed(), a_pool(retry="meanwhile"), TIME).value == ""


def test_a_node_that_was_rolled_back_is_tried_again() -> None:
    node = done("gpu-1", failure=a_failure())
    assert judge_node_retry(node, a_pool(), TIME).value == TIME


def test_a_node_whose_label_was_left_to_another_is_tried_again() -> None:
    rival = Rival(key="cgpu", manager="terraform", ours="true", since=NOW)
    drift = Drift(claim="training/1", rivals=(rival,))
    records = applied(Schedule.SHARE).model_copy(update={"drift": drift})
    word = judge_node_retry(a_node(records=records), a_pool(), TIME)
    assert (word.value, word.about) == (TIME, "cgpu was left to terraform")
    retried = replace(a_node(records=records), retry=TIME)
    with pytest.raises(NotCalledForError, match="no change of node"):
        judge_node_retry(retried, a_pool(), "later")


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
