"""What a pool tells: its status, which stays where nothing is new, and its Events."""

from datetime import datetime, timedelta

import pytest

from gpushare.api.pool import Pool
from gpushare.api.status import PoolStatus
from gpushare.core.actions import NodePlan, NodeState
from gpushare.core.book import Book
from gpushare.core.capacity import NodeCapacity
from gpushare.core.status import build_status as _build_status
from gpushare.core.telling import AT_ONCE, ONCE_SECONDS, REFILL_SECONDS, SAME_SECONDS, Key, Telling
from gpushare.names import Reason
from tests.kit.values.objects import NOW, a_pool


def _plan(node: str, state: NodeState, reason: Reason = Reason.UPDATING) -> NodePlan:
    return NodePlan(node, state, reason, f"message of {node}")


def build_status(
    pool: Pool, plans: list[NodePlan], now: datetime, *, free_gib: int = 0
) -> PoolStatus:
    book = Book()
    for plan in plans:
        book.enter(plan)
        book.measure(
            plan.node,
            NodeCapacity(1, 15, free_blocks=(free_gib,) if free_gib else (), card_total=15),
        )
    return _build_status(pool, book, now)


READY = _plan("a", NodeState.READY, Reason.APPLIED)
BLOCKED = _plan("b", NodeState.BLOCKED, Reason.WORKLOADS_PRESENT)
UPDATING = _plan("c", NodeState.UPDATING)


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
    ready, *_ = build_status(a_pool(), plans, NOW).conditions
    assert (ready.status, ready.reason) == (status, reason)
    assert told in ready.message


def test_the_same_plans_give_the_same_status_later() -> None:
    first = build_status(a_pool(), [READY, BLOCKED], NOW)
    again = a_pool(status=PoolStatus.model_validate(first.model_dump(mode="json", by_alias=True)))
    assert build_status(again, [READY, BLOCKED], NOW + timedelta(hours=1)) == first


def test_each_reason_has_a_sample_before_any_has_two() -> None:
    many = [_plan(f"a{i:03}", NodeState.BLOCKED, Reason.WORKLOADS_PRESENT) for i in range(50)]
    other = _plan("z", NodeState.BLOCKED, Reason.MIG_NODE)
    samples = build_status(a_pool(), [*many, other], NOW).samples
    assert "z" in {sample.node for sample in samples}


def test_room_that_moves_on_the_same_nodes_is_told_every_few_seconds() -> None:
    before = a_pool(status=build_status(a_pool(), [READY], NOW, free_gib=15))
    soon = build_status(before, [READY], NOW + timedelta(seconds=1), free_gib=7)
    later = build_status(before, [READY], NOW + timedelta(seconds=3), free_gib=7)
    told = [status.capacity and status.capacity.largest_free_block for status in (soon, later)]
    assert told == [15, 7]


def test_a_node_that_is_ready_with_a_warning_is_a_sample_after_those_that_are_not() -> None:
    warned = _plan("a", NodeState.READY, Reason.EXTENDER_STALE)
    status = build_status(a_pool(), [warned, UPDATING], NOW)
    assert [(sample.node, sample.reason) for sample in status.samples] == [
        ("c", Reason.UPDATING),
        ("a", Reason.EXTENDER_STALE),
    ]
    assert status.nodes.ready == 1
    status = build_status(a_pool(), [warned], NOW)
    assert (status.conditions[0].status, len(status.samples)) == ("True", 1)


NEWS = Key("uid-1", "AllNodesReady", "all 2 nodes are as the spec says")


def note(number: int, uid: str = "uid-1") -> Key:
    return Key(uid, "Updating", f"{number} nodes are in their change")


def count_admitted(telling: Telling, keys: list[Key], now: float) -> int:
    return sum(telling.admit(key, now) is not None for key in keys)


def test_the_same_is_counted_for_as_long_as_it_comes_again_within_two_minutes() -> None:
    telling = Telling()
    first = telling.admit(NEWS, 0)
    assert first is not None
    for times in range(1, 10):
        assert telling.admit(NEWS, times * (SAME_SECONDS - 1)) is first
    assert first.count == 10
    again = telling.admit(NEWS, 9 * (SAME_SECONDS - 1) + SAME_SECONDS)
    assert again is not None
    assert (again is first, again.count) == (False, 1)


def test_what_is_told_once_is_told_again_after_a_while_however_often_it_came() -> None:
    telling = Telling()
    first = telling.admit(NEWS, 0, once=True)
    for now in range(0, int(ONCE_SECONDS), 5):
        assert telling.admit(NEWS, now, once=True) is first
    assert telling.admit(NEWS, ONCE_SECONDS, once=True) is not first


def test_what_differs_in_object_reason_or_note_is_another_event() -> None:
    telling = Telling()
    others = [
        Key("uid-2", NEWS.reason, NEWS.note),
        Key(NEWS.uid, "Updating", NEWS.note),
        Key(NEWS.uid, NEWS.reason, "all 3 nodes are as the spec says"),
    ]
    assert len({id(telling.admit(key, 0)) for key in [NEWS, *others]}) == 4


def test_an_object_that_flaps_is_heard_of_less_and_others_all_the_same() -> None:
    telling = Telling()
    assert count_admitted(telling, [note(n) for n in range(1_000)], 0) == AT_ONCE
    assert telling.admit(note(1, "uid-2"), 0) is not None
    assert count_admitted(telling, [note(n) for n in range(1_000, 2_000)], REFILL_SECONDS) == 1
    quiet = REFILL_SECONDS + AT_ONCE * REFILL_SECONDS
    assert count_admitted(telling, [note(n) for n in range(100)], quiet) == AT_ONCE


def test_what_is_counted_takes_nothing_of_what_an_object_may_tell() -> None:
    telling = Telling()
    for _ in range(1_000):
        telling.admit(NEWS, 0)
    assert count_admitted(telling, [note(n) for n in range(1_000)], 0) == AT_ONCE - 1


def test_what_is_not_in_the_cluster_is_news_when_it_comes_again() -> None:
    telling = Telling()
    first = telling.admit(NEWS, 0)
    telling.forget(NEWS)
    assert telling.admit(NEWS, 1) is not first


def test_what_is_over_is_not_remembered() -> None:
    telling = Telling()
    count_admitted(telling, [note(n, f"uid-{n}") for n in range(1_000)], 0)
    telling.admit(NEWS, AT_ONCE * REFILL_SECONDS)
    assert len(telling._series) == len(telling._buckets) == 1
