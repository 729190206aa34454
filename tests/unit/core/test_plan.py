"""A pass over the whole world."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from gpushare import names
from gpushare.api.node import Node
from gpushare.api.pool import Edition, Pool, Schedule
from gpushare.core.actions import ApplyNode, NodeState
from gpushare.core.records import Applied, Change, NodeRecords, Step
from gpushare.core.world import World
from gpushare.names import Reason
from tests.kit.members import expect_idle
from tests.kit.planned import Planned, plan_world
from tests.kit.values import NOW, a_gpu_pod, a_node, a_pool, a_world

SHARE = {names.LABEL_SCHEDULE: "share", names.LABEL_POOL: "training"}


def _settled(name: str, pool: str = "training", **more: object) -> Node:
    """A member that is in mode share, as the operator left it."""
    applied = Applied(pool=pool, edition=Edition.PROFESSIONAL, schedule=Schedule.SHARE)
    labels = {names.LABEL_SCHEDULE: "share", names.LABEL_POOL: pool}
    return a_node(name, labels, records=NodeRecords(found={}, applied=applied), **more)  # type: ignore[arg-type]


def _in_change(name: str, *, joining: bool = False) -> Node:
    change = Change(
        pool="training",
        edition=Edition.PROFESSIONAL,
        of=Schedule.SHARE,
        to=Schedule.CGPU,
        step=Step.LABELLED,
        since=NOW,
        labelled_at=NOW,
        joining=joining,
    )
    labels = {names.LABEL_SCHEDULE: "cgpu", names.LABEL_POOL: "training"}
    return a_node(name, labels, records=NodeRecords(found={}, change=change), unschedulable=True)


def _plan(world: World) -> Planned:
    return plan_world(world)


def _cordoned(plan: Planned) -> list[str]:
    return sorted(
        node
        for node, decided in plan.decided.items()
        if isinstance(decided.action, ApplyNode) and decided.action.cordon
    )


def _states(plan: Planned, pool: str = "training") -> dict[str, Reason]:
    return {member.node: member.reason for member in plan.members[pool]}


def test_one_node_of_a_pool_goes_out_of_service_at_a_time() -> None:
    world = a_world(pools=(a_pool(),), nodes=tuple(_settled(f"gpu-{i}") for i in range(4)))
    assert _cordoned(_plan(world)) == ["gpu-0"]


def test_no_node_starts_while_another_is_in_its_change() -> None:
    world = a_world(pools=(a_pool(),), nodes=(_settled("gpu-0"), _in_change("gpu-1")))
    assert _states(_plan(world))["gpu-0"] is Reason.WAITING_FOR_BUDGET


def test_a_node_that_is_not_ready_uses_up_the_budget_of_the_others() -> None:
    world = a_world(pools=(a_pool(),), nodes=(_settled("gpu-0"), _settled("gpu-1", ready=False)))
    plan = _plan(world)
    assert _cordoned(plan) == []
    assert _states(plan) == {
        "gpu-0": Reason.WAITING_FOR_BUDGET,
        "gpu-1": Reason.NODE_NOT_READY,
    }


def test_a_pool_that_is_deleted_waits_for_no_node_that_is_down() -> None:
    pool = a_pool(deleting=True, deletion_policy="WholeCard")
    nodes = (_settled("gpu-0"), _settled("gpu-1", ready=False), _settled("gpu-2"))
    assert _cordoned(_plan(a_world(pools=(pool,), nodes=nodes))) == ["gpu-0"]


def test_a_pool_takes_no_node_before_our_finalizer_is_on_it() -> None:
    new = a_pool("new", finalizers=frozenset(), priority=900)
    plan = _plan(a_world(pools=(a_pool(), new), nodes=(_settled("gpu-0"),)))
    assert list(_states(plan)) == ["gpu-0"]
    assert plan.members["new"] == ()


def test_a_node_that_a_person_cordoned_uses_up_the_budget_of_the_others() -> None:
    world = a_world(
        pools=(a_pool(),), nodes=(_settled("gpu-0"), _settled("gpu-1", unschedulable=True))
    )
    assert _cordoned(_plan(world)) == ["gpu-1"]


def test_a_node_whose_cordon_is_on_its_way_uses_up_the_budget() -> None:
    world = a_world(pools=(a_pool(),), nodes=(_settled("gpu-0"), _settled("gpu-1")))
    busy = frozenset({"gpu-1"})
    assert "gpu-0" not in _cordoned(_plan(replace(world, busy=busy, starting=busy)))


def test_a_node_whose_labels_are_being_written_uses_up_no_budget() -> None:
    world = a_world(pools=(a_pool(),), nodes=(_settled("gpu-0"), _settled("gpu-1")))
    assert "gpu-0" in _cordoned(_plan(replace(world, busy=frozenset({"gpu-1"}))))


def test_nodes_that_join_are_changed_all_at_once_and_hold_up_nobody() -> None:
    nodes = (a_node("gpu-0"), a_node("gpu-1"), _in_change("gpu-2", joining=True), _settled("gpu-3"))
    world = a_world(pools=(a_pool(),), nodes=nodes)
    assert _cordoned(_plan(world)) == ["gpu-0", "gpu-1", "gpu-3"]


def test_pools_have_budgets_of_their_own() -> None:
    other = a_pool("other", nodes={"names": ("gpu-1",)}, priority=200)
    nodes = (_settled("gpu-0"), _settled("gpu-1", pool="other"))
    world = a_world(pools=(a_pool(), other), nodes=nodes)
    assert sorted(_cordoned(_plan(world))) == ["gpu-0", "gpu-1"]


def test_the_loser_of_an_overlap_is_told_who_has_the_node() -> None:
    rival = a_pool("rival", priority=200)
    plan = _plan(a_world(pools=(a_pool(), rival), nodes=(a_node("gpu-0"),)))
    (lost,) = plan.members["training"]
    assert lost.reason is Reason.OWNED_BY_OTHER_POOL
    assert "rival" in lost.message
    assert "200 > 100" in lost.message


def test_a_deleted_pool_is_released_only_when_no_node_remembers_it() -> None:
    pool = a_pool(deleting=True)
    holding = _plan(a_world(pools=(pool,), nodes=(_settled("gpu-0"),)))
    assert holding.release == ()
    assert [member.node for member in holding.members["training"]] == ["gpu-0"]
    free = a_node("gpu-0", SHARE)
    assert _plan(a_world(pools=(pool,), nodes=(free,))).release == (pool,)


def test_nodes_of_a_pool_that_cant_be_read_are_left_as_they_are() -> None:
    world = World(unreadable_pools=frozenset({"training"}), nodes={"gpu-0": _settled("gpu-0")})
    plan = _plan(world)
    assert (plan.decided, plan.members) == ({}, {})


def test_a_node_with_a_broken_record_is_reported_and_left_alone() -> None:
    broken = Node(
        "gpu-0", "uid", labels={"group": "gpu"}, annotations={names.ANNOTATION_CHANGE: "{"}
    )
    (member,) = _plan(a_world(pools=(a_pool(),), nodes=(broken,))).members["training"]
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
                nodes.append(_settled(name))
            case "changing":
                nodes.append(_in_change(name))
            case "joining":
                nodes.append(_in_change(name, joining=True))
            case "not ready":
                nodes.append(_settled(name, ready=False))
            case "cordoned":
                nodes.append(_settled(name, unschedulable=True))
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
    assert repr(_plan(forth)) == repr(_plan(reordered))


@given(_NODES)
def test_nothing_starts_beyond_the_budget(kinds: list[str]) -> None:
    world = _build(kinds, (a_pool(),))
    plan = _plan(world)
    started = [member.node for member in plan.members["training"] if member.takes_slot]
    out = {
        f"gpu-{i}" for i, kind in enumerate(kinds) if kind in ("changing", "not ready", "cordoned")
    }
    assert len(started) <= 1
    assert not started or out <= set(started)


def test_a_deadline_holds_the_pool() -> None:
    world = a_world(pools=(a_pool(),), nodes=(_settled("gpu-0"), _in_change("gpu-1")))
    plan = plan_world(world, NOW + timedelta(hours=1))
    assert _states(plan) == {
        "gpu-0": Reason.ROLLOUT_HALTED,
        "gpu-1": Reason.DEADLINE_EXCEEDED,
    }


def test_a_replaced_pool_goes_though_its_successor_is_held_up() -> None:
    old = a_pool("training", deleting=True)
    new = a_pool("successor", schedule="default")
    world = a_world(pools=(old, new), nodes=(_settled("gpu-0"),), pods=(a_gpu_pod(node="gpu-0"),))
    plan = _plan(world)
    assert _states(plan, "successor") == {"gpu-0": Reason.WORKLOADS_PRESENT}
    assert plan.release == (old,)


def test_nothing_is_done_to_a_node_to_which_something_is_being_done() -> None:
    world = a_world(
        pools=(a_pool(schedule="share"),), nodes=(_in_change("gpu-0"), _settled("gpu-1"))
    )
    busy = World(
        world.pools,
        nodes=world.nodes,
        plugin_daemonsets=world.plugin_daemonsets,
        busy=frozenset({"gpu-0", "gpu-1"}),
    )
    assert [member.action for member in _plan(busy).members["training"]] == [None, None]


def test_a_cordoned_node_with_a_broken_record_uses_up_the_budget() -> None:
    broken = Node(
        "gpu-0",
        "uid",
        labels={"group": "gpu"},
        annotations={names.ANNOTATION_CHANGE: "{"},
        unschedulable=True,
    )
    world = a_world(pools=(a_pool(),), nodes=(broken, _settled("gpu-1")))
    assert _cordoned(_plan(world)) == []


def test_a_deleted_pool_waits_for_a_node_whose_record_is_broken_and_says_so() -> None:
    owned = frozenset({names.LABEL_POOL})
    broken = Node(
        "gpu-0", "uid", labels=SHARE, annotations={names.ANNOTATION_CHANGE: "{"}, owned=owned
    )
    plan = _plan(a_world(pools=(a_pool(deleting=True),), nodes=(broken,)))
    assert plan.release == ()
    assert [member.reason for member in plan.members["training"]] == [Reason.RECORD_UNREADABLE]


def test_one_node_that_cant_be_judged_does_not_stop_the_others() -> None:
    odd = a_node("gpu-0", {names.LABEL_SCHEDULE: "cgpu"}, allocatable=None)
    plan = _plan(a_world(pools=(a_pool(),), nodes=(odd, _settled("gpu-1"))))
    assert _states(plan)["gpu-0"] is Reason.INTERNAL_ERROR
    assert _cordoned(plan) == ["gpu-1"]
