"""Plugins that get in each other's way, and resources that are not what the mode says."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Edition, Schedule
from gpushare.core.cause import Cause
from gpushare.core.deviceplugin.findings import find_competing_plugins, find_plugin_problem
from gpushare.core.deviceplugin.verification import verify_mode, verify_return
from gpushare.core.records.change_record import ChangePhase
from gpushare.core.snapshot.actions import NodeState, ReleaseNode
from gpushare.core.snapshot.node import ReconcileContext
from gpushare.editions.edition import Mode
from gpushare.editions.registry import MODES
from gpushare.names import Reason
from tests.kit.values.node_plans import (
    INSTALLER,
    SHARE,
    a_settled,
    applied,
    change_of,
    cordoned,
    expect_apply,
    expect_cause,
    expect_change,
    expect_idle,
    expect_release,
    observe,
    plan_of,
    seconds_to_next,
    under_way,
)
from tests.kit.values.objects import MEMORY, NOW, a_node, a_plugin_pod, a_pool, a_static_plugin

CORE, WHOLE, TOPOLOGY = "aliyun.com/gpu-core.percentage", "nvidia.com/gpu", "aliyun.com/gpu"
AT = ReconcileContext(NOW + timedelta(minutes=5))
PLUGIN, STATIC = a_plugin_pod(), a_static_plugin()
CORE_PLUGIN = a_plugin_pod("core-1", daemonset="gpushare-core-device-plugin-ds")
WHOLE_PLUGIN = a_plugin_pod("whole-1", daemonset="ack-nvidia-device-plugin")
HAMI = a_plugin_pod("hami-1", daemonset="hami-device-plugin")
NVIDIA_PLUGIN = a_plugin_pod("nvidia-1", daemonset="nvidia-device-plugin-daemonset")
SHARE_POOL = a_pool(schedule="share")


def _mode(schedule: str, edition: str = "Professional") -> Mode:
    return MODES[Edition(edition), Schedule(schedule)]


def _offering(gpu_count: int = 1, **more: int) -> Node:
    """A node that offers a card's memory, and `more` under other names."""
    known = {"whole": WHOLE, "core": CORE, "topology": TOPOLOGY, "memory": MEMORY}
    return a_node(
        allocatable={known[key]: amount for key, amount in more.items()}, gpu_count=gpu_count
    )


def _compete(node: Node, *pods: Pod, schedule: str = "share", **more: Any) -> Cause | None:
    return find_competing_plugins(node, pods, _mode(schedule, **more), AT)


def _settled(**more: Any) -> Node:
    """A member that is in mode share, as the operator left it."""
    return a_settled(**{"allocatable": {MEMORY: 15}, "gpu_count": 1, **more})


@pytest.mark.parametrize(
    ("schedule", "own", "conflict"),
    [
        ("share", PLUGIN, CORE_PLUGIN),
        ("cgpu", PLUGIN, a_plugin_pod("mps-1", daemonset="gpushare-mps-device-plugin-ds")),
        ("core_mem", CORE_PLUGIN, PLUGIN),
        ("default", WHOLE_PLUGIN, NVIDIA_PLUGIN),
    ],
)
def test_two_daemonsets_that_serve_one_resource_compete(
    schedule: str, own: Pod, conflict: Pod
) -> None:
    trouble = _compete(_offering(memory=15), own, conflict, schedule=schedule)
    expect_cause(
        trouble,
        Reason.COMPETING_PLUGINS,
        f"{own.daemonset} and {conflict.daemonset} both serve",
        f"Keep DaemonSet {conflict.daemonset} off the node",
    )


MIG = a_plugin_pod("mig-1", daemonset="migparted-device-plugin")
BOTH, MEMORY_ALONE, CARDS = _offering(memory=15, whole=1), _offering(memory=15), _offering(whole=1)


@pytest.mark.parametrize(
    ("node", "other"),
    [
        (BOTH, MIG),
        (_offering(memory=15, whole=0), NVIDIA_PLUGIN),
        (MEMORY_ALONE, replace(CORE_PLUGIN, deleting=True)),
        (MEMORY_ALONE, replace(CORE_PLUGIN, phase="Pending")),
        (MEMORY_ALONE, a_plugin_pod("plugin-2")),
    ],
    ids=["of MIG devices", "gives nothing", "leaves", "has yet to start", "the same plugin"],
)
def test_a_plugin_that_serves_nothing_of_anothers_competes_with_nobody(
    node: Node, other: Pod
) -> None:
    assert _compete(node, PLUGIN, other) is None


@pytest.mark.parametrize("edition", ["Basic", "OpenSource"])
@pytest.mark.parametrize("pod", [STATIC, NVIDIA_PLUGIN], ids=["static", "NVIDIA's"])
def test_whoever_brings_whole_cards_where_no_daemonset_does_is_alone_with_them(
    pod: Pod, edition: str
) -> None:
    assert _compete(CARDS, pod, schedule="default", edition=edition) is None


@pytest.mark.parametrize(
    ("node", "pods", "mode", "words"),
    [
        (
            CARDS,
            (WHOLE_PLUGIN, STATIC),
            ("default", "Professional"),
            ("static pod", "Move /etc/kubernetes/manifests/nvidia-device-plugin.yml"),
        ),
        (MEMORY_ALONE, (PLUGIN,), ("default", "OpenSource"), (PLUGIN.daemonset, "twice")),
    ],
    ids=["left from an upgrade", "sharing switched off"],
)
def test_whoever_gives_out_what_another_does_too_competes(
    node: Node, pods: tuple[Pod, ...], mode: tuple[str, str], words: tuple[str, ...]
) -> None:
    trouble = _compete(node, *pods, schedule=mode[0], edition=mode[1])
    expect_cause(trouble, Reason.COMPETING_PLUGINS, *words)


@pytest.mark.parametrize(
    ("node", "pods", "mode"),
    [
        (BOTH, (PLUGIN, NVIDIA_PLUGIN), ("share", "Professional")),
        (CARDS, (STATIC, NVIDIA_PLUGIN), ("default", "OpenSource")),
        (BOTH, (PLUGIN, HAMI), ("share", "Basic")),
    ],
    ids=["whole beside shared", "two of whole", "HAMi"],
)
def test_plugins_of_two_stacks_are_told_as_such(
    node: Node, pods: tuple[Pod, ...], mode: tuple[str, str]
) -> None:
    trouble = _compete(node, *pods, schedule=mode[0], edition=mode[1])
    words = (f"pod kube-system/{pods[1].name} serves {WHOLE}", "Remove all but one")
    expect_cause(trouble, Reason.COMPETING_STACKS, *words)


def test_hami_leaves_with_no_change() -> None:
    missing = verify_mode(
        observe(BOTH, [PLUGIN, HAMI]), _mode("share"), AT, previous_mode=_mode("default")
    )
    expect_cause(missing, Reason.COMPETING_STACKS)


def test_competing_plugins_hold_a_node_at_rest_up() -> None:
    plan = plan_of(_settled(), SHARE_POOL, PLUGIN, CORE_PLUGIN, now=AT.now)
    expect_idle(plan, NodeState.BLOCKED, Reason.COMPETING_PLUGINS)


def test_a_mode_is_not_recorded_as_verified_while_another_plugin_may_serve_it() -> None:
    node = a_node(labels={**SHARE}, allocatable={MEMORY: 15}, gpu_count=1)
    for pods, verified in (([PLUGIN], True), ([PLUGIN, CORE_PLUGIN], False)):
        apply = expect_apply(plan_of(node, SHARE_POOL, *pods))
        assert ("gpushare.io/applied" in apply.annotations) is verified


@pytest.mark.parametrize(
    ("of", "leaves"),
    [("default", WHOLE_PLUGIN), ("default", NVIDIA_PLUGIN), ("core_mem", CORE_PLUGIN)],
)
def test_in_a_change_the_plugin_that_goes_competes_with_nobody(of: str, leaves: Pod) -> None:
    node = _offering(memory=15, whole=1)
    missing = verify_mode(
        observe(node, [PLUGIN, leaves]), _mode("share"), AT, previous_mode=_mode(of)
    )
    assert missing is None


def test_a_change_is_not_over_while_a_third_plugin_serves_its_resource() -> None:
    way = {"from_mode": Schedule.DEFAULT, "to": Schedule.SHARE}
    change, pods = change_of(under_way(ChangePhase.LABELLED, **way)), [PLUGIN, CORE_PLUGIN]
    missing = verify_return(observe(MEMORY_ALONE, pods, change, was_zero=True), AT)
    expect_cause(missing, Reason.COMPETING_PLUGINS, CORE_PLUGIN.daemonset)
    assert verify_return(observe(MEMORY_ALONE, pods[:1], change, was_zero=True), AT) is None


@pytest.mark.parametrize(
    ("schedule", "node", "left"),
    [
        ("share", BOTH, WHOLE),
        ("disabled", MEMORY_ALONE, MEMORY),
        ("share", _offering(memory=15, whole=0, topology=0), None),
        ("core_mem", _offering(memory=15, core=100), None),
        ("disabled", CARDS, None),
    ],
)
def test_a_resource_of_another_mode_is_left_over(
    schedule: str, node: Node, left: str | None
) -> None:
    trouble = find_plugin_problem(observe(node, [PLUGIN]), _mode(schedule), AT)
    if left is None:
        assert trouble is None
    else:
        found = expect_cause(trouble, Reason.LEFT_OVER_RESOURCE, left, "restart the kubelet")
        assert found.wait is None


def test_a_resource_may_still_be_on_its_way_out_when_the_plugin_has_just_started() -> None:
    """The kubelet reports late."""
    node = _settled(allocatable={MEMORY: 15, WHOLE: 1})
    plan = plan_of(node, SHARE_POOL, PLUGIN, now=NOW + timedelta(seconds=2))
    assert (plan.state, seconds_to_next(plan)) == (NodeState.READY, 10)
    plan = plan_of(node, SHARE_POOL, PLUGIN, now=NOW + timedelta(seconds=12))
    assert (plan.state, plan.reason) == (NodeState.BLOCKED, Reason.LEFT_OVER_RESOURCE)
    assert seconds_to_next(plan) is None


def test_a_resource_goes_with_the_plugin_that_is_being_deleted() -> None:
    previous_mode = replace(WHOLE_PLUGIN, deleting=True)
    trouble = find_plugin_problem(observe(BOTH, [PLUGIN, previous_mode]), _mode("share"), AT)
    assert expect_cause(trouble, Reason.LEFT_OVER_RESOURCE).wait is not None


@pytest.mark.parametrize(
    ("memory", "cards", "told", "counted"),
    [
        (16384, 1, "GiB", "MiB"),
        (2048, 2, "GiB", "MiB"),
        (1280, 16, "MiB", "GiB"),
        (15, 1, "MiB", "GiB"),
        (1280, 16, "GiB", ""),
        (1023, 1, "GiB", ""),
        (16384, 1, "MiB", ""),
        (0, 1, "MiB", ""),
        (16384, 0, "GiB", ""),
    ],
)
def test_a_plugin_that_counts_in_another_unit_than_the_installation_is_told(
    memory: int, cards: int, told: str, counted: str
) -> None:
    node, at = _offering(memory=memory, gpu_count=cards), replace(AT, memory_unit=told)
    trouble = find_plugin_problem(observe(node, [PLUGIN]), _mode("share"), at)
    if counted:
        words = (f"plugin counts {counted}", f"--memory-unit={told}")
        expect_cause(trouble, Reason.MEMORY_UNIT_DIFFERS, *words)
    else:
        assert trouble is None


def test_a_node_that_counts_in_another_unit_can_still_leave_its_pool() -> None:
    found: dict[str, str | None] = {names.LABEL_SCHEDULE: "share", names.LABEL_POOL: None}
    records = applied(Schedule.SHARE).model_copy(update={"initial_values": found})
    node = _settled(records=records, allocatable={MEMORY: 16384})
    pool = a_pool(schedule="share", deleting=True, deletion_policy="Restore")
    assert isinstance(expect_release(node, PLUGIN, pool=pool, now=AT.now).action, ReleaseNode)


@pytest.mark.parametrize(
    ("cards", "pod", "schedule", "reason"),
    [
        (0, PLUGIN, "share", Reason.NO_CARDS),
        (1, PLUGIN, "share", Reason.RESOURCE_NOT_READY),
        (0, a_plugin_pod(ready=False, ready_since=None), "share", Reason.PLUGIN_RESTARTING),
        (0, WHOLE_PLUGIN, "default", Reason.RESOURCE_NOT_READY),
    ],
    ids=["no card", "a silent plugin", "it has not looked", "whole cards are not counted"],
)
def test_a_plugin_that_is_ready_and_found_no_card_is_told_from_a_silent_one(
    cards: int, pod: Pod, schedule: str, reason: Reason
) -> None:
    node = _offering(memory=0, gpu_count=cards)
    words = (f"logs {pod.name}`",) if reason is Reason.RESOURCE_NOT_READY else ()
    expect_cause(verify_mode(observe(node, [pod]), _mode(schedule), AT), reason, *words)


@pytest.mark.parametrize("restarted_again", [None, True])
def test_a_change_whose_plugin_finds_no_card_is_restarted_once_and_fails_for_that(
    restarted_again: bool | None,
) -> None:
    """A driver that came after the plugin is found by the second start."""
    node = replace(
        cordoned(under_way(ChangePhase.RESTARTING, restarted_again=restarted_again)), gpu_count=0
    )
    plan = plan_of(node, a_pool(), PLUGIN, INSTALLER, now=NOW + timedelta(minutes=1))
    failure = expect_change(plan).failure
    if restarted_again is None:
        assert (plan.reason, failure) == (Reason.PLUGIN_RESTARTING, None)
    else:
        assert failure is not None
        assert (plan.state, failure.reason) == (NodeState.FAILED, Reason.NO_CARDS)


COPY = a_plugin_pod("copy-1", daemonset="another gpushare-device-plugin-ds")
UNKNOWN = a_plugin_pod("unknown-1", daemonset="unknown device plugin")


@pytest.mark.parametrize("schedule", ["share", "cgpu"])
def test_a_copy_of_the_plugin_competes_with_it_and_is_told_by_its_pod(schedule: str) -> None:
    trouble = _compete(MEMORY_ALONE, PLUGIN, COPY, schedule=schedule)
    words = (f"pod kube-system/{COPY.name}", MEMORY, "pluginDaemonSets")
    expect_cause(trouble, Reason.COMPETING_PLUGINS, *words)
    assert _compete(MEMORY_ALONE, PLUGIN, replace(COPY, deleting=True)) is None


def test_a_copy_alone_serves_its_node() -> None:
    """As a plugin under a name that nobody has told the operator."""
    assert _compete(MEMORY_ALONE, COPY) is None


def test_a_copy_of_the_plugin_competes_with_whole_cards() -> None:
    trouble = _compete(BOTH, WHOLE_PLUGIN, COPY, schedule="default")
    expect_cause(trouble, Reason.COMPETING_PLUGINS, COPY.name, "allocated twice")


def test_what_an_unknown_plugin_serves_is_not_known_so_it_competes_with_nobody() -> None:
    assert _compete(BOTH, PLUGIN, UNKNOWN) is None
    plan = plan_of(_settled(), SHARE_POOL, PLUGIN, UNKNOWN, now=AT.now)
    assert plan == plan_of(_settled(), SHARE_POOL, PLUGIN, now=AT.now)


def test_a_plugin_that_is_installed_twice_competes_with_itself() -> None:
    """As by two manifests of the same plugin (NVIDIA/k8s-device-plugin, issue 255)."""
    first, second = (a_plugin_pod(name, owner=f"of-{name}") for name in ("first", "second"))
    trouble = _compete(MEMORY_ALONE, first, second)
    expect_cause(trouble, Reason.COMPETING_PLUGINS, first.name, second.name)
    rolling = a_plugin_pod("second", owner="of-first")
    assert _compete(MEMORY_ALONE, first, rolling) is None
    assert _compete(MEMORY_ALONE, first, replace(second, deleting=True)) is None
    assert _compete(MEMORY_ALONE, first, replace(second, phase="Pending")) is None
