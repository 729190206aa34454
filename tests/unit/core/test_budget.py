"""How many nodes may change at once, whose turn it is, and what finding that costs."""

from typing import Any

import pytest

from gpushare.api.node import Node
from gpushare.api.rollout import Rollout as Spec
from gpushare.core import plan as planning
from gpushare.core.turn import Progress, count_max_unavailable, plan_turn
from gpushare.core.world import Judged, World, judge
from gpushare.names import Reason
from tests.kit.values.node_plans import (
    CGPU,
    OURS,
    a_settled,
    applied,
    changing,
    done,
    has_failed,
    some_settled,
)
from tests.kit.values.objects import MEMORY, a_node
from tests.unit.core.planner_output import Rollout

WIDE: dict[str, Any] = {"max_unavailable": 3}


# The budget.


def test_as_many_nodes_begin_as_the_budget_says() -> None:
    assert Rollout(*some_settled(5), **WIDE).started == {"gpu-1", "gpu-2", "gpu-3"}


def test_nodes_out_of_service_for_another_reason_use_the_budget() -> None:
    down, cordoned = a_settled("gpu-8", ready=False), a_settled("gpu-9", unschedulable=True)
    rollout = Rollout(*some_settled(4), down, cordoned, changing(), **WIDE)
    # The one that a person cordoned is out of service anyway: it has its own place.
    assert rollout.started == {"gpu-9"}


def test_a_percentage_follows_the_pools_size() -> None:
    rollout = Rollout(*some_settled(18, 11), changing(), max_unavailable="10%")
    assert rollout.started == set()
    rollout.set(done("gpu-90"))
    assert rollout.started == {"gpu-11"}
    rollout.set(changing("gpu-11"))
    rollout.remove("gpu-90")
    rollout.set(done("gpu-0"))
    assert rollout.started == set()


# The canary.


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


def test_a_canary_that_leaves_is_replaced_by_another_node() -> None:
    rollout = Rollout(changing("gpu-0"), *some_settled(3), canary=1, max_unavailable=4)
    assert rollout.started == set()
    rollout.remove("gpu-0")
    assert rollout.started == {"gpu-1"}


def test_nodes_that_were_in_the_pools_mode_already_prove_nothing() -> None:
    right = a_node("gpu-0", {**CGPU, **OURS}, records=applied(plugins={"plugin-gpu-0": 0}),
                   allocatable={MEMORY: 15})  # fmt: skip
    assert Rollout(right, *some_settled(3), canary=1, max_unavailable=3).started == {"gpu-1"}


# What it costs.


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the nodes whose records are read, in order."""
    names: list[str] = []

    def count(world: World, name: str) -> Judged:
        names.append(name)
        return judge(world, name)

    monkeypatch.setattr(planning, "judge", count)
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
    judged: list[str], first: Node, event: Node, read: list[str], reason: Reason
) -> None:
    rollout = Rollout(first, *some_settled(1000))
    judged.clear()
    rollout.set(event)
    assert judged == read
    assert rollout.reasons["gpu-1000"] is reason


def test_a_node_that_waits_is_counted_once_for_each_reason() -> None:
    rollout = Rollout(changing(), *some_settled(2))
    book = rollout.planner.books["training"]
    assert book.take_turned() == {Reason.WAITING_FOR_BUDGET: 2}
    rollout.set(has_failed())
    assert book.take_turned() == {Reason.DEADLINE_EXCEEDED: 1, Reason.ROLLOUT_HALTED: 2}
    rollout.set(rollout.nodes["gpu-1"])
    assert not book.take_turned()


def test_a_node_that_begins_at_once_is_not_counted_as_waiting() -> None:
    assert not Rollout(a_settled("gpu-1")).planner.books["training"].take_turned()


def _progress(**more: int | str) -> Progress:
    values: dict[str, int | str] = {
        "total": 10, "unavailable": 0, "changing": 0, "proven": 0, **more,
    }  # fmt: skip
    return Progress(**values)  # type: ignore[arg-type]


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
        pytest.param(CANARIES, {"changing": 1, "proven": 1}, CANARY, id="one of two is done"),
        pytest.param(CANARIES, {"proven": 1}, None, id="the second may begin after the first"),
        pytest.param(CANARIES, {"changing": 5, "proven": 2}, None, id="others follow both"),
        pytest.param(CANARIES, {"unavailable": 3}, None, id="nodes that are down are no canaries"),
    ],
)
def test_a_node_begins_where_budget_and_canaries_leave_it_a_place(
    rollout: Spec, progress: dict[str, int], reason: Reason | None
) -> None:
    out = {"unavailable": progress.get("changing", 0), **progress}
    turn = plan_turn(rollout, _progress(**out))
    assert (turn.reason if not turn.may_begin else None) is reason
    if reason is CANARY:
        assert f"{progress.get('proven', 0)} did so far" in turn.message


def test_a_halt_holds_where_budget_and_canary_would_not() -> None:
    assert not plan_turn(Spec(max_unavailable=9), _progress(halted_by="gpu-1 failed")).may_begin


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
    turn = plan_turn(Spec(canary=1, max_unavailable=2), progress)
    assert (turn.may_begin, turn.may_join) == (False, True)
