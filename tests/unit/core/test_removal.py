"""What is done to the pools when the operator is removed, and what a person reads of it."""

from typing import Any

import pytest

from gpushare import names
from gpushare.api.pool import Pool
from gpushare.api.status import Leaving, NodeCounts, NodeSample, PoolStatus
from gpushare.core.removal import (
    describe_remains,
    describe_wait,
    describe_write,
    plan_removal,
)
from gpushare.names import PoolFate
from tests.kit.values.objects import NOW, a_pool

HELD = NodeSample(node="gpu-3", reason="WorkloadsPresent", since=NOW, message="pod a/b runs")
FOREIGN = frozenset({"example.com/backup"})


def leaving(nodes: int, *samples: NodeSample) -> PoolStatus:
    return PoolStatus(leaving=Leaving(nodes=nodes, since=NOW), samples=samples)


def remains_of(*pools: Pool, fate: PoolFate = PoolFate.DELETE) -> str:
    return describe_remains(pools, fate, timeout_seconds=240, namespace="gpushare-system")


def test_every_pool_is_deleted_once_and_waited_for() -> None:
    new, old = a_pool("new"), a_pool("old", deleting=True)
    removal = plan_removal((new, old), PoolFate.DELETE)
    assert (removal.write, removal.remaining) == ((new,), (new, old))


def test_pools_that_are_kept_are_let_go_of_and_not_deleted() -> None:
    held, free = a_pool("held"), a_pool("free", finalizers=FOREIGN)
    removal = plan_removal((held, free), PoolFate.KEEP)
    assert (removal.write, removal.remaining) == ((held,), (held,))


@pytest.mark.parametrize("fate", PoolFate)
def test_without_pools_nothing_is_left_to_do(fate: PoolFate) -> None:
    assert not plan_removal((), fate).remaining


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "waits for the controller, which has not looked at it yet"),
        ({"status": leaving(1, HELD)}, "waits for node gpu-3: pod a/b runs"),
        ({"status": leaving(4, HELD)}, "waits for node gpu-3, and 3 more: pod a/b runs"),
        ({"status": leaving(4)}, "waits for 4 nodes"),
        ({"finalizers": FOREIGN}, "waits for finalizers of others: example.com/backup"),
    ],
)
def test_what_a_pool_waits_for_is_said(more: dict[str, Any], said: str) -> None:
    assert describe_wait(a_pool(deleting=True, **more)) == f"pool training: {said}"


def test_a_pool_that_is_let_go_of_in_a_change_says_that_nodes_may_be_cordoned() -> None:
    pool = a_pool(status=PoolStatus(nodes=NodeCounts(updating=2)))
    said = describe_write(pool, PoolFate.KEEP)
    assert "2 of its nodes were in their change" in said
    assert "cordoned" in said


def test_a_failed_removal_names_each_pool_and_says_what_to_do() -> None:
    waiting = a_pool("busy", deleting=True, status=leaving(1, HELD))
    unseen = a_pool("unseen", deleting=True)

    said = remains_of(waiting, unseen)

    assert "2 pools are not gone after 240 s, so the operator stays" in said
    assert describe_wait(waiting) in said
    assert describe_wait(unseen) in said
    assert "kubectl -n gpushare-system get pods" in said
    assert "kubectl patch gsp busy --type=merge" in said


def test_one_pool_is_told_of_as_one() -> None:
    assert "1 pool is not gone after 240 s" in remains_of(a_pool(deleting=True))


def test_where_the_controller_answered_nobody_is_asked_whether_it_runs() -> None:
    assert "get pods" not in remains_of(a_pool(deleting=True, status=leaving(1, HELD)))


def test_a_pool_that_others_hold_is_not_to_be_patched_by_our_advice() -> None:
    assert "kubectl patch" not in remains_of(a_pool(deleting=True, finalizers=FOREIGN))


def test_of_many_pools_the_first_are_named_and_the_others_counted() -> None:
    said = remains_of(*(a_pool(f"p{n:02}", deleting=True) for n in range(13)))
    assert "pool p09:" in said
    assert "pool p10:" not in said
    assert "3 more pools" in said


def test_a_controller_that_puts_the_finalizer_back_is_named_as_what_it_is() -> None:
    said = remains_of(a_pool(), fate=PoolFate.KEEP)
    assert f"{names.FINALIZER} is still on training" in said
    assert "Stop it" in said
