"""What a pool tells: its plan, whether its rollout is complete, its status and its Events."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from gpushare.api.k8s.node import Node
from gpushare.api.pool import Pool
from gpushare.api.status import PoolPlan, PoolStatus
from gpushare.core.capacity.node_capacity import NodeCapacity
from gpushare.core.planner.planner import Planner
from gpushare.core.planner.pool_plans import Member, PoolPlans
from gpushare.core.records.change_record import ChangePhase
from gpushare.core.records.drift_record import LabelConflict
from gpushare.core.rollout.change_kinds import ChangeKind, hash_kinds
from gpushare.core.snapshot.actions import NodePlan, NodeState
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.core.snapshot.node import Timing
from gpushare.core.status.event_correlation import (
    AT_ONCE,
    ONCE_SECONDS,
    REFILL_SECONDS,
    SAME_SECONDS,
    EventCorrelator,
    Key,
)
from gpushare.core.status.plan_status import MAX_STEP_BYTES, MAX_STEPS, build_plan, judge_rollout
from gpushare.core.status.pool_status import MAX_SAMPLES, build_status
from gpushare.editions.edition import Outcome
from gpushare.names import Reason
from tests.kit.values.node_plans import (
    OURS,
    SHARE,
    a_kind,
    a_node_plan,
    a_settled,
    agreed,
    applied,
    has_failed,
    under_way,
)
from tests.kit.values.objects import LATER, NOW, a_gpu_pod, a_node, a_plugin_pod, a_pool, a_snapshot

TEARDOWN = a_kind("cgpu", "share", Outcome.REQUIRES_TEARDOWN, teardown="teardown Manual")
REFUSED = a_kind("mps", "cgpu", Outcome.REQUIRES_MANUAL_ACTION)
TURNS = {
    Reason.WAITING_FOR_BUDGET,
    Reason.WAITING_FOR_CANARY,
    Reason.WAITING_FOR_APPROVAL,
    Reason.ROLLOUT_HALTED,
}
DONE = a_node_plan(
    "done", NodeState.READY, Reason.APPLIED, "The node is as its pool specifies", labelled=True
)


def _waiting(
    node: str = "gpu-1",
    kind: ChangeKind | None = None,
    reason: Reason = Reason.WAITING_FOR_BUDGET,
    **more: Any,
) -> NodePlan:
    return a_node_plan(
        node, NodeState.WAITING, reason, "its turn comes", kind=kind or a_kind(), **more
    )


def _plans_of(*plans: NodePlan) -> PoolPlans:
    pool_plans = PoolPlans()
    list(map(pool_plans.show, plans))
    return pool_plans


def _expect_plan(*plans: NodePlan, pool: Pool | None = None) -> PoolPlan:
    plan = build_plan(pool or a_pool(), _plans_of(*plans))
    assert plan is not None
    return plan


def _plan(snapshot: ClusterSnapshot) -> PoolPlans:
    planner = Planner(Timing())
    planner.update(snapshot, None, NOW)
    return planner.plans_by_pool[snapshot.pools[0].name]


def _rollout(of: ClusterSnapshot) -> tuple[bool, Reason, str]:
    return judge_rollout(of.pools[0], _plan(of))


@pytest.mark.parametrize("reason", sorted(TURNS))
def test_waiting_for_its_turn_is_no_blocker(reason: Reason) -> None:
    (step,) = _expect_plan(_waiting(reason=reason)).steps
    assert step.blocker == ""


def test_the_first_twenty_nodes_are_shown_by_name() -> None:
    steps = _expect_plan(*(_waiting(f"n{index:03}") for index in reversed(range(100)))).steps
    assert [step.node for step in steps] == [f"n{index:03}" for index in range(MAX_STEPS)]


def test_where_names_are_long_fewer_steps_are_shown() -> None:
    steps = _expect_plan(*(_waiting(f"{index:03}".ljust(253, "n")) for index in range(20))).steps
    assert 0 < len(steps) < MAX_STEPS
    assert sum(len(s.model_dump_json(by_alias=True).encode()) for s in steps) <= MAX_STEP_BYTES


def test_where_nothing_is_left_to_do_there_is_no_plan() -> None:
    assert build_plan(a_pool(), _plans_of(DONE)) is None


def test_an_approval_stays_in_the_plan_when_nothing_is_left() -> None:
    rollout = {"approval": "Manual", "approved_plan": hash_kinds([a_kind()])}
    pool = a_pool(rollout=rollout, status=agreed(a_kind()))
    plan = _expect_plan(DONE, pool=pool)
    assert pool.status.plan is not None
    assert (plan.hash, plan.steps, plan.approved) == ("", (), pool.status.plan.approved)
    assert plan.summary == "nothing is left to change"


def test_a_node_that_needs_its_change_no_more_is_in_the_plan_no_more() -> None:
    pool_plans = _plans_of(_waiting("a"), _waiting("b", TEARDOWN))
    pool_plans.show(replace(DONE, node="b"))
    plan = build_plan(a_pool(), pool_plans)
    assert plan is not None
    assert [step.node for step in plan.steps] == ["a"]
    assert plan.hash == hash_kinds([a_kind()])


@pytest.mark.parametrize("busy", [frozenset(), frozenset({"gpu-1"})], ids=["decided", "written"])
def test_a_change_that_is_about_to_begin_has_no_blocker(busy: frozenset[str]) -> None:
    planner, snapshot = Planner(Timing()), a_snapshot(pools=(a_pool(),), nodes=(a_settled(),))
    planner.update(snapshot, None, NOW)
    planner.update(replace(snapshot, busy=busy), {"gpu-1"}, NOW)
    plan = build_plan(a_pool(), planner.plans_by_pool["training"])
    assert plan is not None
    assert [step.blocker for step in plan.steps] == [""]


def test_the_status_stays_under_16_kib_with_the_longest_plan() -> None:
    approved = [a_kind("core_mem", "core_mem", outcome) for outcome in Outcome]
    rollout = {"approval": "Manual", "approved_plan": "h" * 64}
    pool = a_pool("p" * 63, deleting=True, rollout=rollout, status=agreed(*approved, to="h" * 64))
    reasons = list(Reason)
    plans = [
        a_node_plan(
            f"{index:03}".ljust(253, "n"),
            NodeState.BLOCKED,
            reasons[index % len(reasons)],
            "\u6df1" * 4000,
            kind=a_kind(f"{index:063}", "cgpu", Outcome.REQUIRES_MANUAL_ACTION),
            deadline=LATER,
            halts="h" * 1000,
            conflicts=(LabelConflict(key="k" * 317, manager="m" * 128, ours="o" * 63, since=NOW),),
        )
        for index in range(300)
    ]
    status = build_status(pool, _plans_of(*plans), NOW)
    assert MAX_SAMPLES / 2 < len(status.samples) <= MAX_SAMPLES
    assert len(status.model_dump_json(by_alias=True, exclude_none=True).encode()) < 16 * 1024


@pytest.mark.parametrize("plans", [[DONE], []], ids=["all is done", "no nodes"])
def test_a_rollout_is_complete_when_nothing_is_under_way_or_left(plans: list[NodePlan]) -> None:
    assert judge_rollout(a_pool(), _plans_of(*plans))[:2] == (True, Reason.NOTHING_LEFT)


STRANGE = a_node(labels={**OURS, "ack.node.gpu.schedule": "egpu"})
CORDONED = a_node(
    labels={**SHARE, **OURS},
    records=under_way(ChangePhase.CORDONED),
    unschedulable=True,
    owns_cordon=True,
)
MANUAL = a_pool(rollout={"approval": "Manual"})
GIVEN_BACK = a_pool(deleting=True, deletion_policy="WholeCard", rollout={"approval": "Manual"})


@pytest.mark.parametrize(
    ("pool", "nodes", "reason"),
    [
        (a_pool(), [a_settled()], Reason.WORKLOADS_PRESENT),
        (a_pool(), [STRANGE], Reason.REQUIRES_MANUAL_ACTION),
        (a_pool(rollout={"workloads": "CordonAndWait"}), [CORDONED], Reason.UPDATING),
        (a_pool(), [has_failed("gpu-1", initializing=True)], Reason.UPDATING),
        (MANUAL, [has_failed("gpu-0"), a_settled("gpu-2")], Reason.ROLLOUT_HALTED),
        (GIVEN_BACK, [a_settled()], Reason.WORKLOADS_PRESENT),
    ],
    ids=["pods", "a person", "under its cordon", "it joined", "halted first", "given back"],
)
def test_a_rollout_is_not_complete_while_a_node_is_left_and_says_what_it_waits_for(
    pool: Pool, nodes: list[Node], reason: Reason
) -> None:
    snapshot = a_snapshot(pools=(pool,), nodes=tuple(nodes), pods=(a_gpu_pod(),))
    assert _rollout(snapshot)[:2] == (False, reason)


def test_a_label_that_is_put_back_is_no_rollout() -> None:
    records = applied()
    notes = frozenset(records.annotations())
    node = a_node(labels={**SHARE, **OURS}, records=records, owned=notes)
    assert _rollout(a_snapshot(pools=(a_pool(),), nodes=(node,), pods=(a_plugin_pod(),)))[0]


def test_a_rollout_that_nothing_begins_of_says_what_it_waits_for() -> None:
    nodes = (a_settled("gpu-1"), a_settled("gpu-9", ready=False))
    holds, reason, message = _rollout(a_snapshot(pools=(a_pool(),), nodes=nodes))
    assert (holds, reason) == (False, Reason.UPDATING)
    assert "Node gpu-1: Waiting for budget: rollout.maxUnavailable (1)" in message


def test_a_halted_rollout_says_the_first_that_failed_and_how_many_are_left() -> None:
    failures = [has_failed(name) for name in ("gpu-9", "gpu-1", "gpu-5")]
    nodes = (*failures, a_settled("gpu-2"), a_settled("gpu-3"))
    holds, reason, message = _rollout(a_snapshot(pools=(a_pool(),), nodes=nodes))
    assert (holds, reason) == (False, Reason.ROLLOUT_HALTED)
    for told in ("gpu-1 failed in phase Restarting", "left to change: 2", "retry pool/training"):
        assert told in message


@pytest.mark.parametrize(
    ("kind", "reason"),
    [(REFUSED, Reason.UPDATING), (TEARDOWN, Reason.WAITING_FOR_APPROVAL)],
    ids=["not done by itself", "done"],
)
def test_nobody_is_asked_to_agree_to_what_is_not_done_by_itself(
    kind: ChangeKind, reason: Reason
) -> None:
    assert judge_rollout(MANUAL, _plans_of(_waiting(kind=kind)))[1] is reason


def test_a_node_that_leaves_the_pool_is_no_part_of_what_is_agreed_to() -> None:
    pool = a_pool(deletion_policy="WholeCard", nodes={"names": ["gpu-2"]})
    nodes = (a_settled("gpu-1"), a_settled("gpu-2"))
    pool_plans = _plan(a_snapshot(pools=(pool,), nodes=nodes, pods=(a_gpu_pod(),)))
    assert pool_plans.plans["gpu-1"].reason is Reason.WORKLOADS_PRESENT
    plan = build_plan(pool, pool_plans)
    assert plan is not None
    assert (plan.hash, [step.node for step in plan.steps]) == (hash_kinds([a_kind()]), ["gpu-2"])


def _state(node: str, state: NodeState, reason: Reason = Reason.UPDATING) -> NodePlan:
    return a_node_plan(node, state, reason, f"message of {node}")


def _status_of(
    pool: Pool, plans: list[NodePlan], now: datetime, *, free_gib: int = 0
) -> PoolStatus:
    pool_plans = PoolPlans()
    for plan in plans:
        free = (free_gib,) if free_gib else ()
        capacity = NodeCapacity(1, 15, free_blocks=free, card_total=15)
        pool_plans.put(plan.node, Member(plan, capacity=capacity))
    return build_status(pool, pool_plans, now)


READY = _state("a", NodeState.READY, Reason.APPLIED)
BLOCKED = _state("b", NodeState.BLOCKED, Reason.WORKLOADS_PRESENT)
UPDATING = _state("c", NodeState.UPDATING)


@pytest.mark.parametrize(
    ("plans", "status", "reason", "told"),
    [
        ([READY], "True", Reason.ALL_NODES_READY, ""),
        ([], "True", Reason.NO_NODES, ""),
        ([READY, UPDATING], "False", Reason.UPDATING, "1 of 2"),
        ([UPDATING, BLOCKED], "False", Reason.WORKLOADS_PRESENT, "message of b"),
    ],
    ids=["every member is", "no nodes", "in a change", "held up, and on its way"],
)
def test_ready_says_first_what_holds_the_pool_up(
    plans: list[NodePlan], status: str, reason: Reason, told: str
) -> None:
    ready, *_ = _status_of(a_pool(), plans, NOW).conditions
    assert (ready.status, ready.reason) == (status, reason)
    assert told in ready.message


def test_the_same_plans_give_the_same_status_later() -> None:
    first = _status_of(a_pool(), [READY, BLOCKED], NOW)
    again = a_pool(status=PoolStatus.model_validate(first.model_dump(mode="json", by_alias=True)))
    assert _status_of(again, [READY, BLOCKED], NOW + timedelta(hours=1)) == first


def test_each_reason_has_a_sample_before_any_has_two() -> None:
    many = [_state(f"a{i:03}", NodeState.BLOCKED, Reason.WORKLOADS_PRESENT) for i in range(50)]
    other = _state("z", NodeState.BLOCKED, Reason.MIG_NODE)
    samples = _status_of(a_pool(), [*many, other], NOW).samples
    assert "z" in {sample.node for sample in samples}


def test_room_that_moves_on_the_same_nodes_is_told_every_few_seconds() -> None:
    before = a_pool(status=_status_of(a_pool(), [READY], NOW, free_gib=15))
    told = [
        _status_of(before, [READY], NOW + timedelta(seconds=after), free_gib=7).capacity
        for after in (1, 3)
    ]
    assert [capacity and capacity.largest_free_block for capacity in told] == [15, 7]


NEWS = Key("uid-1", "AllNodesReady", "2 of 2 nodes are ready")


def note(number: int, uid: str = "uid-1") -> Key:
    return Key(uid, "Updating", f"{number} nodes are in their change")


def count_admitted(correlator: EventCorrelator, keys: list[Key], now: float) -> int:
    return sum(correlator.admit(key, now) is not None for key in keys)


def test_the_same_is_counted_for_as_long_as_it_comes_again_within_two_minutes() -> None:
    correlator = EventCorrelator()
    first = correlator.admit(NEWS, 0)
    assert first is not None
    for times in range(1, 2 * AT_ONCE):
        assert correlator.admit(NEWS, times * (SAME_SECONDS - 1)) is first
    assert first.count == 2 * AT_ONCE
    again = correlator.admit(NEWS, 2 * AT_ONCE * SAME_SECONDS)
    assert again is not None
    assert (again is first, again.count) == (False, 1)


def test_what_is_told_once_is_told_again_after_a_while_however_often_it_came() -> None:
    correlator = EventCorrelator()
    first = correlator.admit(NEWS, 0, once=True)
    for now in range(0, int(ONCE_SECONDS), 5):
        assert correlator.admit(NEWS, now, once=True) is first
    assert correlator.admit(NEWS, ONCE_SECONDS, once=True) is not first


def test_what_differs_in_object_reason_or_note_is_another_event() -> None:
    correlator = EventCorrelator()
    others = [
        Key("uid-2", NEWS.reason, NEWS.note),
        Key(NEWS.uid, "Updating", NEWS.note),
        Key(NEWS.uid, NEWS.reason, "3 of 3 nodes are ready"),
    ]
    assert len({id(correlator.admit(key, 0)) for key in [NEWS, *others]}) == 4


def test_an_object_that_flaps_is_heard_of_less_and_others_all_the_same() -> None:
    correlator = EventCorrelator()
    assert count_admitted(correlator, [note(n) for n in range(1_000)], 0) == AT_ONCE
    assert correlator.admit(note(1, "uid-2"), 0) is not None
    assert count_admitted(correlator, [note(n) for n in range(1_000, 2_000)], REFILL_SECONDS) == 1
    quiet = REFILL_SECONDS + AT_ONCE * REFILL_SECONDS
    assert count_admitted(correlator, [note(n) for n in range(100)], quiet) == AT_ONCE


def test_what_is_over_is_not_remembered() -> None:
    correlator = EventCorrelator()
    count_admitted(correlator, [note(n, f"uid-{n}") for n in range(1_000)], 0)
    correlator.admit(NEWS, AT_ONCE * REFILL_SECONDS)
    assert len(correlator._series) == len(correlator._buckets) == 1


@pytest.mark.parametrize("message", ["m", "m" * 4000], ids=["short", "long"])
def test_whatever_else_is_told_of_a_pool_one_sample_is_a_warning(message: str) -> None:
    many = [
        a_node_plan(f"n{index:03}", NodeState.BLOCKED, reason, message)
        for index, reason in enumerate([Reason.WORKLOADS_PRESENT, Reason.MIG_NODE] * 50)
    ]
    warned = [_state(f"a{index}", NodeState.READY, Reason.EXTENDER_STALE) for index in range(2)]
    samples = _status_of(a_pool(), [*warned, *many], NOW).samples
    assert [sample.node for sample in samples if sample.reason == Reason.EXTENDER_STALE] == ["a0"]
    assert samples[-1].node == "a0"


def test_a_step_says_what_becomes_of_a_node_and_what_holds_it_up() -> None:
    held = _waiting(reason=Reason.WORKLOADS_PRESENT, pods=3)
    (step,) = _expect_plan(held).steps
    assert (step.node, step.change) == ("gpu-1", "share -> cgpu")
    assert step.outcome == "apply and restart the plugin"
    assert (step.restarts_plugin, step.reboots) == (True, False)
    assert (step.pods, step.blocker) == (3, "WorkloadsPresent")


def test_a_change_of_ready_has_its_own_time() -> None:
    before = a_pool(status=_status_of(a_pool(), [BLOCKED], NOW))
    later = NOW + timedelta(hours=1)
    ready, *_ = _status_of(before, [READY], later).conditions
    assert ready.last_transition_time == later
