"""What a node is left with when it leaves its pool, and pools when the operator is removed."""

from dataclasses import replace
from typing import Any

import pytest

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.api.pool import Pool
from gpushare.api.status import NodeCounts, NodeSample, PoolStatus, Releasing
from gpushare.controller.uninstall import describe_remains, describe_wait, describe_write
from gpushare.core.records.change_record import ChangePhase
from gpushare.core.snapshot.actions import NodePlan, NodeState, RecheckPods, ReleaseNode
from gpushare.kube.resources.nodes import build_release
from gpushare.names import PoolFate, Reason
from tests.kit.values.node_plans import (
    CGPU,
    INSTALLER,
    OURS,
    SHARE,
    UNVERIFIED,
    a_failure,
    a_settled,
    applied,
    cordoned,
    expect_apply,
    expect_release,
    failed,
    follow,
    halted_by,
    plan_leave_of,
    under_way,
)
from tests.kit.values.objects import (
    LATER,
    MEMORY,
    NOW,
    a_gpu_pod,
    a_node,
    a_plugin_pod,
    a_pool,
    a_snapshot,
)
from tests.unit.planner.planner_output import plan_snapshot

DEFAULT = {names.LABEL_SCHEDULE: "default"}
NOTHING_FOUND: dict[str, str | None] = {names.LABEL_SCHEDULE: None, names.LABEL_POOL: None}
WHOLE_CARD_PLUGIN = a_plugin_pod("nvidia-1", daemonset="ack-nvidia-device-plugin")


def _pool(policy: str, **more: Any) -> Pool:
    return a_pool(deleting=True, deletion_policy=policy, **more)


def _left(labels: dict[str, str], schedule: str, found: dict[str, str | None]) -> Node:
    plugins = {"nvidia-1": 0} if schedule == "default" else {}
    records = applied(schedule, plugins=plugins).model_copy(update={"initial_values": found})
    offered = {"nvidia.com/gpu": 1} if schedule == "default" else {MEMORY: 15}
    return a_node(labels={**labels, **OURS}, records=records, allocatable=offered)


def _release(plan: NodePlan | None) -> ReleaseNode:
    assert plan is not None
    assert isinstance(plan.action, ReleaseNode), plan
    return plan.action


@pytest.mark.parametrize(
    ("schedule", "pool", "removed"),
    [
        ("share", _pool("Retain"), {}),
        ("share", _pool("WholeCard", reconcile="Observe"), {}),
        ("default", _pool("WholeCard"), OURS),
        ("default", _pool("Restore"), {**DEFAULT, **OURS}),
    ],
    ids=["Retain", "observing", "WholeCard", "Restore"],
)
def test_the_policy_says_which_labels_go(
    schedule: str, pool: Pool, removed: dict[str, str]
) -> None:
    labels, plugins = (DEFAULT, (WHOLE_CARD_PLUGIN,)) if schedule == "default" else (SHARE, ())
    node = _left(labels, schedule, NOTHING_FOUND)
    assert _release(plan_leave_of(node, *plugins, pool=pool)).remove == removed


def test_a_pod_that_selects_the_pool_is_waited_for_before_its_label_goes() -> None:
    pod = a_gpu_pod(selects=frozenset({(names.LABEL_POOL, "training")}), requests={})
    node = _left(DEFAULT, "default", NOTHING_FOUND)
    plan = expect_release(node, WHOLE_CARD_PLUGIN, pod, pool=_pool("WholeCard"))
    assert (plan.reason, plan.action) == (Reason.WORKLOADS_PRESENT, None)


def test_restore_writes_what_was_there_before_it_lets_go() -> None:
    found: dict[str, str | None] = {**DEFAULT, names.LABEL_PLACEMENT: "binpack"}
    node = _left({**DEFAULT, names.LABEL_PLACEMENT: "spread"}, "default", found)
    pool = _pool("Restore", placement="spread")
    plan = expect_release(node, WHOLE_CARD_PLUGIN, pool=pool)
    assert expect_apply(plan).labels[names.LABEL_PLACEMENT] == "binpack"
    restored = follow(node, plan)
    assert _release(plan_leave_of(restored, WHOLE_CARD_PLUGIN, pool=pool)).remove == OURS


def test_what_is_no_known_mode_can_not_be_restored_and_says_so() -> None:
    node = _left(SHARE, "share", {names.LABEL_SCHEDULE: "egpu"})
    plan = expect_release(node, pool=_pool("Restore"))
    assert (plan.state, plan.reason) == (NodeState.BLOCKED, Reason.REQUIRES_MANUAL_ACTION)
    assert f"had at first ({names.LABEL_SCHEDULE}=egpu)" in plan.message


def test_a_node_without_a_whole_card_plugin_does_not_hold_its_pool() -> None:
    records = applied("default", edition="OpenSource", plugins={})
    records = records.model_copy(update={"initial_values": {names.LABEL_GPUSHARE: None}})
    node = a_node(labels={names.LABEL_GPUSHARE: "false", **OURS}, records=records)
    plan = plan_leave_of(node, pool=_pool("WholeCard", edition="OpenSource", schedule="share"))
    assert _release(plan).remove == OURS


def test_a_node_whose_change_failed_is_released_cordoned() -> None:
    plan = expect_release(cordoned(failed()), pool=_pool("Retain"), now=LATER)
    assert _release(plan).remove == UNVERIFIED
    assert "stays cordoned" in plan.message


@pytest.mark.parametrize(
    "node",
    [
        cordoned(failed()),
        a_settled(records=applied("share", from_mode="cgpu", failure=a_failure())),
    ],
    ids=["failed", "rolled back"],
)
def test_a_node_that_failed_keeps_its_records_and_halt_although_its_label_vanishes(
    node: Node,
) -> None:
    """As where feature discovery restarts (node-feature-discovery#2408); a user can decide."""
    plan = expect_release(node, pool=a_pool(), now=LATER)
    assert (plan.state, plan.action) == (NodeState.FAILED, None)
    assert halted_by(plan)
    assert "list it in spec.nodes.exclude" in plan.message
    assert _release(plan_leave_of(node, pool=a_pool(generation=2), now=LATER))


def test_of_a_failed_node_that_a_user_uncordoned_nobody_says_that_it_is_cordoned() -> None:
    plan = expect_release(cordoned(failed(), unschedulable=False), pool=_pool("Retain"), now=LATER)
    assert "stays cordoned" not in plan.message


def test_for_a_pool_that_a_node_leaves_no_pod_is_evicted() -> None:
    node = cordoned(under_way(ChangePhase.LABELLED, restart=True))
    plan = expect_release(node, a_gpu_pod(), pool=_pool("Retain", rollout={"workloads": "Evict"}))
    assert (plan.reason, plan.action) == (Reason.WORKLOADS_PRESENT, None)


def test_a_node_that_leaves_waits_for_a_user_where_nobody_approved_a_teardown_by_jobs() -> None:
    pool = a_pool(
        deletion_policy="Restore",
        isolation_teardown={"policy": "Job", "reboot": "Sentinel"},
        rollout={"approval": "Manual"},
    )
    found: dict[str, str | None] = {names.LABEL_SCHEDULE: "share", names.LABEL_POOL: None}
    records = applied("cgpu", module=True).model_copy(update={"initial_values": found})
    node = a_node(labels={**CGPU, **OURS}, records=records, allocatable={MEMORY: 15})
    tasks = a_plugin_pod(), INSTALLER
    waiting = expect_release(node, *tasks, pool=pool, may_tear_down=True)
    assert (waiting.reason, waiting.action) == (Reason.REQUIRES_TEARDOWN, None)
    by_hand = replace(node, teardown="start")
    begun = expect_release(by_hand, *tasks, pool=pool, may_tear_down=True)
    begins = follow(by_hand, begun)
    goes_on = expect_release(begins, *tasks, pool=pool, may_tear_down=True)
    assert isinstance(goes_on.action, RecheckPods)


def test_the_policy_is_that_of_the_pool_whose_label_the_node_carries() -> None:
    found = {"initial_values": NOTHING_FOUND}
    records = applied("share", pool="a", plugins={}).model_copy(update=found)
    node = a_node(labels={**SHARE, names.LABEL_POOL: "b"}, records=records)
    policies = {"a": "WholeCard", "b": "Retain"}
    pools = tuple(a_pool(n, deleting=True, deletion_policy=p) for n, p in policies.items())
    plan = plan_snapshot(a_snapshot(pools=pools, nodes=(node,)))
    assert isinstance(plan.decided["gpu-1"].action, ReleaseNode)


@pytest.mark.parametrize(
    ("value", "owned"), [("topology", True), ("share", False)], ids=["another value", "not ours"]
)
def test_a_label_that_is_somebody_elses_by_now_is_not_taken_away(
    value: str, *, owned: bool
) -> None:
    fields: dict[str, Any] = {"f:labels": {f"f:{names.LABEL_SCHEDULE}": {}}} if owned else {}
    ours = {"manager": names.FIELD_MANAGER, "operation": "Apply"}
    entries = [{**ours, "fieldsV1": {"f:metadata": fields}}]
    metadata = {"uid": "u", "labels": {names.LABEL_SCHEDULE: value}, "managedFields": entries}
    patch = build_release({"metadata": metadata}, "u", {names.LABEL_SCHEDULE: "share"})
    assert not [step for step in patch if "labels" in step["path"]]


HELD = NodeSample(node="gpu-3", reason="WorkloadsPresent", since=NOW, message="pod a/b runs")
FOREIGN_NAME = "example.com/backup"
FOREIGN = frozenset({FOREIGN_NAME})


def releasing(nodes: int, *samples: NodeSample) -> PoolStatus:
    return PoolStatus(releasing=Releasing(nodes=nodes, since=NOW), samples=samples)


BUSY = a_pool("busy", deleting=True, status=releasing(1, HELD))
UNSEEN = a_pool("unseen", deleting=True)
OF_OTHERS = a_pool(deleting=True, finalizers=FOREIGN)
MANY = [a_pool(f"p{number:02}", deleting=True) for number in range(13)]
COMMANDS = ("kubectl -n gpushare-system get pods", "kubectl patch gsp busy --type=merge")
WAITED_FOR = (describe_wait(BUSY), describe_wait(UNSEEN))


@pytest.mark.parametrize(
    ("pools", "fate", "told", "left_out"),
    [
        ([BUSY, UNSEEN], PoolFate.DELETE, ("2 pools", "240 s", *WAITED_FOR, *COMMANDS), "more"),
        ([BUSY], PoolFate.DELETE, ("1 pool is not deleted after 240 s",), "get pods"),
        ([OF_OTHERS], PoolFate.DELETE, (FOREIGN_NAME,), "kubectl patch"),
        (MANY, PoolFate.DELETE, ("Pool p09 ", "3 more pools"), "Pool p10 "),
        (
            [a_pool()],
            PoolFate.KEEP,
            (f"{names.FINALIZER} is still on training", "Stop the controller"),
            "wait",
        ),
    ],
    ids=["each is named", "it was looked at", "others hold it", "many", "a controller holds it"],
)
def test_a_failed_removal_says_of_each_pool_what_helps_and_no_more(
    pools: list[Pool], fate: PoolFate, told: tuple[str, ...], left_out: str
) -> None:
    said = describe_remains(pools, fate, timeout_seconds=240, namespace="gpushare-system")
    assert [each for each in told if each not in said] == []
    assert left_out not in said


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "waits for the controller, which has not reconciled it yet"),
        ({"status": releasing(1, HELD)}, "waits for node gpu-3: pod a/b runs"),
        ({"status": releasing(4, HELD)}, "waits for node gpu-3 and 3 more: pod a/b runs"),
        ({"status": releasing(4)}, "waits for 4 nodes"),
        ({"finalizers": FOREIGN}, "waits for other finalizers: example.com/backup"),
    ],
)
def test_what_a_pool_waits_for_is_said(more: dict[str, Any], said: str) -> None:
    assert describe_wait(a_pool(deleting=True, **more)) == f"Pool training {said}"


def test_a_pool_that_is_let_go_of_in_a_change_says_that_nodes_may_be_cordoned() -> None:
    pool = a_pool(status=PoolStatus(nodes=NodeCounts(updating=2)))
    said = describe_write(pool, PoolFate.KEEP)
    assert "2 of its nodes were in their change" in said
    assert "cordoned" in said
