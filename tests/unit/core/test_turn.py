"""How many nodes may change at once, and which must succeed first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.api.rollout import Rollout
from gpushare.core.turn import OPEN, Progress, count_max_unavailable, plan_turn
from gpushare.names import Reason


def _progress(**more: int | str) -> Progress:
    values: dict[str, int | str] = {
        "total": 10, "unavailable": 0, "changing": 0, "proven": 0, **more,
    }  # fmt: skip
    return Progress(**values)  # type: ignore[arg-type]


def _budget(limit: int | str) -> Rollout:
    return Rollout.model_validate({"maxUnavailable": limit})


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


@given(st.integers(1, 100), st.integers(1, 10_000))
def test_a_percentage_is_never_more_than_it_says_but_for_the_first_node(
    percent: int, total: int
) -> None:
    nodes = count_max_unavailable(_budget(f"{percent}%"), total)
    assert nodes == 1 or nodes * 100 <= percent * total


@pytest.mark.parametrize("limit", [0, -1, "0%", "101%", "5.5%", "%", "05%", "all"])
def test_a_budget_that_means_nothing_is_refused(limit: int | str) -> None:
    with pytest.raises(ValueError, match="maxUnavailable"):
        _budget(limit)


@pytest.mark.parametrize(
    ("unavailable", "may_begin"), [(0, True), (1, True), (2, False), (5, False)]
)
def test_nodes_begin_until_the_budget_is_used_up(unavailable: int, *, may_begin: bool) -> None:
    turn = plan_turn(Rollout(max_unavailable=2), _progress(unavailable=unavailable))
    assert turn.may_begin is may_begin
    assert may_begin or turn.reason is Reason.WAITING_FOR_BUDGET


def test_a_halt_is_told_before_a_budget_that_is_used_up_and_says_first_what_ends_it() -> None:
    """A status shows the beginning of a message, and node names are long."""
    halted = _progress(unavailable=1, changing=1, halted_by="n" * 253)
    turn = plan_turn(Rollout(canary=1), halted)
    assert turn.reason is Reason.ROLLOUT_HALTED
    assert "n" * 253 in turn.message
    assert "gpushare.io/retry" in turn.message[:256]


def test_a_halt_holds_where_budget_and_canary_would_not() -> None:
    assert not plan_turn(Rollout(max_unavailable=9), _progress(halted_by="gpu-1 failed")).may_begin


def test_a_budget_that_is_used_up_is_told_before_the_canary() -> None:
    turn = plan_turn(Rollout(canary=1), _progress(unavailable=1, changing=1))
    assert turn.reason is Reason.WAITING_FOR_BUDGET


@pytest.mark.parametrize(
    ("changing", "proven", "may_begin"),
    [
        (0, 0, True),
        (1, 0, True),
        (2, 0, False),
        (1, 1, False),
        (0, 1, True),
        (0, 2, True),
        (5, 2, True),
    ],
    ids=[
        "the first canary", "the second", "both are in their change", "one is in it, one is done",
        "one is done, the second may begin", "both are done", "both are done, others follow",
    ],
)  # fmt: skip
def test_two_canaries_must_succeed_before_a_third_node_begins(
    changing: int, proven: int, *, may_begin: bool
) -> None:
    rollout = Rollout(canary=2, max_unavailable=8)
    turn = plan_turn(rollout, _progress(unavailable=changing, changing=changing, proven=proven))
    assert turn.may_begin is may_begin
    assert may_begin or turn.reason is Reason.WAITING_FOR_CANARY


def test_a_node_that_is_down_is_no_canary() -> None:
    rollout = Rollout(canary=1, max_unavailable=4)
    assert plan_turn(rollout, _progress(unavailable=3)) == OPEN


def test_the_wait_for_a_canary_says_how_many_succeeded() -> None:
    rollout = Rollout(canary=3, max_unavailable=4)
    turn = plan_turn(rollout, _progress(unavailable=2, changing=2, proven=1))
    assert "the first 3 must succeed" in turn.message
    assert "1 did so far" in turn.message


@pytest.mark.parametrize(
    "progress",
    [
        _progress(unavailable=5, changing=5),
        _progress(halted_by="gpu-1 failed"),
        _progress(changing=1),
    ],
    ids=["budget", "halt", "canary"],
)
def test_a_node_that_joins_waits_for_no_other(progress: Progress) -> None:
    turn = plan_turn(Rollout(canary=1, max_unavailable=2), progress)
    assert (turn.may_begin, turn.may_join) == (False, True)
