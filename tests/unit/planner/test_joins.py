"""Nodes that join: few are cordoned at once, over all pools, and none after three that failed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from gpushare.api.k8s.node import Node
from gpushare.api.pool import Pool
from gpushare.core.cause import Cause
from gpushare.core.planner.joins import JoinEnd, JoinSums, count_join, find_next
from gpushare.core.planner.planner import Planner
from gpushare.core.records.change_record import ChangePhase
from gpushare.core.records.node_records import NodeRecords
from gpushare.core.snapshot.actions import NodeState
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.core.snapshot.node import Timing
from gpushare.core.status.pool_status import MAX_SAMPLE_BYTES, build_status
from gpushare.names import Condition, Reason
from tests.kit.values.node_plans import (
    CGPU,
    INSTALLER,
    OURS,
    a_failure,
    an_isolating,
    applied,
    cordoned,
    expect_applied,
    follow,
    plan_of,
    under_way,
)
from tests.kit.values.objects import (
    LATER,
    MEMORY,
    NOW,
    a_node,
    a_plugin_pod,
    a_pool,
    a_snapshot,
)
from tests.unit.planner.planner_output import plan_snapshot

MOST = 16


def _joining(name: str, records: NodeRecords, **more: Any) -> Node:
    return a_node(name, records=records, unschedulable=True, owns_cordon=True, **more)


def begun(name: str, *, pool: str = "training", phase: str = "Labelled", **more: Any) -> Node:
    """A node whose join is under way."""
    change = under_way(ChangePhase(phase), initializing=True, pool=pool, has_shown_card=True)
    return _joining(name, change.model_copy(update={"applied": None}), **more)


def failed(name: str, *, at: int = 0, attempt: str = "training/1", **more: Any) -> Node:
    """A node whose join failed so many minutes after NOW."""
    failure = a_failure(attempt).model_copy(update={"at": NOW + timedelta(minutes=at)})
    change = under_way(ChangePhase.RESTARTING, initializing=True, failure=failure)
    return _joining(name, change.model_copy(update={"applied": None}), **more)


def joined(name: str, *, at: int = 0, **more: Any) -> Node:
    """A node whose join was verified so many minutes after NOW."""
    records = applied(joined_at=NOW + timedelta(minutes=at), plugins={}, **more)
    return a_node(name, {**CGPU, **OURS}, records=records)


def some_new(count: int, prefix: str = "new") -> list[Node]:
    return [a_node(f"{prefix}-{number:03}") for number in range(count)]


def snapshot_of(*nodes: Node, pools: Sequence[Pool] = ()) -> ClusterSnapshot:
    return a_snapshot(pools=tuple(pools) or (a_pool(),), nodes=nodes)


def list_cordoned(snapshot: ClusterSnapshot, now: datetime = LATER) -> list[str]:
    """The nodes of which one full pass begins the change."""
    decided = plan_snapshot(snapshot, now).decided
    return sorted(name for name, plan in decided.items() if plan.started and plan.action)


def list_reasons(snapshot: ClusterSnapshot, pool: str = "training") -> Mapping[str, Reason]:
    return {plan.node: plan.reason for plan in plan_snapshot(snapshot, LATER).members[pool]}


# The brake.


@pytest.mark.parametrize(
    ("nodes", "begins"),
    [
        ([failed("f1"), failed("f2")], True),
        ([failed("f1"), failed("f2"), failed("f3")], False),
        ([failed("f1"), failed("f2"), failed("f3"), begun("b1")], False),
        ([joined("j1"), failed("f1", at=1), failed("f2", at=2), failed("f3", at=3)], False),
        ([failed("f1"), failed("f2"), failed("f3"), joined("j1", at=1)], True),
        ([failed("f1"), joined("j1", at=1), failed("f2", at=2), failed("f3", at=3)], True),
        ([failed("f1"), failed("f2"), failed("f3", attempt="training/0")], True),
        ([failed("f1"), failed("f2"), failed("f3", retry="again")], True),
    ],
    ids=[
        "two failed", "three failed", "another is under way", "one was verified before",
        "one was verified after", "one was verified between", "one failed for another spec",
        "one is tried again",
    ],
)  # fmt: skip
def test_after_three_joins_that_failed_no_other_begins(nodes: list[Node], begins: bool) -> None:
    snapshot = snapshot_of(*nodes, a_node("new-1"))
    assert ("new-1" in list_cordoned(snapshot)) is begins
    assert (list_reasons(snapshot)["new-1"] is Reason.JOINS_HALTED) is not begins


HALTED = tuple(failed(f"f{number}", at=number) for number in range(3))


def test_a_user_reads_what_failed_first_and_how_to_go_on() -> None:
    planned = plan_snapshot(snapshot_of(*HALTED, a_node("new-1")), LATER)
    (plan,) = (each for each in planned.members["training"] if each.node == "new-1")
    assert plan.state is NodeState.WAITING
    assert "retry pool/training" in plan.message[:MAX_SAMPLE_BYTES]
    assert "Node f0 failed" in plan.message


def test_the_pools_condition_says_that_nodes_no_longer_join() -> None:
    planner, pool = Planner(Timing()), a_pool()
    planner.update(snapshot_of(*HALTED, a_node("new-1"), pools=[pool]), None, LATER)
    status = build_status(pool, planner.plans_by_pool["training"], LATER)
    told = {each.type: each for each in status.conditions}[Condition.ROLLOUT_COMPLETE]
    assert (told.status, told.reason) == ("False", Reason.JOINS_HALTED)
    assert "Node f0 failed" in told.message


@pytest.mark.parametrize("change", [{"retry": "again"}, {"generation": 2}])
def test_another_attempt_lets_nodes_join_again(change: dict[str, Any]) -> None:
    snapshot = snapshot_of(*HALTED, a_node("new-1"), pools=[a_pool(**change)])
    assert list_cordoned(snapshot) == ["new-1"]


def test_one_that_is_verified_lets_nodes_join_again_without_a_full_pass() -> None:
    planner = Planner(Timing())
    snapshot = snapshot_of(*HALTED, begun("b1"), a_node("new-1"))
    planner.update(snapshot, None, LATER)
    nodes = {**snapshot.nodes, "b1": joined("b1", at=30)}
    plan = planner.update(replace(snapshot, nodes=nodes), {"b1"}, LATER)
    assert [each.plan.node for each in plan.decisions if each.plan.started] == ["new-1"]


def test_failures_of_one_pool_hold_up_no_other() -> None:
    other = a_pool("other", nodes={"names": ["new-1"]})
    snapshot = snapshot_of(*HALTED, a_node("new-1", {"group": "x"}), pools=[a_pool(), other])
    assert list_cordoned(snapshot) == ["new-1"]


def test_members_in_service_are_changed_all_the_same() -> None:
    settled = a_node("member", {"ack.node.gpu.schedule": "share", **OURS}, records=applied("share"))
    assert list_cordoned(snapshot_of(*HALTED, settled)) == ["member"]


# How many at once.


def test_so_many_are_cordoned_at_once_and_the_others_wait() -> None:
    snapshot = snapshot_of(*some_new(MOST + 2))
    assert len(list_cordoned(snapshot)) == MOST
    waiting = [n for n, why in list_reasons(snapshot).items() if why is Reason.WAITING_FOR_JOINS]
    assert waiting == ["new-016", "new-017"]


def test_those_under_way_of_any_pool_count() -> None:
    pools = [a_pool(), a_pool("other", nodes={"selector": {"match_labels": {"group": "o"}}})]
    others = [replace(begun(f"o{n}", pool="other"), labels={"group": "o"}) for n in range(MOST - 1)]
    snapshot = snapshot_of(*others, *some_new(3), pools=pools)
    assert list_cordoned(snapshot) == ["new-000"]


@pytest.mark.parametrize(
    ("blocked", "begin"),
    [(begun("b00", ready=False), []), (failed("b00"), ["new-1"])],
    ids=["one is NotReady", "one has failed"],
)
def test_a_cordoned_node_takes_a_place_until_it_failed(blocked: Node, begin: list[str]) -> None:
    under = [begun(f"b{n:02}") for n in range(1, MOST)]
    new = a_node("new-1", {"group": "x"})
    pools = [a_pool(), a_pool("other", nodes={"names": ["new-1"]})]
    snapshot = snapshot_of(blocked, *under, new, pools=pools)
    assert list_cordoned(snapshot) == begin


def test_a_node_whose_record_was_removed_keeps_its_place_and_begins_again() -> None:
    under = [a_node(f"b{n:02}", unschedulable=True, owns_cordon=True) for n in range(MOST)]
    snapshot = snapshot_of(*under, *some_new(1))
    assert list_cordoned(snapshot) == [node.name for node in under]


QUARANTINED = {"dgxc.nvidia.com/nvsentinel-state": "quarantined"}


def test_nodes_that_are_held_up_take_places_of_their_own_pool_alone() -> None:
    under = [begun(f"b{n:02}") for n in range(MOST)]
    held = [replace(node, labels={**node.labels, **QUARANTINED}) for node in under]
    pools = [a_pool(), a_pool("other", nodes={"names": ["else"]})]
    snapshot = snapshot_of(*held, *some_new(1), a_node("else", {"group": "x"}), pools=pools)
    assert list_cordoned(snapshot) == ["else"]


def test_in_their_own_pool_those_that_failed_take_places() -> None:
    gone = [failed(f"f{n:02}", at=n) for n in range(MOST - 1)]
    snapshot = snapshot_of(joined("j", at=59), *gone, *some_new(3))
    assert list_cordoned(snapshot) == ["new-000"]


def test_a_place_that_becomes_free_goes_to_another_pool_without_a_full_pass() -> None:
    other = a_pool("other", nodes={"names": ["new-1"]})
    under = [begun(f"b{n:02}") for n in range(MOST)]
    nodes = (*under, *some_new(5, "mine"), a_node("new-1", {"group": "x"}))
    snapshot = snapshot_of(*nodes, pools=[a_pool(), other])
    planner = Planner(Timing())
    assert not [d for d in planner.update(snapshot, None, LATER).decisions if d.plan.started]
    snapshot = replace(snapshot, nodes={**snapshot.nodes, "b00": joined("b00", at=30)})
    plan = planner.update(snapshot, {"b00"}, LATER)
    assert [each.plan.node for each in plan.decisions if each.plan.started] == ["new-1"]


def test_one_that_is_starting_has_its_place_until_its_record_shows() -> None:
    nodes = some_new(MOST + 1)
    starting = {node.name: False for node in nodes[1:]}
    snapshot = replace(snapshot_of(*nodes), busy=frozenset(starting), starting=starting)
    assert "new-000" not in list_cordoned(snapshot)


def test_a_node_that_the_api_server_refuses_goes_last() -> None:
    snapshot = snapshot_of(*some_new(MOST + 1))
    refusals = {"new-000": Cause(Reason.WRITE_REFUSED, "an admission policy says no")}
    assert "new-000" not in list_cordoned(replace(snapshot, refusals=refusals))


# Fairness.


def _pool_of(under_way_count: int, *, ended: int | None = None) -> JoinSums:
    end = JoinEnd(NOW + timedelta(minutes=ended)) if ended is not None else None
    done = count_join("done", end, is_under_way=False, is_blocked=False)
    return JoinSums(under_way=under_way_count).add(done)


@pytest.mark.parametrize(
    ("pools", "waiting", "next_one"),
    [
        ({"a": _pool_of(5), "b": _pool_of(4)}, "ab", "b"),
        ({"a": _pool_of(5), "b": _pool_of(4)}, "a", "a"),
        (
            {"a": _pool_of(1, ended=2), "b": _pool_of(1, ended=1), "c": _pool_of(1, ended=3)},
            "abc",
            "b",
        ),
        ({"a": _pool_of(1, ended=1), "b": _pool_of(1)}, "ab", "b"),
        ({"a": _pool_of(15), "b": _pool_of(1)}, "ab", ""),
    ],
    ids=["fewest under way", "that waits", "whose last ended first", "without any", "none is free"],
)
def test_a_place_goes_to_the_pool_that_has_least(
    pools: dict[str, JoinSums], waiting: str, next_one: str
) -> None:
    those = {name: pools[name] for name in waiting}
    assert find_next(those, list(pools.values()), MOST) == next_one


# The records.


def test_when_a_join_was_verified_is_recorded_once_and_kept() -> None:
    node = cordoned(under_way(ChangePhase.LABELLED, initializing=True), offered=15)
    plan = plan_of(node, a_pool(), a_plugin_pod(), INSTALLER, now=LATER)
    done = expect_applied(plan)
    assert done.joined_at == LATER
    # Its plugin restarts later.
    node, again = follow(node, plan), a_plugin_pod("plugin-2")
    later = plan_of(node, a_pool(), again, INSTALLER, now=LATER + timedelta(hours=1))
    assert expect_applied(later).joined_at == LATER


def test_another_pool_counts_it_not_as_its_own() -> None:
    records = applied(joined_at=NOW)
    node = an_isolating(records=records, allocatable={MEMORY: 15})
    plan = plan_of(node, a_pool("other"), a_plugin_pod(), INSTALLER)
    assert expect_applied(plan).joined_at is None


def test_a_change_of_a_member_is_no_join() -> None:
    node = cordoned(under_way(ChangePhase.LABELLED), offered=15)
    plan = plan_of(node, a_pool(), a_plugin_pod(), INSTALLER, now=LATER)
    assert expect_applied(plan).joined_at is None
