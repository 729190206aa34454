"""Findings about nodes, plugins and pools."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpushare.api.daemonset import DaemonSet
from gpushare.api.node import Node
from gpushare.api.pod import Pod, SharingContainer
from gpushare.api.pool import Edition, Schedule
from gpushare.api.status import PoolStatus
from gpushare.api.unreadablepool import UnreadablePool
from gpushare.core.doctor.finding import Code, Finding, Severity, Unseen
from gpushare.core.doctor.nodes import judge_nodes, judge_units
from gpushare.core.doctor.page import Machines, judge_machines
from gpushare.core.doctor.pools import MAX_ALIKE, order
from gpushare.core.knownsetup import read_setup
from gpushare.core.modes import GPUSHARE_PLUGIN, MODES
from gpushare.core.observed import Pass
from gpushare.core.plugindaemonsets import PluginDaemonSets
from gpushare.core.records import Drift, Repair
from gpushare.core.world import World
from gpushare.names import Reason
from tests.kit.values.node_plans import OURS, SHARE, a_settled, applied, has_failed
from tests.kit.values.objects import (
    MEMORY,
    NOW,
    PRO_INSTALLED,
    a_gpu_pod,
    a_node,
    a_plugin_pod,
    a_pool,
    a_static_plugin,
    a_world,
)
from tests.unit.doctor.expect_findings import expect_one, list_codes

WARNING, ERROR, OK, INFO = Severity.WARNING, Severity.ERROR, Severity.OK, Severity.INFO
LATER = NOW + timedelta(minutes=5)
AT = Pass(LATER, plugin_daemonsets=PRO_INSTALLED)
DEPLOYMENT = "deployment gpushare-system/gpushare-controller"
NVIDIA = a_plugin_pod("nvidia-1", daemonset="nvidia-device-plugin-daemonset")


def a_sharing_node(name: str = "gpu-1", *, memory: int = 15, **more: Any) -> Node:
    values: dict[str, Any] = {"allocatable": {MEMORY: memory}, "gpu_count": 1, **more}
    return a_node(name, values.pop("labels", SHARE), **values)


def find(node: Node, *pods: Pod, pooled: bool = True, at: Pass = AT) -> list[Finding]:
    world = a_world(pools=(), nodes=(node,), pods=pods)
    return list(judge_nodes(world, {node.name} if pooled else (), at))


# Each node.


def test_a_node_that_serves_what_its_label_says_is_well() -> None:
    found = find(a_sharing_node(), a_plugin_pod())
    assert list_codes(found) == ["PluginsServe"]
    expect_one(found, Code.PLUGINS_SERVE, OK, "1 of 1")


def test_a_node_that_no_pool_has_was_labelled_by_hand() -> None:
    found = find(a_sharing_node(), a_plugin_pod(), pooled=False)
    expect_one(found, Code.LABELLED_BY_HAND, INFO, "ack.node.gpu.schedule=share", "adopt")


def test_whole_cards_are_nothing_that_a_pool_must_have() -> None:
    labels = {"ack.node.gpu.schedule": "default"}
    node = a_node(labels=labels, allocatable={"nvidia.com/gpu": 1})
    plugin = a_plugin_pod(daemonset="ack-nvidia-device-plugin")
    assert list_codes(find(node, plugin, pooled=False)) == ["NothingShared", "PluginsServe"]


def test_nodes_without_a_label_share_nothing() -> None:
    assert list_codes(find(a_node())) == ["NothingShared"]


@pytest.mark.parametrize(
    ("node", "pods", "reason", "severity", "told"),
    [
        (a_sharing_node(), [], Reason.PLUGIN_RESTARTING, WARNING, "is not Ready on the node"),
        (
            a_sharing_node(),
            [a_plugin_pod(ready=False)],
            Reason.PLUGIN_RESTARTING,
            WARNING,
            "is not Ready on the node",
        ),
        (
            a_sharing_node(memory=0, gpu_count=0),
            [a_plugin_pod()],
            Reason.NO_CARDS,
            ERROR,
            "mend the driver",
        ),
        (
            a_sharing_node(memory=0),
            [a_plugin_pod()],
            Reason.RESOURCE_NOT_READY,
            WARNING,
            "allocatable is 0",
        ),
        (
            a_sharing_node(allocatable={MEMORY: 15, "nvidia.com/gpu": 1}),
            [a_plugin_pod(), NVIDIA],
            Reason.COMPETING_PLUGINS,
            ERROR,
            "keep the DaemonSet nvidia-device-plugin-daemonset off the node",
        ),
        (
            a_sharing_node(allocatable={MEMORY: 15, "nvidia.com/gpu": 1}),
            [a_plugin_pod()],
            Reason.LEFT_OVER_RESOURCE,
            ERROR,
            "restart the kubelet",
        ),
        (
            a_sharing_node(memory=15360),
            [a_plugin_pod()],
            Reason.MEMORY_UNIT_DIFFERS,
            ERROR,
            "--memory-unit=GiB",
        ),
        (
            a_sharing_node(labels={**SHARE, "cgpu": "true"}),
            [a_plugin_pod()],
            Reason.OTHER_EDITION_LABELS,
            ERROR,
            "cgpu=true",
        ),
    ],
)
def test_each_trouble_has_its_reason_and_a_remedy(
    node: Node, pods: list[Pod], reason: Reason, severity: Severity, told: str
) -> None:
    expect_one(find(node, *pods), reason, severity, told)


def test_what_may_be_on_its_way_is_no_error_yet() -> None:
    node = a_sharing_node(memory=0, gpu_count=0)
    found = find(node, a_plugin_pod(), at=Pass(NOW, plugin_daemonsets=PRO_INSTALLED))
    expect_one(found, Reason.RESOURCE_NOT_READY, INFO)


def test_a_mode_that_nothing_in_the_cluster_serves() -> None:
    found = find(a_sharing_node(), at=Pass(LATER))
    expect_one(found, Reason.COMPONENT_MISSING, ERROR, GPUSHARE_PLUGIN)


def test_a_value_that_is_no_mode() -> None:
    found = find(a_node(labels={"ack.node.gpu.schedule": "quantum"}))
    expect_one(found, Code.UNKNOWN_MODE, WARNING, "quantum")


def test_a_node_of_another_editions_label_is_of_that_edition() -> None:
    node = a_sharing_node(labels={"gpushare": "true"})
    assert list_codes(find(node, a_plugin_pod())) == ["PluginsServe"]


def test_the_static_pod_is_named_with_how_it_is_restarted() -> None:
    labels = {"ack.node.gpu.schedule": "default"}
    node = a_node(labels=labels, allocatable={"nvidia.com/gpu": 1})
    found = find(node, a_static_plugin())
    expect_one(found, Code.STATIC_POD, INFO, "/etc/kubernetes/manifests")


# Units.


def test_two_units_in_a_cluster_are_an_error() -> None:
    nodes = [a_sharing_node("a"), a_sharing_node("b", memory=15360), a_sharing_node("c")]
    expect_one(judge_units(nodes), Code.UNITS_MIXED, ERROR, "GiB on 2 of them", "MiB on 1 of them")


def test_mib_alone_is_worth_a_word() -> None:
    expect_one(judge_units([a_sharing_node(memory=15360)]), Code.UNIT_IS_MIB, INFO)
    assert list(judge_units([a_sharing_node()])) == []


# The vendor's limits.


@pytest.mark.parametrize("mode", ["cgpu", "core_mem"])
@pytest.mark.parametrize("provider", ["", "kind://docker/kind/gpu-1", "cn-beijing.eci-2ze1"])
def test_a_node_that_is_no_ecs_instance_can_not_isolate_by_cgpu(mode: str, provider: str) -> None:
    node = a_sharing_node(labels={"ack.node.gpu.schedule": mode}, provider_id=provider)
    expect_one(find(node), Code.NOT_ECS, WARNING, "node gpu-1", "mode share")


@pytest.mark.parametrize("image", ["ContainerOS 3.5", "LifseaOS 22.03"])
def test_what_container_os_needs_is_said(image: str) -> None:
    node = a_sharing_node(labels={"ack.node.gpu.schedule": "cgpu"}, os_image=image)
    expect_one(find(node), Code.CONTAINER_OS, INFO, image, "ack-ai-installer 1.12.6", "helm list")


def test_limits_of_cgpu_are_none_where_it_does_not_run_or_finds_what_it_needs() -> None:
    shared = a_sharing_node(provider_id="", os_image="ContainerOS 3.5")
    assert list_codes(find(shared, a_plugin_pod())) == ["PluginsServe"]
    for provider in ("cn-beijing.i-2zeabc", "alicloud://us-east-1.i-0x1"):
        node = a_node(labels={"cgpu": "true"}, provider_id=provider, os_image="Ubuntu 24.04")
        assert not {"NotEcs", "ContainerOs"}.intersection(list_codes(find(node)))


def test_plugins_that_a_short_node_evicts_are_named_and_no_other_daemonset() -> None:
    evictable = map(DaemonSet, ("logtail-ds", "renamed", "cgpu-installer"))
    critical = DaemonSet("ack-mps-control", is_critical=True)
    plugins = PluginDaemonSets(
        {"gpushare-device-plugin-ds": "renamed"}, frozenset((*evictable, critical))
    )
    world = replace(a_world(pools=(), nodes=()), plugin_daemonsets=plugins)
    found = judge_machines(Machines(world), read_setup({DEPLOYMENT: {}}, world), LATER)
    told = expect_one(found, Code.PLUGINS_EVICTABLE, WARNING, "system-node-critical")
    assert told.message.startswith("cgpu-installer, renamed: ")


# Pools.


def see(world: World, *unreadable: UnreadablePool, **unseen: Unseen) -> list[Finding]:
    return judge_machines(
        Machines(world, unreadable, unseen), read_setup({DEPLOYMENT: {}}, world), LATER
    )


def test_a_pool_whose_nodes_are_ready_is_as_planned() -> None:
    node = a_settled(allocatable={MEMORY: 15}, gpu_count=1)
    found = see(a_world(pools=(a_pool(schedule="share"),), nodes=(node,), pods=(a_plugin_pod(),)))
    assert [each.severity for each in found] == [OK, OK], found


def test_a_pool_that_can_not_be_read_is_an_error() -> None:
    later = UnreadablePool("later", "uid", 1, PoolStatus(), "spec.schedule: quantum")
    found = see(a_world(pools=(), nodes=()), later)
    expect_one(found, Reason.SPEC_INVALID, ERROR, "pool later", "quantum")


def test_a_pool_without_nodes_is_said() -> None:
    found = see(a_world(pools=(a_pool(schedule="share"),), nodes=()))
    expect_one(found, Reason.NO_NODES, INFO, "pool training")


def test_a_change_that_failed_halts_its_pool_and_both_are_errors() -> None:
    found = see(a_world(pools=(a_pool(),), nodes=(has_failed(), a_settled("gpu-2"))))
    pool = [each for each in found if each.object == "pool training"]
    expect_one(pool, Reason.ROLLOUT_HALTED, ERROR, "gpushare retry training")
    expect_one(found, Reason.DEADLINE_EXCEEDED, ERROR, "node gpu-0")


def test_pods_with_the_isolation_of_a_former_mode_are_a_warning() -> None:
    known = {"uid-of-train-1": "cgpu"}
    records = applied("share", edition=Edition.BASIC, before=tuple(known), admitted=known)
    labels = {**MODES[Edition.BASIC, Schedule.SHARE].labels, **OURS}
    node = a_node(labels=labels, records=records, allocatable={MEMORY: 15}, gpu_count=1)
    pods = (
        a_plugin_pod(),
        a_plugin_pod("installer", daemonset="cgpu-installer"),
        a_gpu_pod(containers=(SharingContainer("main"),)),
    )
    found = see(
        a_world(pools=(a_pool(schedule="share", edition="Basic"),), nodes=(node,), pods=pods)
    )
    expect_one(found, Reason.STALE_ISOLATION, WARNING, "default/train-1", "delete those pods")


def test_rivals_of_a_pool_are_named() -> None:
    flips = tuple(
        Repair(key="ack.node.gpu.schedule", manager="sync", theirs="cgpu", at=LATER)
        for _ in range(2)
    )
    records = applied(Schedule.SHARE).model_copy(
        update={"drift": Drift(claim="training/1", repairs=flips)}
    )
    found_keys = {"found": {"ack.node.gpu.schedule": None, "gpushare.io/pool": None}}
    records = records.model_copy(update=found_keys)
    node = a_node(
        labels={"ack.node.gpu.schedule": "cgpu", **OURS},
        records=records,
        owned=frozenset({"gpushare.io/pool", *records.annotations()}),
        managers={"ack.node.gpu.schedule": "sync"},
    )
    found = see(a_world(pools=(a_pool(schedule="share"),), nodes=(node,)))
    pool = [each for each in found if each.object == "pool training"]
    expect_one(pool, Reason.LABEL_CONFLICT, WARNING, "sync keeps changing the label")


def test_plugins_of_another_namespace_are_not_judged() -> None:
    world = a_world(pools=(), nodes=(a_sharing_node(),))
    settings = {"GPUSHARE_PLUGIN_NAMESPACE": "gpu-plugins"}
    found = judge_machines(Machines(world), read_setup({DEPLOYMENT: settings}, world), LATER)
    expect_one(found, Code.SKIPPED, INFO, "gpu-plugins")


def test_what_a_pool_says_of_a_node_is_not_said_twice() -> None:
    node = a_settled(allocatable={MEMORY: 15, "nvidia.com/gpu": 1})
    pods = (a_plugin_pod(), NVIDIA)
    found = see(a_world(pools=(a_pool(schedule="share"),), nodes=(node,), pods=pods))
    expect_one(found, Reason.COMPETING_PLUGINS, ERROR)


def test_a_node_that_can_not_become_what_its_pool_says() -> None:
    node = a_node(allocatable={"nvidia.com/mig-1g.5gb": 1})
    found = see(a_world(pools=(a_pool(schedule="share"),), nodes=(node,)))
    expect_one(found, Reason.MIG_NODE, WARNING, "gpushare explain node gpu-1")


def test_without_nodes_or_pods_nothing_is_judged() -> None:
    unseen = Unseen("a right is missing: no")
    world = a_world(pools=(a_pool(),), nodes=(a_sharing_node(),))
    assert list_codes(see(world, pods=unseen)) == ["Skipped"]


def test_where_pools_may_not_be_read_nobody_is_said_to_have_labelled_by_hand() -> None:
    unseen = Unseen("a right is missing: no")
    world = a_world(pools=(), nodes=(a_sharing_node(),), pods=(a_plugin_pod(),))
    assert list_codes(see(world, pools=unseen)) == ["Skipped", "PluginsServe"]


# The page.


def test_the_worst_comes_first() -> None:
    found = [
        Finding(severity, Code.SKIPPED, str(severity), "told")
        for severity in (OK, ERROR, INFO, WARNING)
    ]
    assert [each.severity for each in order(found)] == [ERROR, WARNING, INFO, OK]


def test_of_many_alike_the_first_are_told_and_the_rest_counted() -> None:
    found = [Finding(ERROR, Reason.NO_CARDS, f"node {n:03}", "told") for n in range(100)]
    *told, last = order(found)
    assert [each.object for each in told] == [f"node {n:03}" for n in range(MAX_ALIKE - 1)]
    assert (last.object, last.message) == ("others", "and 91 more of this code, such as node 009")


def test_pods_that_wait_for_the_scheduler_extender_are_one_finding_with_its_address() -> None:
    why = 'Post "http://10.0.0.9:32766/gpushare-scheduler/filter": connection refused'
    pods = tuple(
        a_gpu_pod(
            name, node="", phase="Pending", selects=frozenset({("gpushare.io/pool", "training")}),
            unschedulable=why, unscheduled=("SchedulerError", why),
        )
        for name in ("a", "b")
    )  # fmt: skip
    node = a_settled(allocatable={MEMORY: 15}, gpu_count=1)
    world = a_world(pools=(a_pool(schedule="share"),), nodes=(node,), pods=(a_plugin_pod(),))
    machines = Machines(world, unbound=pods)
    found = judge_machines(machines, read_setup({DEPLOYMENT: {}}, world), LATER)
    expect_one(found, Reason.SCHEDULER_UNAVAILABLE, ERROR, "2 pods", "http://10.0.0.9:32766")


def test_a_card_that_a_pod_says_it_has_is_a_warning_of_its_node_and_no_error() -> None:
    node = a_sharing_node(memory=30, gpu_count=2, labels={"gpushare": "true"})
    expect_one(find(node, a_plugin_pod(), a_gpu_pod(cards={2: 4})), Reason.EXTENDER_STALE, WARNING)
