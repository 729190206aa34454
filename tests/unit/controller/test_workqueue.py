"""Which of thousands of nodes are written to next."""

from dataclasses import replace

import pytest

from gpushare.controller.workqueue import WorkQueue
from gpushare.core.snapshot.actions import (
    Action,
    ApplyNode,
    EvictPods,
    NodeState,
    RecheckPods,
    RecordPlugins,
    ReleaseNode,
    StepResult,
)
from gpushare.names import Reason

LIMIT = 2


def plan(node: str, action: Action | None = None) -> StepResult:
    applies = ApplyNode(node, "uid", "1", {}, {}, cordon=False, message="labelled")
    return StepResult(node, NodeState.UPDATING, Reason.UPDATING, "labelled", action or applies)


@pytest.fixture
def full() -> WorkQueue:
    """As many nodes are written to as may be."""
    queue = WorkQueue(LIMIT)
    assert all(queue.start(plan(f"busy-{number}")) for number in range(LIMIT))
    return queue


def test_only_so_many_are_written_to_and_the_others_wait_in_their_order(full: WorkQueue) -> None:
    waiting = [f"node-{number}" for number in (3, 1, 2)]
    assert not any(full.start(plan(node)) for node in waiting)
    for node in waiting:
        assert full.get() == set()
        full.done("busy-0")
        assert full.get() == {node}
        assert full.start(plan("busy-0"))


def test_one_that_is_decided_about_again_keeps_its_turn(full: WorkQueue) -> None:
    for node in ("a", "b", "a"):
        full.start(plan(node))
    full.done("busy-0")
    assert full.get() == {"a"}


def test_one_whose_turn_it_is_comes_before_one_that_changed_meanwhile(full: WorkQueue) -> None:
    full.start(plan("waits"))
    full.done("busy-0")
    full.get()
    ordered = sorted((plan("changed"), plan("waits")), key=lambda each: not full.is_due(each))
    assert [full.start(each) for each in ordered] == [True, False]
    assert ordered[0].node == "waits"


def test_one_that_was_written_to_meanwhile_has_no_turn_any_more(full: WorkQueue) -> None:
    full.start(plan("a"))
    full.done("busy-0")
    assert full.start(plan("a"))
    full.done("busy-1")
    assert full.get() == set()


def test_where_those_whose_turn_it_was_need_nothing_the_next_have_theirs(full: WorkQueue) -> None:
    for node in ("a", "b", "c"):
        full.start(plan(node))
    assert not full.has_due
    for number in range(LIMIT):
        full.done(f"busy-{number}")
    assert full.get() == {"a", "b"}
    assert full.has_due
    assert full.get() == {"c"}
    assert not full.has_due


@pytest.mark.parametrize(
    "changing", [replace(plan("a"), under_way=True), replace(plan("a"), uses_budget=True)]
)
def test_a_change_that_was_admitted_or_is_under_way_does_not_wait(
    full: WorkQueue, changing: StepResult
) -> None:
    assert full.start(changing)
    full.done("busy-0")
    full.start(plan("b"))
    assert full.get() == set()


@pytest.mark.parametrize("action", [RecheckPods("a"), EvictPods("a", ()), RecordPlugins("a")])
def test_what_takes_several_calls_neither_waits_nor_holds_up_a_write(
    full: WorkQueue, action: Action
) -> None:
    assert full.start(plan("a", action))
    empty = WorkQueue(1)
    assert empty.start(plan("a", action))
    assert empty.start(plan("b"))


def test_nodes_that_are_given_back_wait_as_well(full: WorkQueue) -> None:
    assert not full.start(plan("a", ReleaseNode("a", "uid")))
