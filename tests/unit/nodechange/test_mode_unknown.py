"""A plugin that may have read somebody else's label: nobody knows which mode it gives."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import SharingContainer
from gpushare.api.pool import Edition, Schedule
from gpushare.core.planner.holds import Proposal, hold
from gpushare.core.planner.planner import Planner
from gpushare.core.records.drift_record import Drift
from gpushare.core.records.node_records import parse_records
from gpushare.core.snapshot.actions import NodeState, ReleaseNode
from gpushare.core.snapshot.cluster import NodeContext
from gpushare.core.snapshot.isolation import observe_isolation
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext, Timing
from gpushare.core.status.pool_status import MAX_SAMPLE_BYTES
from gpushare.editions.registry import MODES
from gpushare.names import Reason
from tests.kit.values.node_plans import (
    INSTALLER,
    OURS,
    UNVERIFIED,
    VERIFIED,
    applied,
    expect_applied,
    expect_apply,
    expect_change,
    expect_idle,
    expect_release,
    follow,
    plan_of,
    plan_once_noted,
    written,
)
from tests.kit.values.objects import (
    MEMORY,
    NOW,
    a_gpu_pod,
    a_node,
    a_plugin_pod,
    a_pool,
    a_snapshot,
)

DISABLE = names.LABEL_CGPU_DISABLE_ISOLATION
CGPU = MODES[Edition.BASIC, Schedule.CGPU].labels
PLUGIN = a_plugin_pod()
TRAIN = a_gpu_pod(containers=(SharingContainer("main"),))
ALL = (PLUGIN, INSTALLER, TRAIN)
POOL = a_pool(edition="Basic", schedule="cgpu")
SHARE_POOL = a_pool(edition="Basic", schedule="share")
NEVER = a_pool(edition="Basic", schedule="cgpu", device_plugin={"restart": "Never"})
LONG = NOW - timedelta(seconds=11)


def a_member(schedule: str = "cgpu", **record: Any) -> Node:
    """A node at rest in a mode, as we left it."""
    records = applied(schedule, edition=Edition.BASIC, **record)
    records = records.model_copy(update={"initial_values": {DISABLE: None, "cgpu": None}})
    labels = {**MODES[Edition.BASIC, Schedule(schedule)].labels, **OURS}
    return a_node(labels=labels, records=records, allocatable={MEMORY: 15})


def bind(node: Node) -> Node:
    """The same, its record with the node's UID: it counts under any field manager."""
    records = parse_records(node)
    assert records.applied is not None
    own = records.applied.model_copy(update={"node_uid": node.uid})
    return replace(node, annotations=records.model_copy(update={"applied": own}).annotations())


def a_foreign(value: str | None, at: datetime | None, node: Node | None = None) -> Node:
    """The same with a label that somebody else wrote or removed."""
    node = node or a_member()
    labels = {k: v for k, v in node.labels.items() if k != DISABLE}
    return replace(
        node,
        labels=labels if value is None else {**labels, DISABLE: value},
        owned=node.owned - {DISABLE},
        managers={} if value is None else {DISABLE: "kubectl-label"},
        written_at={} if at is None else {DISABLE: at},
    )


UNKNOWN, IN_SHARE = a_member(mode_unknown=True), a_member("share")


def count_unknown(node: Node) -> tuple[int, int]:
    found = observe_isolation(NodeSnapshot(node, ALL, parse_records(node)))
    return found.unknown, found.isolated


@pytest.mark.parametrize(
    ("value", "at", "unknown"),
    [
        pytest.param("true", NOW - timedelta(seconds=9), False, id="put back within seconds"),
        pytest.param("true", NOW + timedelta(seconds=9), False, id="by a clock that is ahead"),
        pytest.param("true", LONG, True, id="it stood for a while"),
        pytest.param("true", NOW + timedelta(seconds=11), True, id="a clock that is far ahead"),
        pytest.param("true", None, True, id="nothing tells since when"),
        pytest.param("false", NOW, True, id="ours again, by another's hand"),
        pytest.param("no", LONG, False, id="read as the same mode"),
        pytest.param(None, None, False, id="removed, and read as the same mode"),
    ],
)
def test_a_foreign_label_that_stood_for_long_may_have_been_read(
    value: str | None, at: datetime | None, unknown: bool
) -> None:
    node = a_foreign(value, at)
    apply = expect_apply(plan := plan_of(node, POOL, *ALL))
    assert CGPU.items() <= apply.labels.items()
    assert not apply.cordon
    assert bool(expect_applied(plan).mode_unknown) is unknown
    assert (UNVERIFIED if unknown else VERIFIED).items() <= apply.labels.items()
    written = follow(node, plan)
    assert count_unknown(written) == ((1, 0) if unknown else (0, 1))
    after = plan_once_noted(written, POOL, *ALL)
    assert (after.reason is Reason.CORDONED) is unknown


@pytest.mark.parametrize("manager", [None, names.BEFORE_FIRST_APPLY, "restore"])
@pytest.mark.parametrize("seconds", [3, 60], ids=["just began", "looks on"])
def test_labels_that_have_our_values_are_taken_over_where_managed_fields_were_replaced(
    manager: str | None, seconds: int
) -> None:
    """Who looked on saw that nobody did: no restart, and no kernel module is assumed."""
    applied_by = frozenset({names.ANNOTATION_CHANGE}) if manager == names.BEFORE_FIRST_APPLY else ()
    labels = {**MODES[Edition.BASIC, Schedule.SHARE].labels, **OURS}
    node = replace(
        bind(IN_SHARE),
        owned=frozenset(applied_by),
        managers=dict.fromkeys(labels, manager) if manager else {},
        written_at=dict.fromkeys(labels, LONG) if manager else {},
    )
    plan = plan_of(node, SHARE_POOL, *ALL, acting_since=NOW - timedelta(seconds=seconds))
    apply, unknown = expect_apply(plan), seconds < 10
    assert (apply.cordon, apply.labels.items() >= labels.items()) == (False, True)
    assert bool(expect_applied(plan).mode_unknown) is unknown
    settled = plan_once_noted(follow(node, plan), SHARE_POOL, *ALL)
    assert (settled.state is NodeState.READY) is not unknown


@pytest.mark.parametrize(("seconds", "unknown"), [(3, True), (8, False)], ids=["before", "while"])
def test_what_was_written_before_the_controller_acted_on_the_pool_may_have_been_read(
    seconds: int, unknown: bool
) -> None:
    """Nobody saw whether the kubelet restarted, however young the value is."""
    node = a_foreign("true", NOW - timedelta(seconds=5))
    snapshot = a_snapshot(pools=(POOL,), nodes=(node,), pods=ALL)
    snapshot = replace(snapshot, acting_since={POOL.name: NOW - timedelta(seconds=seconds)})
    (decision,) = Planner(Timing()).update(snapshot, None, NOW).decisions
    assert bool(expect_applied(decision.plan).mode_unknown) is unknown


def test_a_label_that_was_removed_may_have_been_read_where_that_says_another_mode() -> None:
    plan = plan_of(a_foreign(None, None, IN_SHARE), SHARE_POOL, *ALL)
    assert expect_applied(plan).mode_unknown


def test_the_restart_comes_once_and_its_return_makes_the_mode_known() -> None:
    begun = plan_of(UNKNOWN, POOL, *ALL)
    assert begun.reason is Reason.CORDONED
    assert expect_change(begun).restart
    others = (a_plugin_pod("plugin-2"), INSTALLER, TRAIN)
    again = plan_of(UNKNOWN, POOL, *others)
    assert expect_applied(again).mode_unknown is None
    assert VERIFIED.items() <= expect_apply(again).labels.items()
    settled = plan_of(follow(UNKNOWN, again), POOL, *others)
    assert (settled.state, settled.action) == (NodeState.READY, None)


def test_where_the_pool_may_not_restart_it_is_told_with_the_command_that_helps() -> None:
    plan = expect_idle(plan_of(UNKNOWN, NEVER, *ALL), NodeState.BLOCKED, Reason.MODE_UNKNOWN)
    command = f"`kubectl cordon gpu-1 && kubectl -n kube-system delete pod {PLUGIN.name}`"
    assert command in plan.message[:MAX_SAMPLE_BYTES]


@pytest.mark.parametrize("reconcile", ["Observe", "Paused"])
@pytest.mark.parametrize("at", [NOW, LONG])
def test_a_pool_that_does_not_act_tells_it_and_counts_it(reconcile: str, at: datetime) -> None:
    node = a_foreign("true", at)
    pool = a_pool(edition="Basic", schedule="cgpu", reconcile=reconcile)
    context = NodeContext(NodeSnapshot(node, ALL, parse_records(node)), is_busy=False)
    plan = hold(Proposal(plan_of(node, pool, *ALL), context, pool, ReconcileContext(NOW)))
    expect_idle(plan, NodeState.WAITING, Reason.MODE_UNKNOWN)
    assert f"reconcile is {reconcile}" in plan.message
    assert count_unknown(node) == (1, 0)


def test_while_a_rival_holds_the_label_it_is_recorded_once() -> None:
    revert = {"key": DISABLE, "manager": "kubectl-label", "theirs": "true", "at": NOW}
    drift = Drift.model_validate({"claim": "training/1", "reverts": [revert, revert]})
    node = a_foreign("true", NOW)
    notes = parse_records(node).model_copy(update={"drift": drift}).annotations()
    node = replace(node, annotations=notes, owned=node.owned | notes.keys())
    plan = plan_of(node, POOL, *ALL)
    assert plan.reason is Reason.LABEL_CONFLICT
    assert expect_applied(plan).mode_unknown
    assert UNVERIFIED.items() <= expect_apply(plan).labels.items()
    assert plan_of(written(node, plan.action), POOL, *ALL).action is None


def test_a_pod_that_selects_it_holds_up_a_change_that_leaves_isolation() -> None:
    pods = (PLUGIN, INSTALLER, a_gpu_pod(selects=frozenset(VERIFIED.items())))
    leaving = plan_of(a_member(), SHARE_POOL, *pods)
    assert (leaving.reason, leaving.action) == (Reason.WORKLOADS_PRESENT, None)
    assert plan_of(UNKNOWN, POOL, *pods).reason is Reason.CORDONED


@pytest.mark.parametrize("doubt", ["mode_unknown", "restart_pending"])
def test_a_node_that_is_given_up_in_doubt_is_not_believed_by_the_next_pool(doubt: str) -> None:
    node = a_member("cgpu", **{doubt: True})
    node = follow(node, expect_release(node, *ALL))
    release = expect_release(node, *ALL)
    assert isinstance(release.action, ReleaseNode)
    assert names.LABEL_ISOLATION_VERIFIED in release.action.remove
    left = {k: v for k, v in node.annotations.items() if k not in names.RELEASED_ANNOTATIONS}
    taken = replace(node, annotations=left, owned=frozenset())

    first = plan_of(taken, POOL, *ALL)
    assert expect_applied(first).mode_unknown
    assert UNVERIFIED.items() <= expect_apply(first).labels.items()
    assert plan_once_noted(taken, POOL, *ALL).reason is Reason.CORDONED
