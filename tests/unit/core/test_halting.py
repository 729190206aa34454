"""What a failure does to the other nodes of its pool."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpushare.api.node import Node
from gpushare.api.pool import Pool
from gpushare.core.records import Step
from gpushare.names import Reason
from tests.kit.values.node_plans import (
    a_settled,
    changing,
    has_failed,
    some_settled,
    under_way,
)
from tests.kit.values.objects import NOW, a_node, a_pool, a_world
from tests.unit.core.planner_output import Rollout, plan_world

WIDE: dict[str, Any] = {"max_unavailable": 3}


def test_a_pool_halts_in_the_pass_in_which_a_deadline_passes() -> None:
    rollout = Rollout(changing(), *some_settled(3), max_unavailable=2, canary=1)
    assert rollout.started == set()
    rollout.update(set(), NOW + timedelta(minutes=10))
    assert rollout.started == set()
    assert rollout.reasons["gpu-0"] is Reason.DEADLINE_EXCEEDED
    assert rollout.reasons["gpu-1"] is Reason.ROLLOUT_HALTED


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


def test_a_node_that_joined_and_failed_is_called_so_while_it_awaits_agreement() -> None:
    wants_another = a_pool(schedule="default", rollout={"approval": "Manual"})
    rollout = Rollout(has_failed(), has_failed("gpu-5", joining=True), pool=wants_another)
    first = rollout.reasons
    rollout.update({"gpu-5"})
    assert first["gpu-5"] is rollout.reasons["gpu-5"] is Reason.DEADLINE_EXCEEDED


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


def test_a_halting_node_that_leaves_the_pool_lets_the_others_begin() -> None:
    rollout = Rollout(has_failed(), *some_settled(2))
    rollout.set(replace(has_failed(), labels={}, annotations={}, owned=frozenset()))
    assert rollout.started == {"gpu-1"}


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


def test_the_same_pool_again_resumes_nothing() -> None:
    rollout = Rollout(has_failed(), *some_settled(2), max_unavailable=2)
    rollout.pool = rollout.pool.model_copy()
    rollout.update(set())
    assert rollout.started == set()


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
