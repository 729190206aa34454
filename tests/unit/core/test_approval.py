"""Kinds of change, and what a person has agreed to."""

from dataclasses import replace
from typing import Any

import pytest

from gpushare.api.pool import Pool
from gpushare.api.rollout import WorkloadPolicy
from gpushare.api.status import Approval, PoolPlan, PoolStatus
from gpushare.core.actions import NodePlan
from gpushare.core.kinds import Kind, hash_kinds
from gpushare.core.observed import Timing
from gpushare.core.outlook import build_plan
from gpushare.core.plan import Planner
from gpushare.core.transitions import Outcome
from gpushare.core.turn import find_approval, is_approved
from gpushare.core.world import World
from gpushare.names import Reason
from tests.kit.members import (
    CGPU,
    OURS,
    a_kind,
    a_settled,
    agreed,
    applied,
    expect_apply,
    failed,
    plan_of,
)
from tests.kit.planned import plan_world
from tests.kit.values import LATER, NOW, a_gpu_pod, a_node, a_pool, a_world

FLIP = a_kind()
FOLLOW = a_kind("default", "cgpu", Outcome.APPLY)
FIRST, SECOND = a_settled("gpu-1"), a_settled("gpu-2")


def _manual(*approved: Kind, status: PoolStatus | None = None, **rollout: Any) -> Pool:
    """A pool with manual approval whose `approvedPlan` stands for the kinds `approved`."""
    wanted = {"approval": "Manual", "approved_plan": hash_kinds(approved) or None, **rollout}
    return a_pool(rollout=wanted, status=status or PoolStatus())


def _only(world: World) -> NodePlan:
    (plan,) = plan_world(world).members["training"]
    return plan


def _plan_status(pool: Pool, world: World) -> PoolPlan | None:
    planner = Planner(Timing())
    planner.update(world, None, NOW)
    return build_plan(pool, planner.books[pool.name])


# The hash.


def test_the_hash_does_not_depend_on_order_or_repetition() -> None:
    assert hash_kinds([FLIP, FOLLOW]) == hash_kinds([FOLLOW, FLIP, FLIP])


@pytest.mark.parametrize(
    "other",
    [
        replace(FLIP, of="default"),
        replace(FLIP, to="topology"),
        replace(FLIP, outcome=Outcome.APPLY),
        replace(FLIP, workloads=WorkloadPolicy.EVICT),
    ],
    ids=["from", "to", "outcome", "policy"],
)
def test_each_part_of_a_kind_changes_the_hash(other: Kind) -> None:
    assert hash_kinds([other]) != hash_kinds([FLIP])


def test_one_more_kind_changes_the_hash() -> None:
    assert hash_kinds([FLIP, FOLLOW]) != hash_kinds([FLIP])


def test_no_kinds_have_no_hash() -> None:
    assert hash_kinds([]) == ""


def test_the_hash_of_a_kind_stays_the_same_for_ever() -> None:
    """People's approvals stand in specs: another hash for the same kinds would void them."""
    assert str(FLIP) == "share -> cgpu: apply and restart the plugin; workloads Wait"
    assert hash_kinds([FLIP]) == "9f2b209da3b5"


def test_other_nodes_with_the_same_kind_of_change_have_the_same_hash() -> None:
    pool = _manual()
    one = _plan_status(pool, a_world(pools=(pool,), nodes=(FIRST,)))
    others = (SECOND, a_settled("gpu-3"), a_settled("gpu-4"))
    three = _plan_status(pool, a_world(pools=(pool,), nodes=others))
    assert one is not None
    assert three is not None
    assert one.hash == three.hash == hash_kinds([FLIP])


# The approval.


def test_an_approval_covers_the_kinds_of_the_plan_whose_hash_it_says() -> None:
    pool = _manual(FLIP, FOLLOW)
    found = find_approval(pool, [FOLLOW, FLIP])
    assert found == Approval(
        hash=hash_kinds([FLIP, FOLLOW]), kinds=tuple(sorted([str(FLIP), str(FOLLOW)]))
    )


def test_a_hash_of_another_plan_is_no_approval() -> None:
    assert find_approval(_manual(FOLLOW), [FLIP]) is None


@pytest.mark.parametrize("left", [[FLIP], [FOLLOW], []], ids=["one", "the other", "none"])
def test_an_approval_is_kept_while_fewer_kinds_are_left(left: list[Kind]) -> None:
    status = agreed(FLIP, FOLLOW)
    assert status.plan is not None
    assert find_approval(_manual(FLIP, FOLLOW, status=status), left) == status.plan.approved


def test_an_approval_is_kept_as_it_was_given_when_a_new_kind_comes() -> None:
    pool = _manual(FLIP, status=agreed(FLIP))
    found = find_approval(pool, [FLIP, FOLLOW])
    assert found is not None
    assert found.kinds == (str(FLIP),)


def test_an_approval_is_lost_with_another_hash() -> None:
    pool = _manual(FOLLOW, status=agreed(FLIP))
    assert find_approval(pool, [FLIP]) is None
    assert not is_approved(pool, FLIP)


def test_an_approval_is_lost_when_it_is_taken_back() -> None:
    pool = _manual(status=agreed(FLIP))
    assert find_approval(pool, [FLIP]) is None
    assert not is_approved(pool, FLIP)


def test_where_nobody_must_agree_there_is_no_approval_and_none_is_missing() -> None:
    pool = a_pool(rollout={"approved_plan": hash_kinds([FLIP])})
    assert find_approval(pool, [FLIP]) is None
    assert is_approved(pool, FLIP)


def test_what_was_agreed_to_counts_only_once_it_stands_in_the_status() -> None:
    assert not is_approved(_manual(FLIP), FLIP)
    assert not is_approved(_manual(FLIP, status=PoolStatus(plan=PoolPlan())), FLIP)
    assert is_approved(_manual(FLIP, status=agreed(FLIP)), FLIP)


def test_a_kind_that_was_not_agreed_to_is_not_approved() -> None:
    pool = _manual(FLIP, status=agreed(FLIP))
    assert not is_approved(pool, FOLLOW)
    assert not is_approved(pool, replace(FLIP, workloads=WorkloadPolicy.EVICT))


# The gate.


def test_without_an_approval_no_node_begins_and_it_says_what_to_do() -> None:
    plan = _only(a_world(pools=(_manual(),), nodes=(FIRST,)))
    assert (plan.reason, plan.action) == (Reason.WAITING_FOR_APPROVAL, None)
    assert "approvedPlan" in plan.message


def test_a_node_that_joins_waits_for_the_approval_too() -> None:
    plan = _only(a_world(pools=(_manual(),), nodes=(a_node(),)))
    assert (plan.reason, plan.action) == (Reason.WAITING_FOR_APPROVAL, None)


def test_a_node_that_joins_with_an_approved_kind_begins_beside_one_in_its_change() -> None:
    pool = _manual(FLIP, FOLLOW, status=agreed(FLIP, FOLLOW))
    joining = a_node("gpu-0")
    plan = plan_world(a_world(pools=(pool,), nodes=(joining, FIRST, SECOND)))
    begun = [name for name, decided in plan.decided.items() if decided.action is not None]
    assert begun == ["gpu-0", "gpu-1"]


def test_an_approval_that_appears_in_the_status_opens_the_gate() -> None:
    planner, pool = Planner(Timing()), _manual(FLIP)
    world = a_world(pools=(pool,), nodes=(FIRST, SECOND))
    planner.update(world, None, NOW)
    seen = pool.model_copy(update={"status": agreed(FLIP)})
    plan = planner.update(replace(world, pools=(seen,)), set(), NOW)
    begun = {d.plan.node for d in plan.decisions if d.plan.takes_slot}
    assert begun == {"gpu-1"}


def test_another_status_that_says_the_same_of_the_approval_plans_nothing_anew() -> None:
    planner, pool = Planner(Timing()), _manual(FLIP, status=agreed(FLIP))
    world = a_world(pools=(pool,), nodes=(FIRST, SECOND))
    planner.update(world, None, NOW)
    status = pool.status.model_copy(update={"observed_generation": 7})
    again = pool.model_copy(update={"status": status})
    assert planner.update(replace(world, pools=(again,)), set(), NOW).decisions == ()


def test_an_approval_that_is_taken_back_holds_the_nodes_that_have_not_begun() -> None:
    planner, pool = Planner(Timing()), _manual(FLIP, status=agreed(FLIP))
    busy = replace(FIRST, ready=False)
    world = a_world(pools=(pool,), nodes=(busy, SECOND))
    planner.update(world, None, NOW)
    back = _manual(status=agreed(FLIP)).model_copy(update={"generation": 2})
    planner.update(replace(world, pools=(back,)), set(), NOW)
    assert planner.books["training"].plans["gpu-2"].reason is Reason.WAITING_FOR_APPROVAL


def test_a_new_kind_stops_alone() -> None:
    pool = _manual(FLIP, status=agreed(FLIP))
    new = a_node("gpu-0", {**OURS}, records=applied("default", plugins={}))
    world = a_world(pools=(pool,), nodes=(new, FIRST))
    plan = plan_world(world)
    assert [decided.node for decided in plan.decided.values() if decided.takes_slot] == ["gpu-1"]
    reasons = {member.node: member.reason for member in plan.members["training"]}
    assert reasons["gpu-0"] is Reason.WAITING_FOR_APPROVAL


def test_a_node_that_waits_for_an_approval_takes_nobodys_turn() -> None:
    pool = _manual(FLIP, status=agreed(FLIP), canary=1)
    new = a_node("gpu-0", {**OURS}, records=applied("default", plugins={}))
    decided = plan_world(a_world(pools=(pool,), nodes=(new, FIRST))).decided
    assert expect_apply(decided["gpu-1"]).cordon


def test_a_change_that_began_is_finished_though_its_approval_was_taken_back() -> None:
    pool = _manual()
    node = a_node(labels={**CGPU, **OURS}, records=failed(), unschedulable=True)
    assert plan_of(node, pool, now=LATER).reason is not Reason.WAITING_FOR_APPROVAL


def test_a_pool_that_is_being_deleted_needs_no_approval_to_give_its_nodes_back() -> None:
    pool = a_pool(deleting=True, deletion_policy="WholeCard", rollout={"approval": "Manual"})
    decided = plan_world(a_world(pools=(pool,), nodes=(FIRST,))).decided
    assert expect_apply(decided["gpu-1"]).cordon


def test_pods_that_hold_a_change_up_are_told_before_the_approval() -> None:
    plan = _only(a_world(pools=(_manual(),), nodes=(FIRST,), pods=(a_gpu_pod(),)))
    assert plan.reason is Reason.WORKLOADS_PRESENT
