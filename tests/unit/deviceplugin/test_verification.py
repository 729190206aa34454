"""Whether a node has become what its mode says; the whole-card plugin as a static pod counts."""

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Edition, Schedule
from gpushare.core.deviceplugin.findings import find_missing_whole_card, find_plugin_problem
from gpushare.core.deviceplugin.verification import verify_mode, verify_return
from gpushare.core.nodechange.phases.labelled import plan_restart
from gpushare.core.records.change_record import Change, ChangePhase, PluginPod
from gpushare.core.records.node_records import NodeRecords, parse_records
from gpushare.core.snapshot.actions import NodeState
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext
from gpushare.editions.edition import Mode
from gpushare.editions.registry import MODES
from gpushare.names import LABEL_SCHEDULE, Reason
from tests.kit.values.node_plans import (
    INSTALLER,
    OURS,
    a_settled,
    applied,
    change_of,
    expect_applied,
    expect_cause,
    expect_change,
    observe,
    plan_of,
    plan_once_noted,
    under_way,
)
from tests.kit.values.objects import (
    MEMORY,
    NOW,
    a_gpu_pod,
    a_node,
    a_plugin_pod,
    a_pool,
    a_static_plugin,
    installed,
)

CORE, WHOLE = "aliyun.com/gpu-core.percentage", "nvidia.com/gpu"
CORE_MEM = MODES[Edition.PROFESSIONAL, Schedule.CORE_MEM]
OPEN_DEFAULT = MODES[Edition.OPEN_SOURCE, Schedule.DEFAULT]
READY = [a_plugin_pod(name, daemonset=name) for name in CORE_MEM.daemonsets]


@pytest.mark.parametrize("allocatable", [{}, {WHOLE: 0}, {MEMORY: 0}])
def test_open_source_default_without_whole_cards_is_reported_and_complete(
    allocatable: dict[str, int],
) -> None:
    node = a_node(allocatable=allocatable)
    missing = find_missing_whole_card(node, OPEN_DEFAULT)
    expect_cause(missing, Reason.WHOLE_CARD_PLUGIN_MISSING, WHOLE)
    assert verify_mode(observe(node, []), OPEN_DEFAULT, ReconcileContext(NOW)) is None


def test_only_open_source_default_may_lack_its_whole_cards() -> None:
    assert find_missing_whole_card(a_node(allocatable={WHOLE: 1}), OPEN_DEFAULT) is None
    others = [mode for mode in MODES.values() if mode is not OPEN_DEFAULT]
    assert [mode for mode in others if find_missing_whole_card(a_node(), mode)] == []


def test_a_recorded_plugin_pod_that_is_still_there_is_not_its_own_successor() -> None:
    recorded = (PluginPod(name="old", uid="old"),)
    change = change_of(under_way(ChangePhase.RESTARTING, restart=True, plugins=recorded))
    node, old, new = a_node(allocatable={MEMORY: 15}), a_plugin_pod("old"), a_plugin_pod("new")
    ctx = ReconcileContext(NOW)
    missing = verify_return(observe(node, [INSTALLER, old], change, was_zero=True), ctx)
    expect_cause(missing, Reason.PLUGIN_RESTARTING)
    pods = [INSTALLER, old, new]
    assert verify_return(observe(node, pods, change, was_zero=True), ctx) is None


AT = ReconcileContext(NOW + timedelta(minutes=5))
PLUGIN, STATIC = a_plugin_pod(), a_static_plugin()
GPUSHARE_ALONE = frozenset({PLUGIN.daemonset})
RECOVER = a_plugin_pod("recover-1", daemonset="nvidia-device-plugin-recover")
RECOVERABLE = GPUSHARE_ALONE | {RECOVER.daemonset}
BY_RECOVER = replace(AT, plugin_daemonsets=installed(RECOVERABLE))
SHARED, DEFAULT = (MODES[Edition.PROFESSIONAL, Schedule(name)] for name in ("share", "default"))
POOL = a_pool(schedule="default")
OFFERS, OFFERS_NONE = a_node(allocatable={WHOLE: 2}), a_node(allocatable={WHOLE: 0})
MEMORY_ALONE = a_node(allocatable={MEMORY: 15})


def _change(step: ChangePhase, of: str, to: str, **more: Any) -> Change:
    return change_of(under_way(step, from_mode=Schedule(of), to=Schedule(to), **more))


@pytest.mark.parametrize(
    ("pods", "daemonsets", "reason"),
    [
        ((PLUGIN,), GPUSHARE_ALONE, Reason.COMPONENT_MISSING),
        ((PLUGIN, STATIC), GPUSHARE_ALONE, Reason.CORDONED),
        ((PLUGIN,), RECOVERABLE, Reason.CORDONED),
    ],
    ids=["none", "the static plugin", "a recover DaemonSet"],
)
def test_to_leave_a_shared_mode_some_form_of_the_whole_card_plugin_must_be_there(
    pods: tuple[Pod, ...], daemonsets: frozenset[str], reason: Reason
) -> None:
    plan = plan_of(a_settled(), POOL, *pods, daemonsets=daemonsets)
    assert plan.reason is reason
    if reason is Reason.COMPONENT_MISSING:
        for told in (DEFAULT.plugin, RECOVER.daemonset, "docs/ack.md"):
            assert told in plan.message


BASIC_DEFAULT = MODES[Edition.BASIC, Schedule.DEFAULT]
BASIC_RECOVER = a_plugin_pod("recover-1", daemonset="device-plugin-recover-ds")
NO_RECOVERY = replace(AT, plugin_daemonsets=installed(RECOVERABLE | {DEFAULT.plugin}))
DOWN = a_node(ready=False)
NEW = ReconcileContext(NOW)
AWAY, ABSENT = Reason.PLUGIN_RESTARTING, Reason.RESOURCE_NOT_READY
COMPONENT, ISOLATED = Reason.COMPONENT_NOT_READY, MODES[Edition.PROFESSIONAL, Schedule.CGPU]
RELEASING = [PLUGIN, replace(INSTALLER, deleting=True)]
OWN = a_plugin_pod("own", daemonset=DEFAULT.plugin)

MISSING: dict[str, tuple[Node, list[Pod], Mode, ReconcileContext, Reason, str]] = {
    "core_mem: no compute": (MEMORY_ALONE, READY, CORE_MEM, NEW, ABSENT, CORE),
    "core_mem: no memory": (a_node(allocatable={CORE: 1}), READY, CORE_MEM, NEW, ABSENT, MEMORY),
    "the node is down": (DOWN, READY[:1], CORE_MEM, AT, Reason.NODE_NOT_READY, "cgpu-core-inst"),
    "Basic: its recovery goes on": (OFFERS_NONE, [BASIC_RECOVER], BASIC_DEFAULT, AT, ABSENT, ""),
    "an installer that goes": (MEMORY_ALONE, RELEASING, ISOLATED, AT, COMPONENT, "cgpu-installer"),
    "static: beside another": (OFFERS_NONE, [STATIC, OWN], DEFAULT, AT, ABSENT, ""),
    "static: not ready": (OFFERS, [replace(STATIC, ready=False)], DEFAULT, AT, AWAY, ""),
    "static: deleted": (OFFERS, [replace(STATIC, deleting=True)], DEFAULT, AT, AWAY, ""),
    "static: in a shared mode": (MEMORY_ALONE, [STATIC], SHARED, AT, AWAY, ""),
    "static: without a card": (
        OFFERS_NONE,
        [STATIC],
        DEFAULT,
        AT,
        Reason.STATIC_PLUGIN,
        "move it back",
    ),
    "recovery: no pod": (OFFERS, [], DEFAULT, BY_RECOVER, Reason.COMPONENT_NOT_READY, "recover"),
    "recovery: no manifest": (a_node(), [RECOVER], DEFAULT, BY_RECOVER, ABSENT, ".yml back"),
    "recovery beside the plugin's DaemonSet": (OFFERS, [RECOVER], DEFAULT, NO_RECOVERY, AWAY, ""),
}


@pytest.mark.parametrize(
    ("node", "pods", "mode", "ctx", "reason", "told"), MISSING.values(), ids=MISSING
)
def test_what_a_mode_still_lacks_on_a_node_is_told(
    node: Node, pods: list[Pod], mode: Mode, ctx: ReconcileContext, reason: Reason, told: str
) -> None:
    expect_cause(verify_mode(observe(node, pods), mode, ctx), reason, told)


def test_of_two_plugins_the_one_that_came_last_has_its_time_to_settle() -> None:
    change = change_of(under_way(ChangePhase.RESTARTING, restart=True))
    first = a_plugin_pod("first", ready_since=NOW - timedelta(hours=1))
    pods = [INSTALLER, first, a_plugin_pod("last")]
    missing = verify_return(observe(MEMORY_ALONE, pods, change), NEW)
    assert missing is not None
    assert missing.wait == NEW.timing.settle


def test_the_time_to_settle_ends_although_the_nodes_clock_is_an_hour_ahead() -> None:
    """A controller has its own clock for the kubelet's times (kubernetes/kubernetes#29229)."""
    change = change_of(under_way(ChangePhase.RESTARTING, restart=True))
    created = NOW - timedelta(seconds=5)
    plugin = a_plugin_pod("new", created=created, ready_since=NOW + timedelta(hours=1))
    missing = verify_return(observe(MEMORY_ALONE, [INSTALLER, plugin], change), NEW)
    assert missing is not None
    assert missing.wait == NEW.timing.settle - timedelta(seconds=5)


def test_a_static_plugin_that_has_just_started_has_its_time() -> None:
    ctx = ReconcileContext(NOW + timedelta(seconds=20))
    missing = verify_mode(observe(OFFERS_NONE, [STATIC]), DEFAULT, ctx)
    assert expect_cause(missing, ABSENT).wait == timedelta(seconds=40)


@pytest.mark.parametrize("ready", [True, False], ids=["ready", "its kubelet is away"])
def test_core_mem_is_verified_once_both_are_offered(ready: bool) -> None:
    node = a_node(allocatable={MEMORY: 15, CORE: 100}, ready=ready)
    assert verify_mode(observe(node, READY), CORE_MEM, AT) is None


@pytest.mark.parametrize("pods", [[RECOVER], [RECOVER, STATIC], [STATIC]])
def test_whole_cards_that_a_recovery_or_a_static_plugin_brings_are_verified(
    pods: list[Pod],
) -> None:
    assert verify_mode(observe(OFFERS, pods), DEFAULT, BY_RECOVER) is None
    change = _change(ChangePhase.RESTARTING, "share", "default", restart=True)
    assert verify_return(observe(OFFERS, pods, change), BY_RECOVER) is None


def test_a_node_at_rest_with_the_static_plugin_is_ready() -> None:
    node = a_node(labels={LABEL_SCHEDULE: "default"}, allocatable={WHOLE: 2})
    plan = plan_of(node, POOL, STATIC, daemonsets=GPUSHARE_ALONE)
    assert expect_applied(plan).schedule is Schedule.DEFAULT


@pytest.mark.parametrize("gives", [1, 0])
def test_a_change_to_shared_cards_is_over_once_the_static_plugin_gives_nothing_out(
    gives: int,
) -> None:
    node = a_node(allocatable={MEMORY: 15, WHOLE: gives})
    change = _change(ChangePhase.LABELLED, "default", "share")
    missing = verify_return(observe(node, [PLUGIN, STATIC], change, was_zero=True), AT)
    if gives:
        told = "Move /etc/kubernetes/manifests/nvidia-device-plugin.yml"
        expect_cause(missing, ABSENT, told)
    else:
        assert missing is None


def test_the_static_plugin_is_never_recorded_for_a_restart() -> None:
    change = _change(ChangePhase.LABELLED, "share", "default", restart=True)
    node = a_node(records=NodeRecords(change=change), unschedulable=True)
    action = plan_restart(NodeSnapshot(node, (STATIC,), parse_records(node)), NOW)
    assert action is not None
    assert STATIC.name not in str(action)


def _cordoned(change: Change, allocatable: dict[str, int] | None = None) -> Node:
    labels = {LABEL_SCHEDULE: "default", **OURS}
    records = under_way(change.phase).model_copy(update={"change": change})
    node = a_node(labels=labels, records=records, allocatable=allocatable or {})
    return replace(node, unschedulable=True, owns_cordon=True)


def test_the_static_plugin_is_never_deleted_whatever_stands_in_the_record() -> None:
    recorded = (PluginPod(name=STATIC.name, uid=STATIC.uid),)
    change = _change(ChangePhase.RESTARTING, "share", "default", restart=True, plugins=recorded)
    plan = plan_of(_cordoned(change, {WHOLE: 1}), POOL, STATIC, now=NOW + timedelta(seconds=5))
    assert plan.action is None


@pytest.mark.parametrize(
    ("edition", "more"),
    [
        ("Professional", {"cards": {2: 5}}),
        ("OpenSource", {"cards": {1: 5}}),
        ("OpenSource", {"cards": {2: 5}, "deleting": True}),
        ("OpenSource", {"cards": {2: 5}, "phase": "Failed"}),
    ],
)
def test_an_extender_is_not_called_stale_without_a_live_pod_on_such_a_card(
    edition: str, more: dict[str, Any]
) -> None:
    node = a_node(allocatable={MEMORY: 30}, gpu_count=2)
    pods = [PLUGIN, a_gpu_pod("p", **more)]
    assert (
        find_plugin_problem(observe(node, pods), MODES[Edition(edition), Schedule.SHARE], AT)
        is None
    )


def test_a_stale_extender_is_told_with_the_first_three_pods_on_cards_that_are_not_there() -> None:
    node = a_node(allocatable={MEMORY: 30}, gpu_count=2)
    pods = [a_gpu_pod(f"p{index}", cards={index: 5}) for index in (6, 5, 4, 3, 2, 1)]
    trouble = find_plugin_problem(
        observe(node, [PLUGIN, *pods]), MODES[Edition.OPEN_SOURCE, Schedule.SHARE], AT
    )
    words = ("deployment/gpushare-schd-extender", "2 more")
    told = expect_cause(trouble, Reason.EXTENDER_STALE, *words).message
    assert re.findall(r"p\d \(card \d\)", told) == [f"p{card} (card {card})" for card in (2, 3, 4)]


def test_a_change_that_fails_for_the_static_plugin_says_the_vendors_steps_to_the_end() -> None:
    change = _change(ChangePhase.LABELLED, "share", "default")
    plan = plan_of(_cordoned(change), POOL, STATIC, now=NOW + timedelta(minutes=10))
    failure = expect_change(plan).failure
    assert failure is not None
    assert failure.message.endswith("(deleting the pod restarts nothing)")


def test_a_node_whose_pod_names_a_card_that_it_has_not_is_ready_and_warns() -> None:
    node = a_node(
        labels={names.LABEL_GPUSHARE: "true", **OURS},
        records=applied("share", edition="OpenSource"),
        allocatable={MEMORY: 30},
        gpu_count=2,
    )
    pool, edited = a_pool(schedule="share", edition="OpenSource"), a_gpu_pod("late", cards={2: 5})
    plan = plan_once_noted(node, pool, PLUGIN, edited, now=AT.now)
    assert (plan.state, plan.reason, plan.action) == (NodeState.READY, Reason.EXTENDER_STALE, None)
    assert plan.warns
    assert not plan_once_noted(node, pool, PLUGIN, now=AT.now).warns
