"""A pass over the whole world."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare import names
from gpushare.api.node import Node
from gpushare.api.pool import Pool
from gpushare.core.actions import ApplyNode, NodeState
from gpushare.core.world import World
from gpushare.names import Reason
from tests.kit.values.node_plans import OURS, SHARE, a_settled, changing, expect_idle
from tests.kit.values.objects import a_gpu_pod, a_node, a_pool, a_world
from tests.unit.core.planner_output import Planned, plan_world

BROKEN = {names.ANNOTATION_CHANGE: "{"}


def _cordoned(plan: Planned) -> list[str]:
    return sorted(
        node
        for node, decided in plan.decided.items()
        if isinstance(decided.action, ApplyNode) and decided.action.cordon
    )


def _states(plan: Planned, pool: str = "training") -> dict[str, Reason]:
    return {member.node: member.reason for member in plan.members[pool]}


def test_a_pool_that_is_deleted_waits_for_no_node_that_is_down() -> None:
    pool = a_pool(deleting=True, deletion_policy="WholeCard")
    nodes = (a_settled("gpu-0"), a_settled("gpu-1", ready=False), a_settled("gpu-2"))
    assert _cordoned(plan_world(a_world(pools=(pool,), nodes=nodes))) == ["gpu-0"]


def test_a_pool_takes_no_node_before_our_finalizer_is_on_it() -> None:
    new = a_pool("new", finalizers=frozenset(), priority=900)
    plan = plan_world(a_world(pools=(a_pool(), new), nodes=(a_settled("gpu-0"),)))
    assert list(_states(plan)) == ["gpu-0"]
    assert plan.members["new"] == ()


def test_a_node_that_a_person_cordoned_uses_up_the_budget_of_the_others() -> None:
    world = a_world(
        pools=(a_pool(),), nodes=(a_settled("gpu-0"), a_settled("gpu-1", unschedulable=True))
    )
    assert _cordoned(plan_world(world)) == ["gpu-1"]


@pytest.mark.parametrize("starting", [True, False], ids=["its cordon", "labels"])
def test_a_node_whose_cordon_is_being_written_uses_up_the_budget(starting: bool) -> None:
    world = a_world(pools=(a_pool(),), nodes=(a_settled("gpu-0"), a_settled("gpu-1")))
    busy = frozenset({"gpu-1"})
    world = replace(world, busy=busy, starting=busy if starting else frozenset())
    assert ("gpu-0" in _cordoned(plan_world(world))) is not starting


def test_nodes_that_join_are_changed_all_at_once_and_hold_up_nobody() -> None:
    nodes = (a_node("gpu-0"), a_node("gpu-1"), changing("gpu-2", joining=True), a_settled("gpu-3"))
    world = a_world(pools=(a_pool(),), nodes=nodes)
    assert _cordoned(plan_world(world)) == ["gpu-0", "gpu-1", "gpu-3"]


def test_the_loser_of_an_overlap_is_told_who_has_the_node() -> None:
    rival = a_pool("rival", priority=200)
    plan = plan_world(a_world(pools=(a_pool(), rival), nodes=(a_node("gpu-0"),)))
    (lost,) = plan.members["training"]
    assert lost.reason is Reason.OWNED_BY_OTHER_POOL
    assert "rival" in lost.message
    assert "200 > 100" in lost.message


def test_a_deleted_pool_is_released_only_when_no_node_remembers_it() -> None:
    pool = a_pool(deleting=True)
    holding = plan_world(a_world(pools=(pool,), nodes=(a_settled("gpu-0"),)))
    assert holding.release == ()
    assert [member.node for member in holding.members["training"]] == ["gpu-0"]
    free = a_node("gpu-0", {**SHARE, **OURS})
    assert plan_world(a_world(pools=(pool,), nodes=(free,))).release == (pool,)


def test_nodes_of_a_pool_that_cant_be_read_are_left_as_they_are() -> None:
    world = World(unreadable_pools=frozenset({"training"}), nodes={"gpu-0": a_settled("gpu-0")})
    plan = plan_world(world)
    assert (plan.decided, plan.members) == ({}, {})


def test_a_node_with_a_broken_record_is_reported_and_left_alone() -> None:
    broken = Node("gpu-0", "uid", labels={"group": "gpu"}, annotations=BROKEN)
    (member,) = plan_world(a_world(pools=(a_pool(),), nodes=(broken,))).members["training"]
    expect_idle(member, NodeState.BLOCKED, Reason.RECORD_UNREADABLE)


_NODES = st.lists(
    st.sampled_from(["new", "settled", "changing", "joining", "not ready", "cordoned"]),
    max_size=8,
)


def _build(kinds: list[str], pools: tuple[Pool, ...]) -> World:
    nodes = []
    for index, kind in enumerate(kinds):
        name = f"gpu-{index}"
        match kind:
            case "new":
                nodes.append(a_node(name))
            case "settled":
                nodes.append(a_settled(name))
            case "changing":
                nodes.append(changing(name))
            case "joining":
                nodes.append(changing(name, joining=True))
            case "not ready":
                nodes.append(a_settled(name, ready=False))
            case "cordoned":
                nodes.append(a_settled(name, unschedulable=True))
    return a_world(pools=pools, nodes=tuple(nodes), pods=(a_gpu_pod(node="gpu-0"),))


@given(_NODES)
def test_equal_worlds_give_equal_plans(kinds: list[str]) -> None:
    pools = (a_pool(), a_pool("other", priority=7))
    forth, back = _build(kinds, pools), _build(kinds, pools[::-1])
    reordered = World(
        back.pools,
        nodes=dict(reversed(list(back.nodes.items()))),
        pods=back.pods,
        plugin_daemonsets=back.plugin_daemonsets,
    )
    assert repr(plan_world(forth)) == repr(plan_world(reordered))


@given(_NODES)
def test_nothing_starts_beyond_the_budget(kinds: list[str]) -> None:
    world = _build(kinds, (a_pool(),))
    plan = plan_world(world)
    started = [member.node for member in plan.members["training"] if member.takes_slot]
    out = {
        f"gpu-{i}" for i, kind in enumerate(kinds) if kind in ("changing", "not ready", "cordoned")
    }
    assert len(started) <= 1
    assert not started or out <= set(started)


def test_a_replaced_pool_goes_though_its_successor_is_held_up() -> None:
    old = a_pool("training", deleting=True)
    new = a_pool("successor", schedule="default")
    world = a_world(pools=(old, new), nodes=(a_settled("gpu-0"),), pods=(a_gpu_pod(node="gpu-0"),))
    plan = plan_world(world)
    assert _states(plan, "successor") == {"gpu-0": Reason.WORKLOADS_PRESENT}
    assert plan.release == (old,)


def test_nothing_is_done_to_a_node_to_which_something_is_being_done() -> None:
    nodes = (changing("gpu-0"), a_settled("gpu-1"))
    world = a_world(pools=(a_pool(schedule="share"),), nodes=nodes)
    busy = replace(world, busy=frozenset({"gpu-0", "gpu-1"}))
    assert [member.action for member in plan_world(busy).members["training"]] == [None, None]


def test_a_cordoned_node_with_a_broken_record_uses_up_the_budget() -> None:
    broken = Node(
        "gpu-0",
        "uid",
        labels={"group": "gpu"},
        annotations=BROKEN,
        unschedulable=True,
    )
    world = a_world(pools=(a_pool(),), nodes=(broken, a_settled("gpu-1")))
    assert _cordoned(plan_world(world)) == []


def test_a_deleted_pool_waits_for_a_node_whose_record_is_broken_and_says_so() -> None:
    owned = frozenset({names.LABEL_POOL})
    broken = Node("gpu-0", "uid", labels={**SHARE, **OURS}, annotations=BROKEN, owned=owned)
    plan = plan_world(a_world(pools=(a_pool(deleting=True),), nodes=(broken,)))
    assert plan.release == ()
    assert [member.reason for member in plan.members["training"]] == [Reason.RECORD_UNREADABLE]


def test_one_node_that_cant_be_judged_does_not_stop_the_others() -> None:
    odd = a_node("gpu-0", {names.LABEL_SCHEDULE: "cgpu"}, allocatable=None)
    plan = plan_world(a_world(pools=(a_pool(),), nodes=(odd, a_settled("gpu-1"))))
    assert _states(plan)["gpu-0"] is Reason.INTERNAL_ERROR
    assert _cordoned(plan) == ["gpu-1"]
