"""A pass over the whole world, and which nodes a pool claims."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare import names
from gpushare.api.node import Node
from gpushare.api.pool import Nodes, Pool
from gpushare.api.selector import LabelSelector
from gpushare.core.actions import ApplyNode, NodeState
from gpushare.core.membership import decide_claim, find_owner, is_member, matches_selector
from gpushare.core.records import NodeRecords
from gpushare.core.world import World
from gpushare.names import Reason
from tests.kit.values.node_plans import OURS, SHARE, a_settled, applied, changing, expect_idle
from tests.kit.values.objects import NOW, a_gpu_pod, a_node, a_pool, a_world
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


def _selector(key: str, operator: str, *values: str) -> LabelSelector:
    requirement = {"key": key, "operator": operator, "values": values}
    return LabelSelector.model_validate({"matchExpressions": [requirement]})


@pytest.mark.parametrize(
    ("operator", "values", "present", "absent"),
    [
        ("In", ("a", "b"), True, False),
        ("In", ("b",), False, False),
        ("NotIn", ("a",), False, True),
        ("NotIn", ("b",), True, True),
        ("Exists", (), True, False),
        ("DoesNotExist", (), False, True),
    ],
)
def test_selector_operators_mean_what_they_mean_in_kubernetes(
    operator: str, values: tuple[str, ...], present: bool, absent: bool
) -> None:
    selector = _selector("key", operator, *values)
    assert matches_selector(selector, {"key": "a"}) is present
    assert matches_selector(selector, {"other": "a"}) is absent


def test_all_requirements_of_a_selector_must_hold() -> None:
    selector = LabelSelector.model_validate(
        {"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "Exists"}]}
    )
    assert matches_selector(selector, {"a": "1", "b": ""})
    assert not matches_selector(selector, {"a": "1"})
    assert not matches_selector(selector, {"a": "2", "b": ""})


@pytest.mark.parametrize(
    ("nodes", "member"),
    [
        (Nodes(names=("gpu-1",)), True),
        (Nodes(names=("gpu-1",), exclude=("gpu-1",)), False),
        (Nodes(selector=LabelSelector(), names=("gpu-2",)), False),
    ],
    ids=["named, without any label", "named and excluded", "an empty selector"],
)
def test_a_node_is_a_member_by_its_name_unless_it_is_excluded(nodes: Nodes, member: bool) -> None:
    assert is_member(nodes, a_node("gpu-1")) is member


@pytest.mark.parametrize("label", sorted(names.CONTROL_PLANE_LABELS))
def test_a_control_plane_node_is_a_member_only_when_named(label: str) -> None:
    node = a_node("master", {label: ""})
    selector = LabelSelector(match_labels={"group": "gpu"})
    assert not is_member(Nodes(selector=selector), node)
    assert is_member(Nodes(selector=selector, names=("master",)), node)


def _claim(owner: str | None, *pools: Pool) -> tuple[str, list[str]]:
    """Who gets the node, in whichever order the pools come, and who does not."""
    found = [decide_claim(a_node(), owner, order) for order in (pools, pools[::-1])]
    assert found[0] == found[1]
    assert found[0] is not None
    return found[0].winner.name, [pool.name for pool in found[0].losers]


def test_the_higher_priority_takes_a_node_from_the_pool_that_has_it() -> None:
    owner, high = a_pool("owner", priority=1), a_pool("high", priority=2)
    assert _claim("owner", owner, high) == ("high", ["owner"])


@pytest.mark.parametrize(
    ("owner", "older", "younger", "winner"),
    [
        ("owner", "a-old", "owner", "owner"),
        (None, "z-old", "a-young", "z-old"),
    ],
    ids=["the owner keeps it", "the older one"],
)
def test_of_equal_priorities_the_owner_and_then_the_older_pool_wins(
    owner: str | None, older: str, younger: str, winner: str
) -> None:
    old = a_pool(older, created=NOW - timedelta(days=1))
    assert _claim(owner, old, a_pool(younger))[0] == winner


def test_the_owner_is_the_pool_of_the_label_that_is_ours() -> None:
    node = a_node(labels={names.LABEL_POOL: "owner"}, owned=frozenset({names.LABEL_POOL}))
    assert find_owner(node, applied(pool="before")) == "owner"


@pytest.mark.parametrize("labels", [{}, {names.LABEL_POOL: "pretender"}])
def test_a_pool_label_that_somebody_removed_or_wrote_does_not_move_a_node(
    labels: dict[str, str],
) -> None:
    assert find_owner(a_node(labels=labels), applied(pool="owner")) == "owner"
    assert find_owner(a_node(labels=labels), NodeRecords()) is None


def test_of_pools_that_are_equally_old_the_first_by_name_wins() -> None:
    assert _claim(None, a_pool("b"), a_pool("a")) == ("a", ["b"])


def test_a_pool_that_is_being_deleted_claims_nothing() -> None:
    assert decide_claim(a_node(), None, [a_pool(deleting=True)]) is None
