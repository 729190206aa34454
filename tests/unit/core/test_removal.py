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


@pytest.mark.parametrize(
    ("fate", "pools", "written", "remaining"),
    [
        (PoolFate.DELETE, {"new": {}, "old": {"deleting": True}}, {"new"}, {"new", "old"}),
        (PoolFate.KEEP, {"held": {}, "free": {"finalizers": FOREIGN}}, {"held"}, {"held"}),
        (PoolFate.DELETE, {}, set(), set()),
        (PoolFate.KEEP, {}, set(), set()),
    ],
    ids=["deleted once", "let go of and not deleted", "none to delete", "none to keep"],
)
def test_each_pool_is_written_to_once_and_waited_for(
    fate: PoolFate, pools: dict[str, Any], written: set[str], remaining: set[str]
) -> None:
    removal = plan_removal(tuple(a_pool(name, **more) for name, more in pools.items()), fate)
    assert {pool.name for pool in removal.write} == written
    assert {pool.name for pool in removal.remaining} == remaining


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

    for told in (
        "2 pools are not gone after 240 s",
        describe_wait(waiting),
        describe_wait(unseen),
        "kubectl -n gpushare-system get pods",
        "kubectl patch gsp busy --type=merge",
    ):
        assert told in said


@pytest.mark.parametrize(
    ("more", "left_out"),
    [({"status": leaving(1, HELD)}, "get pods"), ({"finalizers": FOREIGN}, "kubectl patch")],
    ids=["the controller answered", "others hold it"],
)
def test_advice_that_can_not_help_is_left_out(more: dict[str, Any], left_out: str) -> None:
    said = remains_of(a_pool(deleting=True, **more))
    assert "1 pool is not gone after 240 s" in said
    assert left_out not in said


def test_of_many_pools_the_first_are_named_and_the_others_counted() -> None:
    said = remains_of(*(a_pool(f"p{n:02}", deleting=True) for n in range(13)))
    assert "pool p09:" in said
    assert "pool p10:" not in said
    assert "3 more pools" in said


def test_a_controller_that_puts_the_finalizer_back_is_named_as_what_it_is() -> None:
    said = remains_of(a_pool(), fate=PoolFate.KEEP)
    assert f"{names.FINALIZER} is still on training" in said
    assert "Stop it" in said
