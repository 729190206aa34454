"""How many nodes may change at once, whose turn it is, and what a failure does to the others."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.api.pool import Pool
from gpushare.api.rollout import Rollout as Spec
from gpushare.core.cause import Cause
from gpushare.core.planner import planner as planning
from gpushare.core.planner.planner import Planner
from gpushare.core.records.change_record import ChangePhase
from gpushare.core.rollout.budget import RolloutProgress, count_max_unavailable, find_start_refusal
from gpushare.core.snapshot.actions import NodePlan, RecheckPods
from gpushare.core.snapshot.cluster import ClusterSnapshot, NodeContext, build_node_context
from gpushare.core.snapshot.node import Timing
from gpushare.core.status.plan_status import judge_rollout
from gpushare.names import Reason
from tests.kit.values.node_plans import (
    CGPU,
    INSTALLER,
    OURS,
    SHARE,
    a_failure,
    a_settled,
    applied,
    changing,
    done,
    expect_apply,
    has_failed,
    some_settled,
    under_way,
)
from tests.kit.values.objects import MEMORY, NOW, a_node, a_pool, a_snapshot
from tests.unit.planner.planner_output import Rollout, plan_snapshot

WIDE: dict[str, Any] = {"max_unavailable": 3}
SHARING = applied("share")


def test_as_many_nodes_begin_as_the_budget_says() -> None:
    assert Rollout(*some_settled(5), **WIDE).started == {"gpu-1", "gpu-2", "gpu-3"}


def test_nodes_out_of_service_for_another_reason_use_the_budget() -> None:
    down, cordoned = a_settled("gpu-8", ready=False), a_settled("gpu-9", unschedulable=True)
    rollout = Rollout(*some_settled(4), down, cordoned, changing(), **WIDE)
    # The one that a person cordoned is out of service anyway: it has its own place.
    assert rollout.started == {"gpu-9"}


def test_no_node_begins_beside_the_canaries_until_they_are_verified() -> None:
    rollout = Rollout(*some_settled(5), canary=2, max_unavailable=4)
    assert rollout.started == {"gpu-1", "gpu-2"}
    assert set(rollout.reasons.values()) == {Reason.CORDONED, Reason.WAITING_FOR_CANARY}
    rollout.set(changing("gpu-1"), changing("gpu-2"))
    assert rollout.started == set()
    rollout.set(done("gpu-1"))
    assert rollout.started == set()
    rollout.set(done("gpu-2"))
    assert rollout.started == {"gpu-3", "gpu-4", "gpu-5"}


def test_nodes_that_were_in_the_pools_mode_already_prove_nothing() -> None:
    right = a_node("gpu-0", {**CGPU, **OURS}, records=applied(plugins={"plugin-gpu-0": 0}),
                   allocatable={MEMORY: 15})  # fmt: skip
    assert Rollout(right, *some_settled(3), canary=1, max_unavailable=3).started == {"gpu-1"}


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the nodes whose records are read, in order."""
    names: list[str] = []

    def count(snapshot: ClusterSnapshot, name: str) -> NodeContext:
        names.append(name)
        return build_node_context(snapshot, name)

    monkeypatch.setattr(planning, "build_node_context", count)
    return names


@pytest.mark.parametrize(
    ("first", "event", "read", "reason"),
    [
        (changing(), has_failed(), ["gpu-0"], Reason.ROLLOUT_HALTED),
        (changing(), done("gpu-0"), ["gpu-0", "gpu-1"], Reason.WAITING_FOR_BUDGET),
        (has_failed(), a_settled("gpu-7"), ["gpu-7"], Reason.ROLLOUT_HALTED),
    ],
    ids=["a halt", "a free slot", "a node that waits"],
)
def test_an_event_has_only_the_nodes_read_that_it_concerns(
    context: list[str], first: Node, event: Node, read: list[str], reason: Reason
) -> None:
    rollout = Rollout(first, *some_settled(1000))
    context.clear()
    rollout.set(event)
    assert context == read
    assert rollout.reasons["gpu-1000"] is reason


def test_a_node_that_waits_is_counted_once_for_each_reason() -> None:
    rollout = Rollout(changing(), *some_settled(2))
    pool_plans = rollout.planner.plans_by_pool["training"]
    assert pool_plans.take_waits() == {Reason.WAITING_FOR_BUDGET: 2}
    rollout.set(has_failed())
    assert pool_plans.take_waits() == {Reason.DEADLINE_EXCEEDED: 1, Reason.ROLLOUT_HALTED: 2}
    rollout.set(rollout.nodes["gpu-1"])
    assert not pool_plans.take_waits()


def _progress(**more: int | str) -> RolloutProgress:
    none = RolloutProgress(total=10, unavailable=0, changing=0, verified=0)
    return replace(none, **more)  # type: ignore[arg-type]


def _refuse(rollout: Spec, progress: RolloutProgress, *, initializes: bool = False) -> Cause | None:
    pool = a_pool(rollout=rollout.model_dump())
    return find_start_refusal(pool, progress, initializes=initializes)


def _budget(limit: int | str) -> Spec:
    return Spec.model_validate({"maxUnavailable": limit})


@pytest.mark.parametrize(
    ("limit", "total", "nodes"),
    [
        (3, 0, 3), (3, 5000, 3),
        ("10%", 200, 20), ("10%", 199, 19), ("10%", 20, 2), ("10%", 19, 1), ("33%", 10, 3),
        ("99%", 100, 99), ("100%", 7, 7), ("1%", 5000, 50),
        ("10%", 9, 1), ("1%", 99, 1), ("50%", 1, 1), ("5%", 0, 1),
    ],
)  # fmt: skip
def test_a_percentage_is_rounded_down_but_for_the_first_node(
    limit: int | str, total: int, nodes: int
) -> None:
    assert count_max_unavailable(_budget(limit), total) == nodes


@pytest.mark.parametrize("limit", [0, -1, "0%", "101%", "5.5%", "%", "05%", "all"])
def test_a_budget_that_means_nothing_is_refused(limit: int | str) -> None:
    with pytest.raises(ValueError, match="maxUnavailable"):
        _budget(limit)


PAIR, CANARIES = Spec(max_unavailable=2), Spec(canary=2, max_unavailable=8)
BUDGET, CANARY = Reason.WAITING_FOR_BUDGET, Reason.WAITING_FOR_CANARY


@pytest.mark.parametrize(
    ("rollout", "progress", "reason"),
    [
        pytest.param(PAIR, {"unavailable": 1}, None, id="one place of two is free"),
        pytest.param(PAIR, {"unavailable": 2}, BUDGET, id="the budget is used up"),
        pytest.param(PAIR, {"unavailable": 5}, BUDGET, id="more than the budget is out"),
        pytest.param(Spec(canary=1), {"unavailable": 1, "changing": 1}, BUDGET, id="budget first"),
        pytest.param(CANARIES, {}, None, id="the first canary"),
        pytest.param(CANARIES, {"changing": 1}, None, id="the second"),
        pytest.param(CANARIES, {"changing": 2}, CANARY, id="both are in their change"),
        pytest.param(CANARIES, {"changing": 1, "verified": 1}, CANARY, id="one of two is done"),
        pytest.param(CANARIES, {"verified": 1}, None, id="the second may begin after the first"),
        pytest.param(CANARIES, {"changing": 5, "verified": 2}, None, id="others follow both"),
        pytest.param(CANARIES, {"unavailable": 3}, None, id="nodes that are down are no canaries"),
    ],
)
def test_a_node_begins_where_budget_and_canaries_leave_it_a_place(
    rollout: Spec, progress: dict[str, int], reason: Reason | None
) -> None:
    out = {"unavailable": progress.get("changing", 0), **progress}
    refusal = _refuse(rollout, _progress(**out))
    assert (refusal and refusal.reason) is reason
    if refusal is not None and reason is CANARY:
        assert f"{progress.get('verified', 0)} of 2 nodes" in refusal.message
    if refusal is not None and reason is BUDGET:
        assert f"maxUnavailable ({rollout.max_unavailable})" in refusal.message
        assert refusal.message.endswith("`kubectl get nodes -l gpushare.io/pool=training`")


def test_what_waits_for_a_share_of_the_nodes_is_not_looked_at_again_when_their_number_changes() -> (
    None
):
    refusals = [
        _refuse(Spec(max_unavailable="10%"), _progress(total=total, unavailable=50))
        for total in (100, 200)
    ]
    assert refusals[0] == refusals[1]
    assert refusals[0] is not None
    assert "maxUnavailable (10%)" in refusals[0].message


def test_a_halt_holds_where_budget_and_canary_would_not() -> None:
    assert _refuse(Spec(max_unavailable=9), _progress(halted_by="gpu-1 failed")) is not None


@pytest.mark.parametrize(
    "progress",
    [
        _progress(unavailable=5, changing=5),
        _progress(halted_by="gpu-1 failed"),
        _progress(changing=1),
    ],
    ids=["budget", "halt", "canary"],
)
def test_a_node_that_joins_waits_for_no_other(progress: RolloutProgress) -> None:
    rollout = Spec(canary=1, max_unavailable=2)
    assert _refuse(rollout, progress) is not None
    assert _refuse(rollout, progress, initializes=True) is None


def _at(phase: ChangePhase, **more: object) -> Node:
    node = a_settled("gpu-2", unschedulable=True, owns_cordon=True)
    notes = under_way(phase, **more).annotations()
    return replace(node, annotations=notes, owned=node.owned | notes.keys())


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (_at(ChangePhase.LABELLED), Reason.LABELLED),
        (_at(ChangePhase.CORDONED, initializing=True), Reason.CORDONED),
        (_at(ChangePhase.CORDONED, labelled_at=NOW), Reason.CORDONED),
        (a_node("gpu-2", {"ack.node.gpu.schedule": "share"}), Reason.CORDONED),
    ],
    ids=["labelled", "cordoned and joining", "after a failure", "initializing"],
)
def test_what_takes_no_capacity_away_goes_on_in_a_halted_pool(node: Node, reason: Reason) -> None:
    rollout = Rollout(has_failed(), node, **WIDE)
    assert rollout.reasons["gpu-2"] is reason


def test_nodes_that_are_only_cordoned_are_let_go_of_when_the_pool_halts() -> None:
    rollout = Rollout(changing(), _at(ChangePhase.CORDONED), **WIDE)
    assert rollout.reasons["gpu-2"] is Reason.CORDONED
    rollout.update(set(), NOW + timedelta(minutes=10))
    assert set(rollout.reasons.values()) == {Reason.DEADLINE_EXCEEDED, Reason.ROLLOUT_HALTED}


def test_a_node_whose_pods_cannot_be_read_stays_cordoned_and_other_cordoned_ones_go_on() -> None:
    nodes = [replace(_at(ChangePhase.CORDONED), name=name) for name in ("gpu-1", "gpu-2")]
    refused = Cause(Reason.WRITE_REFUSED, "pods is forbidden")
    snapshot = a_snapshot(pools=(a_pool(rollout=WIDE),), nodes=(*nodes, a_settled("gpu-3")))
    snapshot = replace(snapshot, refusals={"gpu-1": refused})
    planner, later = Planner(Timing()), NOW + timedelta(minutes=20)
    for changed in (None, {"gpu-1"}, {"gpu-2"}, set()):
        decided = planner.update(snapshot, changed, later).decisions
        plans = planner.plans_by_pool["training"].plans
        assert [plans[node.name].action for node in nodes] == [
            RecheckPods("gpu-1"),
            RecheckPods("gpu-2"),
        ]
        assert plans["gpu-3"].reason is Reason.ROLLOUT_HALTED
        assert "gpushare retry" not in plans["gpu-3"].message
        assert len({each.plan.node for each in decided}) == len(decided)


def test_cordoned_nodes_go_on_in_the_pass_in_which_a_freeze_ends_and_ends_the_halt() -> None:
    end = NOW + timedelta(minutes=1)
    rollout = {**WIDE, "freeze": {"reason": "an incident", "until": end}}
    nodes = (has_failed("gpu-1"), _at(ChangePhase.CORDONED))
    snapshot = a_snapshot(pools=(a_pool(rollout=rollout, generation=2),), nodes=nodes)
    planner = Planner(Timing())
    for now, reason in ((NOW, Reason.ROLLOUT_HALTED), (end, Reason.CORDONED)):
        planner.update(snapshot, set() if now == end else None, now)
        assert planner.plans_by_pool["training"].plans["gpu-2"].reason is reason


def test_where_a_node_has_failed_a_retry_is_told_whatever_else_halts_the_pool() -> None:
    held = replace(_at(ChangePhase.CORDONED), name="gpu-1")
    waiting = a_settled("gpu-3")
    refused = {"gpu-1": Cause(Reason.WRITE_REFUSED, "pods is forbidden")}
    pool = a_pool(rollout=WIDE)
    snapshot = a_snapshot(pools=(pool,), nodes=(held, has_failed("gpu-2"), waiting))
    planner = Planner(Timing())
    planner.update(replace(snapshot, refusals=refused), None, NOW + timedelta(minutes=20))
    pool_plans = planner.plans_by_pool["training"]
    _, reason, told = judge_rollout(pool, pool_plans)
    assert reason is Reason.ROLLOUT_HALTED
    for message in (told, pool_plans.plans["gpu-3"].message):
        assert "kubectl gpushare retry pool/training`. Node gpu-2 failed" in message


def _installing(node: Node, *, max_unavailable: int = 1, halted: bool = False) -> NodePlan:
    """What is decided of a node on which an installer runs that no record tells of."""
    installer = replace(INSTALLER, node=node.name)
    nodes = (node, has_failed("gpu-0")) if halted else (node,)
    pool = a_pool(rollout={"max_unavailable": max_unavailable})
    snapshot = a_snapshot(pools=(pool,), nodes=nodes, pods=(installer,))
    return plan_snapshot(snapshot).decided[node.name]


def test_what_is_noted_of_the_kernel_module_goes_along_with_the_cordon() -> None:
    for node in (a_node("gpu-1", SHARE), a_node("gpu-1", {**SHARE, **OURS}, records=SHARING)):
        plan = _installing(node)
        assert plan.reason is Reason.CORDONED
        apply = expect_apply(plan)
        assert apply.cordon
        assert names.ANNOTATION_MODULE in apply.annotations


def test_it_is_noted_alone_where_the_start_is_not_admitted() -> None:
    node = a_node("gpu-1", {**SHARE, **OURS}, records=SHARING)
    plan = _installing(node, max_unavailable=9, halted=True)
    assert plan.reason is Reason.ROLLOUT_HALTED
    apply = expect_apply(plan)
    assert not apply.cordon
    assert names.ANNOTATION_MODULE in apply.annotations


def test_a_failure_halts_no_other_pool() -> None:
    conflicts = a_pool("other", nodes={"names": ["gpu-9"]}, priority=200)
    node = replace(a_settled("gpu-9"), labels={**a_settled().labels, "gpushare.io/pool": "other"})
    snapshot = a_snapshot(pools=(a_pool(), conflicts), nodes=(has_failed(), node))
    assert plan_snapshot(snapshot).decided["gpu-9"].uses_budget


def test_the_pool_stays_halted_until_its_last_failure_is_resumed() -> None:
    rollout = Rollout(has_failed("gpu-0"), has_failed("gpu-5"), *some_settled(2), max_unavailable=9)
    rollout.set(replace(has_failed("gpu-0"), retry="now"))
    assert rollout.started == set()
    rollout.set(replace(has_failed("gpu-5"), retry="now"))
    assert rollout.started == {"gpu-1", "gpu-2"}


@pytest.mark.parametrize("what", ["generation", "retry"])
def test_a_pool_that_is_resumed_goes_on(what: str) -> None:
    rollout = Rollout(has_failed(), *some_settled(2), max_unavailable=2)
    news = {"generation": 2, "retry": "now"}[what]
    rollout.pool = rollout.pool.model_copy(update={what: news})
    rollout.update(set())
    assert rollout.started == {"gpu-1"}
    assert rollout.reasons["gpu-0"] is Reason.UPDATING
    rollout.update(set())
    assert rollout.started == set(), "the same pool again resumes nothing"


def _deleted(**rollout: Any) -> Pool:
    return a_pool(schedule="share", deleting=True, deletion_policy="WholeCard", rollout=rollout)


def test_a_failure_does_not_hold_up_the_deletion_of_its_pool() -> None:
    rollout = Rollout(has_failed(), *some_settled(2), pool=_deleted(max_unavailable=2))
    assert "gpu-1" in rollout.started


def test_no_canary_is_waited_for_when_nodes_are_given_back() -> None:
    rollout = Rollout(*some_settled(4), pool=_deleted(canary=1, max_unavailable=3))
    assert rollout.started == {"gpu-1", "gpu-2", "gpu-3"}


def test_the_budget_holds_when_nodes_are_given_back() -> None:
    assert len(Rollout(*some_settled(20, 10), pool=_deleted(max_unavailable="10%")).started) == 2


def test_a_canary_that_leaves_is_replaced_by_another_node() -> None:
    rollout = Rollout(changing("gpu-0"), *some_settled(3), canary=1, max_unavailable=4)
    assert rollout.started == set()
    rollout.remove("gpu-0")
    assert rollout.started == {"gpu-1"}


BACK = under_way(ChangePhase.CORDONED, rolls_back=a_failure())


@pytest.mark.parametrize(
    "failed",
    [
        a_node("gpu-0", {**SHARE, **OURS}, records=BACK, unschedulable=True, owns_cordon=True),
        done("gpu-0", failure=a_failure()),
    ],
    ids=["it goes back", "it finished too late"],
)
def test_the_pool_stays_halted_whatever_becomes_of_the_failed_node(failed: Node) -> None:
    rollout = Rollout(failed, *some_settled(2), max_unavailable=9)
    assert rollout.reasons["gpu-1"] is Reason.ROLLOUT_HALTED


def test_a_halting_node_that_leaves_the_pool_lets_the_others_begin() -> None:
    rollout = Rollout(has_failed(), *some_settled(2))
    rollout.set(replace(has_failed(), labels={}, annotations={}, owned=frozenset()))
    assert rollout.started == {"gpu-1"}


def test_the_nodes_of_another_pool_are_not_counted() -> None:
    named = [f"gpu-{index}" for index in range(20)]
    other = a_pool("other", nodes={"names": named[10:]})
    rollout = {"max_unavailable": "20%"}
    mine = a_pool(nodes={"names": named}, rollout=rollout, priority=1)
    snapshot = a_snapshot(pools=(mine, other), nodes=tuple(some_settled(20, 0)))
    begun = [plan.node for plan in plan_snapshot(snapshot).members["training"] if plan.uses_budget]
    assert begun == ["gpu-0", "gpu-1"]
