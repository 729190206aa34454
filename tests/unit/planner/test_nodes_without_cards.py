"""Nodes on which nothing shows a card: a selector may cover any of a cluster's nodes."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.core.planner.planner import Planner
from gpushare.core.records.change_record import ChangePhase
from gpushare.core.records.node_records import NodeRecords, parse_records
from gpushare.core.snapshot.actions import ApplyNode, NodePlan, NodeState, ReleaseNode
from gpushare.core.snapshot.node import Timing
from gpushare.core.status.pool_status import MAX_SAMPLE_BYTES
from gpushare.names import Reason
from tests.kit.values.node_plans import (
    CGPU,
    OURS,
    SHARE,
    applied,
    expect_change,
    failed,
    some_settled,
    under_way,
)
from tests.kit.values.objects import NOW, a_node, a_pool, a_snapshot
from tests.unit.planner.planner_output import Planned, plan_snapshot

ASSUMED = {"selector": {"match_labels": {"group": "gpu"}}, "cards": "Assumed"}
WINDOWS, VIRTUAL = {names.LABEL_OS: "windows"}, {"type": "virtual-kubelet"}


def a_cpu_node(name: str = "cpu-1", labels: Any = None, **more: Any) -> Node:
    return a_node(name, labels, **{"capacity": {}, **more})


def _never_verified(**more: Any) -> NodeRecords:
    """A node that joins, cordoned by an operator that did not ask for cards."""
    values = {"phase": ChangePhase.CORDONED, "initializing": True, **more}
    return under_way(**values).model_copy(update={"applied": None})


def _find(planned: Planned, node: str, pool: str = "training") -> NodePlan:
    (plan,) = (each for each in planned.members[pool] if each.node == node)
    return plan


def _expect_left_alone(planned: Planned, *nodes: str, pool: str = "training") -> None:
    for node in nodes:
        plan = _find(planned, node, pool)
        assert (plan.state, plan.reason) == (NodeState.BLOCKED, Reason.NO_GPU_ON_NODE)
        assert node not in planned.decided


def test_only_nodes_with_a_card_are_changed_by_a_selector_that_covers_others() -> None:
    others = (a_cpu_node("cpu-1"), a_cpu_node("win-1", WINDOWS), a_node("eci-1", VIRTUAL))
    planned = plan_snapshot(a_snapshot(pools=(a_pool(),), nodes=(a_node("gpu-1"), *others)))
    assert [node for node, plan in planned.decided.items() if plan.action] == ["gpu-1"]
    _expect_left_alone(planned, "cpu-1", "win-1", "eci-1")


def test_a_user_is_told_each_way_out() -> None:
    planned = plan_snapshot(a_snapshot(pools=(a_pool(),), nodes=(a_cpu_node(),)))
    message = _find(planned, "cpu-1").message
    for field in ("spec.nodes.exclude", "spec.nodes.selector", "spec.nodes.cards: Assumed"):
        assert field in message
    # It is not cut in a status.
    assert len(message) <= MAX_SAMPLE_BYTES


@pytest.mark.parametrize(
    "nodes", [ASSUMED, {"names": ["cpu-1"]}], ids=["all have cards", "this one has"]
)
def test_a_node_joins_of_which_a_user_says_that_it_has_a_card(nodes: dict[str, Any]) -> None:
    pool = a_pool(nodes=nodes)
    planned = plan_snapshot(a_snapshot(pools=(pool,), nodes=(a_cpu_node(),)))
    plan = planned.decided["cpu-1"]
    assert (plan.reason, plan.initializes) == (Reason.CORDONED, True)
    # What a user says may be withdrawn.
    assert expect_change(plan).has_shown_card is None


@pytest.mark.parametrize("labels", [WINDOWS, VIRTUAL], ids=["Windows", "virtual"])
def test_a_node_that_can_have_none_is_left_alone_whatever_a_user_says(labels: Any) -> None:
    pool = a_pool(nodes={**ASSUMED, "names": ["odd-1"]})
    planned = plan_snapshot(a_snapshot(pools=(pool,), nodes=(a_node("odd-1", labels),)))
    _expect_left_alone(planned, "odd-1")
    assert "Assumed" not in _find(planned, "odd-1").message


def test_a_resource_slice_shows_a_card() -> None:
    snapshot = a_snapshot(pools=(a_pool(schedule="disabled"),), nodes=(a_cpu_node("dra-1"),))
    planned = plan_snapshot(replace(snapshot, resource_slices={"dra-1": {"slice"}}))
    assert _find(planned, "dra-1").reason is not Reason.NO_GPU_ON_NODE


# What becomes of signs that vanish.


@pytest.mark.parametrize("records", [applied(), under_way(ChangePhase.LABELLED)])
def test_a_node_whose_mode_was_verified_keeps_its_place_without_any_sign(
    records: NodeRecords,
) -> None:
    node = a_cpu_node("gpu-1", {**CGPU, **OURS}, records=records)
    planned = plan_snapshot(a_snapshot(pools=(a_pool(),), nodes=(node,)))
    assert _find(planned, "gpu-1").reason is not Reason.NO_GPU_ON_NODE
    assert not isinstance(planned.decided["gpu-1"].action, ReleaseNode)


def test_a_change_goes_on_that_began_by_a_sign_which_vanished() -> None:
    begun = plan_snapshot(a_snapshot(pools=(a_pool(),), nodes=(a_node(),))).decided["gpu-1"]
    assert expect_change(begun).has_shown_card
    records = NodeRecords(change=expect_change(begun))
    node = a_cpu_node("gpu-1", records=records, unschedulable=True, owns_cordon=True)
    planned = plan_snapshot(a_snapshot(pools=(a_pool(),), nodes=(node,)))
    assert _find(planned, "gpu-1").reason is Reason.CORDONED


def test_a_verified_node_that_turns_out_to_be_virtual_is_neither_changed_nor_released() -> None:
    node = a_node("gpu-1", {**CGPU, **OURS, **VIRTUAL}, records=applied())
    _expect_left_alone(plan_snapshot(a_snapshot(pools=(a_pool(),), nodes=(node,))), "gpu-1")


@pytest.mark.parametrize("records", [applied(), under_way(ChangePhase.LABELLED)])
@pytest.mark.parametrize("uid", [None, "uid-of-gpu-1"], ids=["of an older operator", "named"])
def test_copied_records_leave_a_node_without_a_card_as_it_is_and_are_removed(
    records: NodeRecords, uid: str | None
) -> None:
    """As `kubectl annotate --all` copies them, onto a node that a user has cordoned."""
    named = {
        field: record.model_copy(update={"node_uid": uid})
        for field in ("change", "applied")
        if (record := getattr(records, field)) is not None
    }
    notes = records.model_copy(update=named).annotations()
    node = replace(a_cpu_node(unschedulable=True), annotations=notes)
    planned = plan_snapshot(a_snapshot(pools=(a_pool(),), nodes=(node,)))
    assert _find(planned, "cpu-1").reason is Reason.NO_GPU_ON_NODE
    action = planned.decided["cpu-1"].action
    assert isinstance(action, ReleaseNode)
    assert not action.remove


# What another operator left on such nodes.


@pytest.mark.parametrize(
    "records",
    [
        _never_verified(),
        _never_verified(phase=ChangePhase.LABELLED, labelled_at=NOW),
        failed(initializing=True).model_copy(update={"applied": None}),
    ],
    ids=["cordoned", "labelled", "failed"],
)
@pytest.mark.parametrize("policy", ["Retain", "WholeCard", "Restore"])
def test_a_cordoned_node_without_a_card_is_uncordoned_and_then_keeps_nothing(
    records: NodeRecords, policy: str
) -> None:
    labels = {} if records.change and not records.change.is_labelled else {**SHARE, **OURS}
    node = a_cpu_node(labels=labels, records=records, unschedulable=True, owns_cordon=True)
    pool = a_pool(deletion_policy=policy)
    first = plan_snapshot(a_snapshot(pools=(pool,), nodes=(node,))).decided["cpu-1"].action
    assert isinstance(first, ApplyNode)
    assert not first.cordon
    owned = frozenset({*first.labels, *first.annotations})
    node = replace(
        node, annotations=first.annotations, owned=owned, unschedulable=False, owns_cordon=False
    )
    assert parse_records(node).change is None
    release = plan_snapshot(a_snapshot(pools=(pool,), nodes=(node,))).decided["cpu-1"].action
    assert isinstance(release, ReleaseNode)
    assert release.remove.items() >= labels.items()


def test_it_stays_cordoned_while_another_controller_is_at_work_on_it() -> None:
    labels = {"nvidia.com/gpu-driver-upgrade-state": "drain-required"}
    records = _never_verified()
    node = a_cpu_node(labels=labels, records=records, unschedulable=True, owns_cordon=True)
    planned = plan_snapshot(a_snapshot(pools=(a_pool(),), nodes=(node,)))
    assert _find(planned, "cpu-1").reason is Reason.UNDER_MAINTENANCE
    assert planned.decided["cpu-1"].action is None


def test_a_label_that_another_manager_owns_too_stays() -> None:
    labels = {names.LABEL_GPUSHARE: "false", **OURS}
    node = a_cpu_node(
        labels=labels, owned=frozenset(labels), managers={names.LABEL_GPUSHARE: "kubectl"}
    )
    pool = a_pool(edition="OpenSource", schedule="share")
    release = plan_snapshot(a_snapshot(pools=(pool,), nodes=(node,))).decided["cpu-1"].action
    assert isinstance(release, ReleaseNode)
    assert release.remove == OURS


# Pools.


def test_a_pool_with_a_lower_priority_gets_what_the_higher_one_may_not_change() -> None:
    wide, bare_metal = a_pool("wide", priority=200), a_pool("metal", nodes=ASSUMED)
    planned = plan_snapshot(a_snapshot(pools=(wide, bare_metal), nodes=(a_cpu_node(),)))
    assert planned.decided["cpu-1"].reason is Reason.CORDONED
    assert _find(planned, "cpu-1", "metal").reason is Reason.CORDONED
    assert _find(planned, "cpu-1", "wide").reason is Reason.NO_GPU_ON_NODE


def test_a_pool_that_only_observes_tells_the_same() -> None:
    pool = a_pool(reconcile="Observe")
    _expect_left_alone(plan_snapshot(a_snapshot(pools=(pool,), nodes=(a_cpu_node(),))), "cpu-1")


def test_a_node_without_a_card_counts_in_no_budget() -> None:
    """Half of two members is one; with six others, that are down, it would be four."""
    down = [a_cpu_node(f"cpu-{number}", ready=False) for number in range(6)]
    pool = a_pool(rollout={"max_unavailable": "50%"})
    planner = Planner(Timing())
    snapshot = a_snapshot(pools=(pool,), nodes=(*some_settled(2), *down))
    plan = planner.update(snapshot, None, NOW)
    begun = [each.plan.node for each in plan.decisions if each.plan.started]
    assert begun == ["gpu-1"]
    assert planner.plans_by_pool["training"].unavailable == {"gpu-1"}


def test_a_card_that_shows_up_later_lets_the_node_join() -> None:
    planner, node = Planner(Timing()), a_cpu_node("gpu-1")
    snapshot = a_snapshot(pools=(a_pool(),), nodes=(node,))
    planner.update(snapshot, None, NOW)
    found = replace(
        node, labels={**node.labels, "feature.node.kubernetes.io/pci-10de.present": "true"}
    )
    assert planner.is_relevant(node, found)
    snapshot = replace(snapshot, nodes={"gpu-1": found})
    plan = planner.update(snapshot, {"gpu-1"}, NOW + timedelta(seconds=1))
    assert [each.plan.reason for each in plan.decisions] == [Reason.CORDONED]
