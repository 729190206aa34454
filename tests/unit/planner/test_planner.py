"""A pass over the whole world, and which nodes a pool claims."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.api.pool import Pool
from gpushare.api.selector import LabelSelector, Nodes, matches_selector
from gpushare.api.status import PoolStatus, Releasing
from gpushare.core.cause import Cause
from gpushare.core.ownership.claims import decide_claim, find_owner, is_member
from gpushare.core.planner.holds import Proposal, hold
from gpushare.core.planner.planner import Planner
from gpushare.core.records.node_records import NodeRecords, parse_records
from gpushare.core.snapshot.actions import ApplyNode, NodeState, RecheckPods, ReleaseNode
from gpushare.core.snapshot.cluster import ClusterSnapshot, NodeContext
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext, Timing
from gpushare.names import Reason
from tests.kit.values.node_plans import (
    CGPU,
    OURS,
    SHARE,
    a_settled,
    an_isolating,
    applied,
    changing,
    deferred,
    has_failed,
    plan_of,
    seconds_to_next,
    some_settled,
    unlabelled,
)
from tests.kit.values.objects import MEMORY, NOW, a_node, a_plugin_pod, a_pool, a_snapshot
from tests.unit.planner.planner_output import Planned, plan_snapshot

BROKEN = Node("gpu-0", "uid", labels={"group": "gpu"}, annotations={names.ANNOTATION_CHANGE: "{"})


def _cordoned(plan: Planned) -> list[str]:
    return sorted(
        node
        for node, decided in plan.decided.items()
        if isinstance(decided.action, ApplyNode) and decided.action.cordon
    )


def _states(plan: Planned, pool: str = "training") -> dict[str, Reason]:
    return {member.node: member.reason for member in plan.members[pool]}


def test_a_pool_takes_no_node_before_our_finalizer_is_on_it() -> None:
    new = a_pool("new", finalizers=frozenset(), priority=900)
    plan = plan_snapshot(a_snapshot(pools=(a_pool(), new), nodes=(a_settled("gpu-0"),)))
    assert list(_states(plan)) == ["gpu-0"]
    assert plan.members["new"] == ()


def test_a_node_that_a_person_cordoned_uses_up_the_budget_of_the_others() -> None:
    snapshot = a_snapshot(
        pools=(a_pool(),), nodes=(a_settled("gpu-0"), a_settled("gpu-1", unschedulable=True))
    )
    assert _cordoned(plan_snapshot(snapshot)) == ["gpu-1"]


@pytest.mark.parametrize("starting", [True, False], ids=["its cordon", "labels"])
def test_a_node_whose_cordon_is_being_written_uses_up_the_budget(starting: bool) -> None:
    snapshot = a_snapshot(pools=(a_pool(),), nodes=(a_settled("gpu-0"), a_settled("gpu-1")))
    busy = frozenset({"gpu-1"})
    snapshot = replace(snapshot, busy=busy, starting={"gpu-1": True} if starting else {})
    assert ("gpu-0" in _cordoned(plan_snapshot(snapshot))) is not starting


def test_a_node_whose_cordon_is_being_written_is_not_held_up_by_a_halt() -> None:
    snapshot = a_snapshot(pools=(a_pool(),), nodes=(a_settled("gpu-0"), has_failed("gpu-1")))
    busy = frozenset({"gpu-0"})
    plan = plan_snapshot(replace(snapshot, busy=busy, starting={"gpu-0": True}))
    assert _states(plan)["gpu-0"] is Reason.CORDONED
    assert "gpu-0" not in _cordoned(plan)


def test_a_joining_node_whose_cordon_is_being_written_is_not_held_up_by_a_freeze() -> None:
    pool = a_pool(rollout={"freeze": {"reason": "an incident"}})
    snapshot = a_snapshot(pools=(pool,), nodes=(a_node("gpu-0"), a_node("gpu-1")))
    snapshot = replace(snapshot, busy=frozenset({"gpu-0"}), starting={"gpu-0": False})
    states = _states(plan_snapshot(snapshot))
    assert states == {"gpu-0": Reason.CORDONED, "gpu-1": Reason.ROLLOUT_FROZEN}


def test_nodes_that_join_are_changed_all_at_once_and_hold_up_nobody() -> None:
    new = (a_node("gpu-0"), a_node("gpu-1"), changing("gpu-2", initializing=True))
    snapshot = a_snapshot(pools=(a_pool(),), nodes=(*new, a_settled("gpu-3")))
    assert _cordoned(plan_snapshot(snapshot)) == ["gpu-0", "gpu-1", "gpu-3"]


def test_the_loser_of_an_overlap_is_told_who_has_the_node() -> None:
    conflict = a_pool("rival", priority=200)
    plan = plan_snapshot(a_snapshot(pools=(a_pool(), conflict), nodes=(a_node("gpu-0"),)))
    (lost,) = plan.members["training"]
    assert lost.reason is Reason.OWNED_BY_OTHER_POOL
    assert "rival" in lost.message
    assert "200 > 100" in lost.message


def test_a_deleted_pool_is_released_only_when_no_node_remembers_it() -> None:
    pool = a_pool(deleting=True)
    holding = plan_snapshot(a_snapshot(pools=(pool,), nodes=(a_settled("gpu-0"),)))
    assert holding.release == ()
    assert [member.node for member in holding.members["training"]] == ["gpu-0"]
    free = a_node("gpu-0", {**SHARE, **OURS})
    assert plan_snapshot(a_snapshot(pools=(pool,), nodes=(free,))).release == (pool,)


def test_nodes_of_a_pool_that_cant_be_read_are_left_as_they_are() -> None:
    snapshot = ClusterSnapshot(
        unreadable_pools=frozenset({"training"}), nodes={"gpu-0": a_settled("gpu-0")}
    )
    plan = plan_snapshot(snapshot)
    assert (plan.decided, plan.members) == ({}, {})


def test_a_plan_does_not_depend_on_the_order_of_pools_and_nodes() -> None:
    pools = (a_pool(), a_pool("other", priority=7))
    nodes = (a_node("gpu-0"), changing("gpu-1"), *some_settled(3, first=2))
    there, back = (a_snapshot(pools=pools[::way], nodes=nodes[::way]) for way in (1, -1))
    assert plan_snapshot(there) == plan_snapshot(back)


def test_nothing_is_done_to_a_node_to_which_something_is_being_done() -> None:
    nodes = (changing("gpu-0"), a_settled("gpu-1"))
    snapshot = a_snapshot(pools=(a_pool(schedule="share"),), nodes=nodes)
    busy = replace(snapshot, busy=frozenset({"gpu-0", "gpu-1"}))
    assert [member.action for member in plan_snapshot(busy).members["training"]] == [None, None]


def test_a_cordoned_node_with_a_broken_record_uses_up_the_budget() -> None:
    nodes = (replace(BROKEN, unschedulable=True), a_settled("gpu-1"))
    assert _cordoned(plan_snapshot(a_snapshot(pools=(a_pool(),), nodes=nodes))) == []


def test_a_deleted_pool_waits_for_a_node_whose_record_is_broken_and_says_so() -> None:
    broken = replace(BROKEN, labels={**SHARE, **OURS}, owned=frozenset({names.LABEL_POOL}))
    plan = plan_snapshot(a_snapshot(pools=(a_pool(deleting=True),), nodes=(broken,)))
    assert plan.release == ()
    assert [member.reason for member in plan.members["training"]] == [Reason.RECORD_UNREADABLE]


def test_one_node_that_cant_be_judged_does_not_stop_the_others() -> None:
    odd = a_node("gpu-0", {names.LABEL_SCHEDULE: "cgpu"}, allocatable=None)
    plan = plan_snapshot(a_snapshot(pools=(a_pool(),), nodes=(odd, a_settled("gpu-1"))))
    assert _states(plan)["gpu-0"] is Reason.INTERNAL_ERROR
    assert _cordoned(plan) == ["gpu-1"]


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
    requirement = {"key": "key", "operator": operator, "values": values}
    selector = LabelSelector.model_validate({"matchExpressions": [requirement]})
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


OLD, NAMED_LAST = a_pool("a-old", created=NOW - timedelta(days=1)), a_pool("z")


@pytest.mark.parametrize(
    ("owner", "winner", "loser"),
    [("z", NAMED_LAST, OLD), (None, OLD, a_pool("a")), (None, a_pool("a"), NAMED_LAST)],
    ids=["the owner keeps it", "the older one", "of those that are equally old the first by name"],
)
def test_of_equal_priorities_the_owner_and_then_the_older_pool_wins(
    owner: str | None, winner: Pool, loser: Pool
) -> None:
    assert _claim(owner, winner, loser) == (winner.name, [loser.name])


def test_the_owner_is_the_pool_of_the_label_that_is_ours() -> None:
    node = a_node(labels={names.LABEL_POOL: "owner"}, owned=frozenset({names.LABEL_POOL}))
    assert find_owner(node, applied(pool="before")) == "owner"


@pytest.mark.parametrize("labels", [{}, {names.LABEL_POOL: "pretender"}])
def test_a_pool_label_that_somebody_removed_or_wrote_does_not_move_a_node(
    labels: dict[str, str],
) -> None:
    assert find_owner(a_node(labels=labels), applied(pool="owner")) == "owner"
    assert find_owner(a_node(labels=labels), NodeRecords()) is None


def test_a_pool_that_is_being_deleted_claims_nothing() -> None:
    assert decide_claim(a_node(), None, [a_pool(deleting=True)]) is None


def test_a_node_is_looked_at_again_when_its_time_has_come() -> None:
    planner, resting = Planner(Timing()), a_settled(records=deferred(0.4))
    snapshot = a_snapshot(pools=(a_pool(),), nodes=(resting,))
    assert planner.update(snapshot, None, NOW).requeue_at == NOW + timedelta(seconds=24)
    later = planner.update(snapshot, set(), NOW + timedelta(seconds=24))
    assert [decision.plan.reason for decision in later.decisions] == [Reason.CORDONED]


def test_a_deleted_pool_waits_ten_minutes_for_the_next_node_and_no_longer() -> None:
    stuck = PoolStatus(releasing=Releasing(nodes=1, since=NOW - Timing().release_patience))
    pool = a_pool(deleting=True, deletion_policy="WholeCard", status=stuck)
    snapshot, planner = a_snapshot(pools=(pool,), nodes=(a_settled(),)), Planner(Timing())
    assert planner.update(snapshot, None, NOW - timedelta(seconds=1)).release == ()
    assert planner.update(snapshot, set(), NOW).release == (pool,)
    assert planner.releases.nodes_of("training") == ["gpu-1"]


OPEN_FOR_LITTLE = a_pool(rollout={"windows": [{"schedule": "4 3 * * *", "duration": "5m"}]})
"""At NOW, and for less than until a change's deadline."""


def test_what_a_node_took_that_is_gone_says_nothing_of_what_fits_in_a_window() -> None:
    nodes = (a_settled(ready=False), an_isolating("gpu-2", records=applied(took_seconds=40.0)))
    planner, snapshot = Planner(Timing()), a_snapshot(pools=(OPEN_FOR_LITTLE,), nodes=nodes)
    planner.update(snapshot, None, NOW)
    left = replace(snapshot, nodes={"gpu-1": a_settled()})
    decided = planner.update(left, {"gpu-1", "gpu-2"}, NOW).decisions
    assert [each.plan.reason for each in decided] == [Reason.WINDOW_TOO_SHORT]


def test_a_process_that_starts_keeps_a_node_cordoned_that_its_window_has_time_for() -> None:
    """By what the pool's last change took: until its deadline there is not enough."""
    nodes = (unlabelled(), an_isolating("gpu-2", records=applied(took_seconds=40.0)))
    snapshot = a_snapshot(pools=(OPEN_FOR_LITTLE,), nodes=nodes)
    assert isinstance(plan_snapshot(snapshot).decided["gpu-1"].action, RecheckPods)


@pytest.mark.parametrize("initializing", [False, True])
def test_a_change_that_failed_is_tried_again_when_a_freeze_ends(initializing: bool) -> None:
    end = NOW + timedelta(minutes=1)
    pool = a_pool(rollout={"freeze": {"reason": "an incident", "until": end}}, retry="again")
    node = has_failed("gpu-1", initializing=initializing)
    planner, snapshot = Planner(Timing()), a_snapshot(pools=(pool,), nodes=(node,))
    (held,) = planner.update(snapshot, None, NOW).decisions
    assert held.plan.state is NodeState.FAILED
    (tried,) = planner.update(snapshot, set(), end).decisions
    assert tried.plan.state is NodeState.UPDATING


def test_a_change_that_failed_is_completed_in_a_freeze_also_where_it_is_to_be_tried_again() -> None:
    frozen = a_pool(rollout={"freeze": {"reason": "an incident"}}, retry="again")
    plugins = (a_plugin_pod(), a_plugin_pod("installer", daemonset="cgpu-installer"))
    pods = tuple(replace(pod, node="gpu-0") for pod in plugins)
    node = replace(has_failed("gpu-0", restart=False), allocatable={MEMORY: 15})
    plan = plan_snapshot(a_snapshot(pools=(frozen,), nodes=(node,), pods=pods)).decided["gpu-0"]
    assert plan.state is NodeState.UPDATING
    assert isinstance(plan.action, ApplyNode)
    assert not plan.action.cordon


def test_an_observing_pool_takes_no_node_and_says_what_it_would_do() -> None:
    watcher = a_pool("watcher", schedule="cgpu", reconcile="Observe", priority=900)
    plan = plan_snapshot(
        a_snapshot(pools=(a_pool(schedule="share"), watcher), nodes=(a_settled(),))
    )
    (member,), (observed,) = plan.members["training"], plan.members["watcher"]
    assert member.state is not NodeState.WAITING
    assert (observed.reason, observed.action) == (Reason.WOULD_CHANGE, None)
    assert "gpushare.io/pool=watcher" in observed.message


def test_a_paused_pool_begins_nothing_and_finishes_what_is_under_way() -> None:
    nodes = (a_settled("a"), replace(changing("b"), unschedulable=False))
    plan = plan_snapshot(a_snapshot(pools=(a_pool(reconcile="Paused"),), nodes=nodes))
    assert (plan.decided["a"].reason, plan.decided["a"].action) == (Reason.PAUSED, None)
    assert plan.decided["b"].action is not None


def test_the_labels_that_would_come_and_those_that_would_go_are_named() -> None:
    node = a_node(
        labels={**SHARE, **OURS, names.LABEL_PLACEMENT: "binpack"}, records=applied("share")
    )
    pool = a_pool(schedule="cgpu", reconcile="Observe")
    seen = NodeContext(NodeSnapshot(node, (), parse_records(node)), is_busy=False)
    held = hold(Proposal(plan_of(node, pool), seen, pool, ReconcileContext(NOW)))
    assert (held.state, held.action) == (NodeState.WAITING, None)
    _, _, listed = held.message.partition(". Labels to write: ")
    written, _, removed = listed.partition("; to remove: ")
    assert written == "ack.node.gpu.schedule=cgpu, gpushare.io/isolation-verified=true"
    assert removed == "ack.node.gpu.placement"


def test_a_contest_wakes_no_node_later_than_its_own_plan_does() -> None:
    """A change that failed is completed where its plugin comes back, also by time alone."""
    pool, node = a_pool(), a_settled()
    seen = NodeContext(NodeSnapshot(node, (), parse_records(node)), is_busy=False)
    contest = Cause(Reason.SPEC_CONTESTED, "spec.schedule keeps returning")
    ctx = ReconcileContext(NOW, closed=contest, closed_until=NOW + timedelta(seconds=600))
    for own, wake in ((6.0, 6.0), (None, 600.0)):
        plan = plan_of(node, pool)
        waits = timedelta(seconds=own) if own is not None else None
        plan = replace(plan, verdict=replace(plan.verdict, requeue_after=waits))
        held = hold(Proposal(plan, seen, pool, ctx))
        assert (held.action, seconds_to_next(held)) == (None, wake)


def test_a_contest_hides_no_failure_that_waits_for_a_user() -> None:
    """Nothing wakes such a node when the contest ends: its message would stay the contest's."""
    pool, node = a_pool(), a_settled()
    seen = NodeContext(NodeSnapshot(node, (), parse_records(node)), is_busy=False)
    ctx = ReconcileContext(NOW, closed=Cause(Reason.SPEC_CONTESTED, "it keeps returning"))
    plan = plan_of(a_settled(), a_pool(schedule="cgpu"))
    verdict = replace(plan.verdict, state=NodeState.FAILED, action=None, start=None)
    failed = replace(plan, verdict=verdict)
    assert failed.kind is not None
    assert hold(Proposal(failed, seen, pool, ctx)) == failed


@pytest.mark.parametrize(
    ("nodes", "reasons"),
    [(["gpu-9"], []), (["gpu-1"], [Reason.OWNED_BY_OTHER_POOL])],
    ids=["of others nothing", "of its own who has them"],
)
def test_a_pool_that_looks_on_speaks_of_its_own_nodes(
    nodes: list[str], reasons: list[Reason]
) -> None:
    watcher = a_pool("watcher", reconcile="Observe", priority=1, nodes={"names": nodes})
    plan = plan_snapshot(a_snapshot(pools=(a_pool(), watcher), nodes=(a_settled(),)))
    assert [member.reason for member in plan.members["watcher"]] == reasons


def test_a_node_whose_pool_is_gone_is_released() -> None:
    plan = plan_snapshot(a_snapshot(pools=(), nodes=(a_settled(),)))
    assert isinstance(plan.decided["gpu-1"].action, ReleaseNode)


def test_a_write_that_was_refused_is_told_instead_of_what_was_to_be_written() -> None:
    snapshot = a_snapshot(pools=(a_pool(),), nodes=(a_node(labels=CGPU),))
    snapshot = replace(snapshot, refusals={"gpu-1": Cause(Reason.WRITE_REFUSED, "denied")})
    (plan,) = plan_snapshot(snapshot).members["training"]
    assert (plan.state, plan.reason) == (NodeState.BLOCKED, Reason.WRITE_REFUSED)
