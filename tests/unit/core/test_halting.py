"""What a failure does to the other nodes of its pool, and people who change their minds then."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpushare import names
from gpushare.api.node import Node
from gpushare.api.pool import Edition, Pool, Schedule
from gpushare.core.actions import ApplyNode, NodeState
from gpushare.core.observed import Observed, Timing
from gpushare.core.plan import Planner
from gpushare.core.records import Applied, Change, Failure, NodeRecords, Step
from gpushare.core.rollout import plan_give_way
from gpushare.names import Reason
from tests.kit.values.node_plans import (
    INSTALLER,
    a_failure,
    a_settled,
    applied,
    changing,
    expect_apply,
    has_failed,
    on_basic,
    some_settled,
    under_way,
)
from tests.kit.values.objects import LATER, MEMORY, NOW, a_node, a_plugin_pod, a_pool, a_world
from tests.unit.core.planner_output import Planned, Rollout, plan_world

WIDE: dict[str, Any] = {"max_unavailable": 3}


def _at(step: Step, **more: object) -> Node:
    node = a_settled("gpu-2", unschedulable=True, owns_cordon=True)
    return replace(node, annotations=under_way(step, **more).annotations())


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (_at(Step.LABELLED), Reason.LABELLED),
        (_at(Step.CORDONED, joining=True), Reason.CORDONED),
        (a_node("gpu-2", {"ack.node.gpu.schedule": "share"}), Reason.CORDONED),
    ],
    ids=["labelled", "cordoned and joining", "joining"],
)
def test_what_takes_no_capacity_away_goes_on_in_a_halted_pool(node: Node, reason: Reason) -> None:
    rollout = Rollout(has_failed(), node, **WIDE)
    assert rollout.reasons["gpu-2"] is reason


def test_nodes_that_are_only_cordoned_are_let_go_of_when_the_pool_halts() -> None:
    rollout = Rollout(changing(), _at(Step.CORDONED), **WIDE)
    assert rollout.reasons["gpu-2"] is Reason.CORDONED
    rollout.update(set(), NOW + timedelta(minutes=10))
    assert set(rollout.reasons.values()) == {Reason.DEADLINE_EXCEEDED, Reason.ROLLOUT_HALTED}


def test_a_failure_halts_no_other_pool() -> None:
    rivals = a_pool("other", nodes={"names": ["gpu-9"]}, priority=200)
    node = replace(a_settled("gpu-9"), labels={**a_settled().labels, "gpushare.io/pool": "other"})
    world = a_world(pools=(a_pool(), rivals), nodes=(has_failed(), node))
    assert plan_world(world).decided["gpu-9"].takes_slot


def test_a_halting_node_that_goes_away_lets_the_others_begin() -> None:
    rollout = Rollout(has_failed(), *some_settled(2))
    assert rollout.started == set()
    rollout.remove("gpu-0")
    assert rollout.started == {"gpu-1"}
    assert rollout.reasons["gpu-2"] is Reason.WAITING_FOR_BUDGET


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


# Pools that are being deleted.


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


SHARE = {"cgpu": "true", "cgpu.disable.isolation": "true", names.LABEL_POOL: "training"}
CGPU = SHARE | {"cgpu.disable.isolation": "false"}
POOL = a_pool(edition="Basic", rollout={"max_unavailable": 2, "on_failure": "Rollback"})
PODS = (INSTALLER, a_plugin_pod("new"), a_plugin_pod("plugin-2", node="gpu-2"))
FAILED = on_basic(Schedule.SHARE, Schedule.CGPU, Step.RESTARTING, failure=a_failure())
FINISHED = applied(edition=Edition.BASIC, plugins={"new": 0}, of="share", failure=a_failure())


def plan_beside(pool: Pool, records: NodeRecords, labels: dict[str, str]) -> Planned:
    """What is planned for gpu-1, with these records, and for gpu-2, which has yet to be changed.

    The budget has room for both.
    """
    failed = a_node(
        labels=labels,
        records=records,
        unschedulable=records.change is not None,
        allocatable={MEMORY: 15},
    )
    waiting = applied(Schedule.SHARE, edition=Edition.BASIC, plugins={"plugin-2": 0})
    healthy = a_node("gpu-2", SHARE, records=waiting, allocatable={MEMORY: 15})
    world = a_world(pools=(pool,), nodes=(failed, healthy), pods=PODS)
    return plan_world(replace(world, zeroed=frozenset({"gpu-1"})))


def _back(step: Step) -> NodeRecords:
    return on_basic(Schedule.CGPU, Schedule.SHARE, step, undoes=a_failure())


@pytest.mark.parametrize(
    ("records", "labels"),
    [
        (_back(Step.CORDONED), CGPU),
        (_back(Step.LABELLED), SHARE),
        (_back(Step.RESTARTING), SHARE),
        (FAILED, CGPU),
        (FINISHED, CGPU),
    ],
    ids=["back: cordoned", "back: labelled", "back: restarting", "finishes", "has finished"],
)
def test_the_pool_stays_halted_whatever_becomes_of_the_failed_node(
    records: NodeRecords, labels: dict[str, str]
) -> None:
    assert plan_beside(POOL, records, labels).decided["gpu-2"].reason is Reason.ROLLOUT_HALTED


def test_a_node_that_joins_too_late_holds_nobody_up_then_or_afterwards() -> None:
    more = {"failure": a_failure(), "joining": True, "restart": False}
    joining = on_basic(Schedule.DEFAULT, Schedule.CGPU, Step.LABELLED, **more)

    plans = plan_beside(POOL, joining, CGPU).decided

    assert plans["gpu-2"].reason is Reason.CORDONED
    done = expect_apply(plans["gpu-1"])
    assert not done.cordon
    assert "failure" not in done.annotations[names.ANNOTATION_APPLIED]


FAILED = on_basic(Schedule.SHARE, Schedule.CGPU, Step.RESTARTING, failure=a_failure())
IN_SHARE, IN_CGPU = (applied(mode, edition=Edition.BASIC).applied for mode in ("share", "cgpu"))


def a_member(records: NodeRecords, name: str = "gpu-1", **more: Any) -> Node:
    values: dict[str, Any] = {"unschedulable": True, "owns_cordon": True, **more}
    return a_node(name, CGPU, records=records, allocatable={MEMORY: 15}, **values)


def plan(pool: Pool, *nodes: Node, ready: bool = True) -> Planner:
    """What is planned at LATER for these, on which the plugins run."""
    parts = (a_plugin_pod("plugin-1", ready=ready), INSTALLER)
    pods = tuple(replace(part, node=node.name) for node in nodes for part in parts)
    planner = Planner(Timing())
    planner.update(a_world(pools=(pool,), nodes=nodes, pods=pods), None, LATER)
    return planner


def read_change(action: ApplyNode) -> Change:
    return Change.model_validate_json(action.annotations[names.ANNOTATION_CHANGE])


@pytest.mark.parametrize(
    ("undoes", "before", "plugin"),
    [
        (a_failure(), IN_SHARE, "plugin-1"),
        (None, IN_SHARE, "plugin-1"),
        (a_failure(), None, "plugin-1"),
        (None, IN_CGPU, "misled"),
    ],
    ids=["rollback", "another change", "no record", "a repair that failed"],
)
def test_a_plugin_is_not_believed_when_what_followed_a_failed_change_is_given_up(
    undoes: Failure | None, before: Applied | None, plugin: str
) -> None:
    """Nothing says whether it was restarted before that failed."""
    back = on_basic(Schedule.CGPU, Schedule.SHARE, Step.CORDONED, undoes=undoes)
    back = back.model_copy(update={"applied": before})
    seen = Observed(a_member(back), (a_plugin_pod(plugin),), back)

    change = read_change(plan_give_way(seen, why="a person uncordoned the node", now=NOW))

    assert (change.to, change.step, change.restart) == (Schedule.CGPU, Step.LABELLED, True)


def test_nodes_that_failed_together_do_not_wait_for_each_others_place() -> None:
    pool = a_pool(schedule="share", edition="Basic", generation=2)
    nodes = (a_member(FAILED), a_member(FAILED, "gpu-2"))
    plans = plan(pool, *nodes, ready=False).books["training"].plans
    assert [plans[node.name].reason for node in nodes] == [Reason.CORDONED] * 2


def test_a_failed_node_that_waits_for_an_agreement_is_failed_all_the_same() -> None:
    manual = {"approval": "Manual"}
    pool = a_pool(schedule="share", edition="Basic", generation=2, rollout=manual)
    held = plan(pool, a_member(FAILED)).books["training"].plans["gpu-1"]
    assert held.state is NodeState.FAILED
    assert "approvedPlan" in held.message


def test_a_paused_pool_begins_no_other_change_on_a_node_that_failed() -> None:
    pool = a_pool(schedule="share", edition="Basic", generation=2, reconcile="Paused")
    held = plan(pool, a_member(FAILED)).books["training"].plans["gpu-1"]
    assert (held.reason, held.action) == (Reason.PAUSED, None)
