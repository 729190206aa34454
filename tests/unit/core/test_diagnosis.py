"""Plugins that get in each other's way, and resources that are not what the mode says."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpushare import names
from gpushare.api.node import Node
from gpushare.api.pod import Pod
from gpushare.api.pool import Edition, Schedule
from gpushare.core.actions import NodeState, ReleaseNode
from gpushare.core.diagnosis import NotYet, diagnose, find_competing_plugins
from gpushare.core.modes import MODES, Mode
from gpushare.core.observed import Pass, Timing
from gpushare.core.plan import Planner
from gpushare.core.plugindaemonsets import PluginDaemonSets
from gpushare.core.plugins import identify_plugin
from gpushare.core.records import Step
from gpushare.core.verify import verify_mode, verify_return
from gpushare.names import Reason
from tests.kit.members import (
    CGPU,
    INSTALLER,
    OURS,
    SHARE,
    a_settled,
    applied,
    expect_apply,
    expect_change,
    expect_leaving,
    follow,
    plan_of,
    under_way,  # fmt: skip
)
from tests.kit.values import (
    MEMORY,
    NOW,
    a_node,
    a_plugin_pod,
    a_pool,
    a_static_plugin,
    a_world,
)

CORE, WHOLE, TOPOLOGY = "aliyun.com/gpu-core.percentage", "nvidia.com/gpu", "aliyun.com/gpu"
AT = Pass(NOW + timedelta(minutes=5))
PLUGIN, STATIC = a_plugin_pod(), a_static_plugin()
CORE_PLUGIN = a_plugin_pod("core-1", daemonset="gpushare-core-device-plugin-ds")
WHOLE_PLUGIN = a_plugin_pod("whole-1", daemonset="ack-nvidia-device-plugin")
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


def _compete(node: Node, *pods: Pod, schedule: str = "share", **more: Any) -> NotYet | None:
    return find_competing_plugins(node, pods, _mode(schedule, **more), AT)


def _expect(trouble: NotYet | None, reason: Reason, *words: str) -> NotYet:
    assert trouble is not None
    assert trouble.reason is reason
    assert [word for word in words if word not in trouble.message] == []
    return trouble


def _settled(**more: Any) -> Node:
    """A member that is in mode share, as the operator left it."""
    return a_settled(**{"allocatable": {MEMORY: 15}, "gpu_count": 1, **more})


# Competing plugins.


@pytest.mark.parametrize(
    ("schedule", "own", "rival"),
    [
        ("share", PLUGIN, CORE_PLUGIN),
        ("cgpu", PLUGIN, a_plugin_pod("mps-1", daemonset="gpushare-mps-device-plugin-ds")),
        ("core_mem", CORE_PLUGIN, PLUGIN),
        ("default", WHOLE_PLUGIN, NVIDIA_PLUGIN),
    ],
)
def test_two_daemonsets_that_serve_one_resource_compete(
    schedule: str, own: Pod, rival: Pod
) -> None:
    trouble = _compete(_offering(memory=15), own, rival, schedule=schedule)
    _expect(
        trouble,
        Reason.COMPETING_PLUGINS,
        f"{own.daemonset} and {rival.daemonset} both serve",
        f"keep the DaemonSet {rival.daemonset} off the node",
        "Kubernetes up to 1.36",
        "1.37 and newer",
    )


def test_plugins_are_told_by_the_names_that_the_cluster_gives_them() -> None:
    named = replace(AT, plugin_daemonsets=PluginDaemonSets({PLUGIN.daemonset: "plugin-2"}))
    node = _offering(memory=15)
    trouble = find_competing_plugins(node, [PLUGIN, CORE_PLUGIN], _mode("core_mem"), named)
    _expect(trouble, Reason.COMPETING_PLUGINS, "keep the DaemonSet plugin-2 off", "and plugin-2")
    assert verify_mode(node, [], _mode("share"), named) == NotYet(
        Reason.PLUGIN_RESTARTING, "plugin-2 is not Ready on the node"
    )


def test_the_plugin_of_mig_devices_is_known_and_competes_with_nobody() -> None:
    mig = a_plugin_pod("mig-1", daemonset="migparted-device-plugin")
    assert identify_plugin(mig) == mig.daemonset
    assert _compete(_offering(memory=15, whole=1), PLUGIN, mig) is None


def test_a_plugin_of_whole_cards_beside_shared_ones_gives_them_out_twice() -> None:
    trouble = _compete(_offering(memory=15, whole=1), PLUGIN, NVIDIA_PLUGIN)
    _expect(trouble, Reason.COMPETING_PLUGINS, NVIDIA_PLUGIN.daemonset, WHOLE, "given out twice")


def test_a_plugin_that_gives_nothing_out_competes_with_nobody() -> None:
    assert _compete(_offering(memory=15, whole=0), PLUGIN, NVIDIA_PLUGIN) is None


@pytest.mark.parametrize("change", [{"deleting": True}, {"phase": "Pending"}])
def test_a_plugin_that_leaves_or_has_yet_to_start_competes_with_nobody(
    change: dict[str, Any],
) -> None:
    assert _compete(_offering(memory=15), PLUGIN, replace(CORE_PLUGIN, **change)) is None


def test_two_pods_of_one_plugin_do_not_compete() -> None:
    assert _compete(_offering(memory=15), PLUGIN, a_plugin_pod("plugin-2")) is None


def test_a_daemonset_beside_the_static_plugin_competes_and_the_file_is_what_must_go() -> None:
    """As on Kubernetes 1.32 after an upgrade that left the static pods."""
    trouble = _compete(_offering(whole=1), WHOLE_PLUGIN, STATIC, schedule="default")
    _expect(
        trouble,
        Reason.COMPETING_PLUGINS,
        "ack-nvidia-device-plugin and the static pod",
        "move /etc/kubernetes/manifests/nvidia-device-plugin.yml out of that folder",
        "deleting the pod ends nothing",
    )


def test_whoever_brings_whole_cards_where_no_daemonset_does_is_alone_with_them() -> None:
    for pod in (STATIC, NVIDIA_PLUGIN):
        for edition in ("Basic", "OpenSource"):
            node = _offering(whole=1)
            assert _compete(node, pod, schedule="default", edition=edition) is None


def test_two_who_bring_whole_cards_compete_on_every_edition() -> None:
    node = _offering(whole=1)
    trouble = _compete(node, STATIC, NVIDIA_PLUGIN, schedule="default", edition="OpenSource")
    _expect(trouble, Reason.COMPETING_PLUGINS, f"keep the DaemonSet {NVIDIA_PLUGIN.daemonset} off")


def test_open_source_sharing_that_was_switched_off_and_still_serves_gives_cards_out_twice() -> None:
    node = _offering(memory=15)
    trouble = _compete(node, PLUGIN, schedule="default", edition="OpenSource")
    _expect(trouble, Reason.COMPETING_PLUGINS, PLUGIN.daemonset, "given out twice")


def test_competing_plugins_hold_a_node_at_rest_up() -> None:
    node = _settled()
    plan = plan_of(node, SHARE_POOL, PLUGIN, CORE_PLUGIN, now=AT.now)
    assert (plan.state, plan.reason) == (NodeState.BLOCKED, Reason.COMPETING_PLUGINS)
    assert plan.action is None


def test_a_mode_is_not_recorded_as_verified_while_another_plugin_may_serve_it() -> None:
    node = a_node(labels={**SHARE}, allocatable={MEMORY: 15}, gpu_count=1)
    alone = plan_of(node, SHARE_POOL, PLUGIN)
    contested = plan_of(node, SHARE_POOL, PLUGIN, CORE_PLUGIN)
    assert "gpushare.io/applied" in expect_apply(alone).annotations
    assert "gpushare.io/applied" not in expect_apply(contested).annotations


@pytest.mark.parametrize(
    ("of", "leaves"),
    [("default", WHOLE_PLUGIN), ("default", NVIDIA_PLUGIN), ("core_mem", CORE_PLUGIN)],
)
def test_in_a_change_the_plugin_that_goes_competes_with_nobody(of: str, leaves: Pod) -> None:
    node = _offering(memory=15, whole=1)
    leaving = _mode(of)
    share = _mode("share")
    assert verify_mode(node, [PLUGIN, leaves], share, AT, leaving=leaving) is None


def test_a_change_is_not_over_while_a_third_plugin_serves_its_resource() -> None:
    change = under_way(Step.LABELLED).change
    assert change is not None
    change = change.model_copy(update={"of": Schedule.DEFAULT, "to": Schedule.SHARE})
    node, pods = _offering(memory=15), [PLUGIN, CORE_PLUGIN]
    missing = verify_return(node, pods, change=change, was_zero=True, at=AT)
    _expect(missing, Reason.COMPETING_PLUGINS, CORE_PLUGIN.daemonset)
    assert verify_return(node, pods[:1], change=change, was_zero=True, at=AT) is None


# Resources that are left over.


def test_a_resource_of_another_mode_is_left_over() -> None:
    node = _offering(memory=15, whole=1)
    trouble = _expect(
        diagnose(node, [PLUGIN], _mode("share"), AT),
        Reason.LEFT_OVER_RESOURCE,
        WHOLE,
        "restart the kubelet",
    )
    assert trouble.wait is None


@pytest.mark.parametrize(
    ("schedule", "node"),
    [
        ("share", _offering(memory=15, whole=0, topology=0)),
        ("core_mem", _offering(memory=15, core=100)),
        ("disabled", _offering(whole=1)),
    ],
)
def test_what_the_mode_has_and_what_is_zero_is_not_left_over(schedule: str, node: Node) -> None:
    assert diagnose(node, [PLUGIN], _mode(schedule), AT) is None


def test_a_node_that_is_disabled_may_offer_no_shared_resource() -> None:
    trouble = diagnose(_offering(memory=15), [], _mode("disabled"), AT)
    _expect(trouble, Reason.LEFT_OVER_RESOURCE, MEMORY)


def test_a_resource_may_still_be_on_its_way_out_when_the_plugin_has_just_started() -> None:
    """The kubelet reports late."""
    node = _settled(allocatable={MEMORY: 15, WHOLE: 1})
    plan = plan_of(node, SHARE_POOL, PLUGIN, now=NOW + timedelta(seconds=2))
    assert (plan.state, plan.wake_after_seconds) == (NodeState.READY, 10)
    plan = plan_of(node, SHARE_POOL, PLUGIN, now=NOW + timedelta(seconds=12))
    assert (plan.state, plan.reason) == (NodeState.BLOCKED, Reason.LEFT_OVER_RESOURCE)
    assert plan.wake_after_seconds is None


def test_a_resource_goes_with_the_plugin_that_is_being_deleted() -> None:
    node = _offering(memory=15, whole=1)
    leaving = replace(WHOLE_PLUGIN, deleting=True)
    trouble = diagnose(node, [PLUGIN, leaving], _mode("share"), AT)
    assert trouble is not None
    assert trouble.wait is not None


# Memory that is counted in another unit.


@pytest.mark.parametrize(
    ("memory", "cards", "told", "counted"),
    [
        (16384, 1, "GiB", "MiB"),
        (2048, 2, "GiB", "MiB"),
        (1280, 16, "MiB", "GiB"),
        (15, 1, "MiB", "GiB"),
    ],
)
def test_a_plugin_that_counts_in_another_unit_than_the_installation_is_told(
    memory: int, cards: int, told: str, counted: str
) -> None:
    node, at = _offering(memory=memory, gpu_count=cards), replace(AT, memory_unit=told)
    trouble = diagnose(node, [PLUGIN], _mode("share"), at)
    words = (f"its plugin counts {counted}", f"--memory-unit={told}")
    _expect(trouble, Reason.MEMORY_UNIT_DIFFERS, *words)


@pytest.mark.parametrize(
    ("memory", "cards", "told"),
    [(1280, 16, "GiB"), (1023, 1, "GiB"), (16384, 1, "MiB"), (0, 1, "MiB"), (16384, 0, "GiB")],
)
def test_units_that_agree_or_can_not_be_told_are_no_trouble(
    memory: int, cards: int, told: str
) -> None:
    node, at = _offering(memory=memory, gpu_count=cards), replace(AT, memory_unit=told)
    assert diagnose(node, [PLUGIN], _mode("share"), at) is None


def test_a_node_that_counts_in_another_unit_is_recorded_and_held_up() -> None:
    node = a_node(labels={**SHARE}, allocatable={MEMORY: 16384}, gpu_count=1)
    written = follow(node, plan_of(node, SHARE_POOL, PLUGIN, now=AT.now))
    assert "gpushare.io/applied" in written.annotations
    plan = plan_of(written, SHARE_POOL, PLUGIN, now=AT.now)
    assert (plan.state, plan.reason) == (NodeState.BLOCKED, Reason.MEMORY_UNIT_DIFFERS)


def test_a_node_that_counts_in_another_unit_can_still_leave_its_pool() -> None:
    records = applied(Schedule.SHARE).model_copy(
        update={"found": {names.LABEL_SCHEDULE: "share", names.LABEL_POOL: None}}
    )
    node = a_node(
        labels={**SHARE, **OURS}, records=records, allocatable={MEMORY: 16384}, gpu_count=1
    )
    pool = a_pool(schedule="share", deleting=True, deletion_policy="Restore")
    plan = expect_leaving(node, PLUGIN, pool=pool, now=AT.now)
    assert isinstance(plan.action, ReleaseNode)


# Cards that are not found.


def test_a_plugin_that_is_ready_and_found_no_card_is_told_from_a_silent_one() -> None:
    for cards, reason in ((0, Reason.NO_CARDS), (1, Reason.RESOURCE_NOT_READY)):
        node = _offering(memory=0, gpu_count=cards)
        _expect(verify_mode(node, [PLUGIN], _mode("share"), AT), reason, MEMORY)


def test_that_no_card_was_found_is_said_after_the_plugin_had_its_time() -> None:
    node = _settled(allocatable={}, gpu_count=0)
    early = plan_of(node, SHARE_POOL, PLUGIN, now=NOW + timedelta(seconds=20))
    assert (early.state, early.reason) == (NodeState.BLOCKED, Reason.RESOURCE_NOT_READY)
    assert early.wake_after_seconds == 40
    late = plan_of(node, SHARE_POOL, PLUGIN, now=NOW + timedelta(seconds=60))
    assert (late.state, late.reason) == (NodeState.BLOCKED, Reason.NO_CARDS)
    assert late.wake_after_seconds is None


def test_a_plugin_that_is_not_ready_has_not_looked_for_cards() -> None:
    pod = a_plugin_pod(ready=False, ready_since=None)
    missing = verify_mode(_offering(gpu_count=0), [pod], _mode("share"), AT)
    _expect(missing, Reason.PLUGIN_RESTARTING)


def test_whole_card_plugins_write_no_number_of_cards() -> None:
    missing = verify_mode(_offering(gpu_count=0), [WHOLE_PLUGIN], _mode("default"), AT)
    _expect(missing, Reason.RESOURCE_NOT_READY)


@pytest.mark.parametrize("renewed", [None, True])
def test_a_change_whose_plugin_finds_no_card_is_restarted_once_and_fails_for_that(
    renewed: bool | None,
) -> None:
    """A driver that came after the plugin is found by the second start."""
    records = under_way(Step.RESTARTING)
    assert records.change is not None
    change = records.change.model_copy(update={"to": Schedule.CGPU, "renewed": renewed})
    node = a_node(
        labels={**CGPU, **OURS},
        records=records.model_copy(update={"change": change}),
        allocatable={MEMORY: 0},
        unschedulable=True,
        owns_cordon=True,
    )
    plan = plan_of(node, a_pool(), PLUGIN, INSTALLER, now=NOW + timedelta(minutes=1))
    failure = expect_change(plan).failure
    if renewed is None:
        assert (plan.reason, failure) == (Reason.PLUGIN_RESTARTING, None)
    else:
        assert failure is not None
        assert (plan.state, failure.reason) == (NodeState.FAILED, Reason.NO_CARDS)
        assert "found no card" in failure.message


def test_the_planner_knows_in_what_the_installation_counts() -> None:
    node = _settled(allocatable={MEMORY: 16384})
    world = a_world(pools=(SHARE_POOL,), nodes=(node,), pods=(PLUGIN,))
    reasons = {}
    for unit in ("GiB", "MiB"):
        planner = Planner(Timing(), memory_unit=unit)
        planner.update(world, None, AT.now)
        reasons[unit] = planner.books[SHARE_POOL.name].plans[node.name].reason
    assert reasons == {"GiB": Reason.MEMORY_UNIT_DIFFERS, "MiB": Reason.APPLIED}
