"""Findings about nodes, plugins and pools."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpushare.analysis.doctor.nodes import judge_nodes, judge_units
from gpushare.analysis.doctor.report import judge_machines, sort_findings
from gpushare.analysis.effective_settings import read_setup
from gpushare.analysis.finding import Finding, FindingCode, Severity, Unseen
from gpushare.analysis.inspect.pools import plan_snapshot
from gpushare.analysis.observed_cluster import ObservedCluster
from gpushare.api.k8s.daemonset import DaemonSet
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod, SharingContainer
from gpushare.api.pool import Edition, Pool, Schedule, UnreadablePool
from gpushare.api.pruned.cluster import REFUSABLE
from gpushare.api.status import PoolStatus
from gpushare.core.records.drift_record import Drift, DriftRevert
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.core.snapshot.node import ReconcileContext
from gpushare.editions.edition import GPUSHARE_PLUGIN
from gpushare.editions.plugin_daemonsets import PluginDaemonSets
from gpushare.editions.registry import MODES
from gpushare.names import Reason
from gpushare.settings import Settings
from tests.kit.values import configurations
from tests.kit.values.node_plans import OURS, SHARE, a_settled, applied, has_failed
from tests.kit.values.objects import (
    MEMORY,
    NOW,
    PRO_INSTALLED,
    a_gpu_pod,
    a_node,
    a_plugin_pod,
    a_pool,
    a_snapshot,
    a_static_plugin,
)
from tests.unit.doctor.expect_findings import expect_one, list_codes

WARNING, ERROR, INFO = Severity.WARNING, Severity.ERROR, Severity.INFO
LATER = NOW + timedelta(minutes=5)
AT = ReconcileContext(LATER, plugin_daemonsets=PRO_INSTALLED)
DEPLOYMENT = "deployment gpushare-system/gpushare-controller"
PLUGIN = a_plugin_pod()
NVIDIA = a_plugin_pod("nvidia-1", daemonset="nvidia-device-plugin-daemonset")
WHOLE_CARDS = a_node(labels={"ack.node.gpu.schedule": "default"}, allocatable={"nvidia.com/gpu": 1})
SETTLED = a_settled(allocatable={MEMORY: 15}, gpu_count=1)
POOL = a_pool(schedule="share")
UNSEEN = Unseen("a right is missing: no")


def a_sharing_node(name: str = "gpu-1", *, memory: int = 15, **more: Any) -> Node:
    values: dict[str, Any] = {"allocatable": {MEMORY: memory}, "gpu_count": 1, **more}
    return a_node(name, values.pop("labels", SHARE), **values)


def find(node: Node, *pods: Pod, pooled: bool = True, ctx: ReconcileContext = AT) -> list[Finding]:
    snapshot = a_snapshot(pools=(), nodes=(node,), pods=pods)
    planner = plan_snapshot(snapshot, Settings(), ctx.now)
    return list(judge_nodes(snapshot, planner, ctx, knows_pools=not pooled))


def see(
    *nodes: Node, pods: tuple[Pod, ...] = (), pools: tuple[Pool, ...] = (POOL,), **more: Any
) -> list[Finding]:
    """All of a cluster, which the Deployment's settings say how to read."""
    settings = more.pop("settings", {})
    snapshot = a_snapshot(pools=pools, nodes=nodes, pods=pods)
    return judge(snapshot, settings, **more)


def judge(snapshot: ClusterSnapshot, settings: dict[str, str], **more: Any) -> list[Finding]:
    known, unseen = read_setup({DEPLOYMENT: settings}, snapshot), more.pop("unseen", {})
    parts: dict[str, Any] = {"unbound": (), "opted_out": frozenset(), "unreadable": (), **more}
    return judge_machines(ObservedCluster(snapshot, known=known, **parts), unseen, LATER)


def test_whole_cards_are_nothing_that_a_pool_must_have() -> None:
    plugin = a_plugin_pod(daemonset="ack-nvidia-device-plugin")
    assert list_codes(find(WHOLE_CARDS, plugin, pooled=False)) == ["NothingShared", "PluginsServe"]
    assert list_codes(find(a_node())) == ["NothingShared"]


BOTH = {MEMORY: 15, "nvidia.com/gpu": 1}
NO_CARDS = a_sharing_node(memory=0, gpu_count=0)
TWO_LABELS = a_sharing_node(labels={**SHARE, "cgpu": "true"})
QUANTUM = a_node(labels={"ack.node.gpu.schedule": "quantum"})
OPEN_SOURCE = a_sharing_node(memory=30, gpu_count=2, labels={"gpushare": "true"})
JUST_STARTED = replace(AT, now=NOW)
NODES: list[tuple[list[Finding], Severity, FindingCode | Reason, str]] = [
    (find(a_sharing_node()), WARNING, Reason.PLUGIN_RESTARTING, "no pod on the node"),
    (find(NO_CARDS, PLUGIN), ERROR, Reason.NO_CARDS, "then run `kubectl -n kube-system delete pod"),
    (find(NO_CARDS, PLUGIN, ctx=JUST_STARTED), INFO, Reason.RESOURCE_NOT_READY, ""),
    (find(a_sharing_node(memory=0), PLUGIN), WARNING, Reason.RESOURCE_NOT_READY, "is 0"),
    (
        find(a_sharing_node(allocatable=BOTH), PLUGIN, NVIDIA),
        ERROR,
        Reason.COMPETING_STACKS,
        "NVIDIA: keep its DaemonSet off the node",
    ),
    (find(TWO_LABELS, PLUGIN), ERROR, Reason.OTHER_EDITION_LABELS, "cgpu=true"),
    (
        find(a_sharing_node(), ctx=ReconcileContext(LATER)),
        ERROR,
        Reason.COMPONENT_MISSING,
        GPUSHARE_PLUGIN,
    ),
    (find(OPEN_SOURCE, PLUGIN, a_gpu_pod(cards={2: 4})), WARNING, Reason.EXTENDER_STALE, ""),
    (find(QUANTUM), WARNING, FindingCode.UNKNOWN_MODE, "quantum"),
    (
        find(WHOLE_CARDS, a_static_plugin()),
        INFO,
        FindingCode.STATIC_POD,
        "/etc/kubernetes/manifests",
    ),
    (find(a_sharing_node(), PLUGIN, pooled=False), INFO, FindingCode.LABELLED_MANUALLY, "adopt"),
]


@pytest.mark.parametrize(("found", "severity", "code", "told"), NODES)
def test_each_trouble_of_a_node_has_its_code_and_a_remedy(
    found: list[Finding], severity: Severity, code: FindingCode | Reason, told: str
) -> None:
    expect_one(found, code, severity, told)


@pytest.mark.parametrize("labels", [{}, SHARE])
def test_another_stack_on_a_node_of_no_pool_is_worth_a_word_and_no_plugin_is_missed(
    labels: dict[str, str],
) -> None:
    found = find(replace(NODE_OF_HAMI, labels=labels), HAMI)
    assert list_codes(found) == ["OtherStack"]
    expect_one(found, Reason.OTHER_STACK, INFO, "hami-1 serves nvidia.com/gpu")


def test_a_node_that_a_pool_hands_to_another_stack_is_no_trouble() -> None:
    disabled = a_pool(schedule="disabled")
    node = replace(NODE_OF_HAMI, labels={"ack.node.gpu.schedule": "disabled"})
    assert "OtherStack" not in list_codes(see(node, pods=(HAMI,), pools=(disabled,)))


def test_a_node_that_a_pool_wants_and_another_stack_has_lacks_no_plugin() -> None:
    codes = list_codes(see(NODE_OF_HAMI, pods=(HAMI,)))
    assert "OtherStack" in codes
    assert not {"ComponentMissing", "PluginRestarting"}.intersection(codes)


def test_cards_that_nvidias_plugin_gives_out_several_times_are_shared() -> None:
    node = a_node(labels={"nvidia.com/gpu.replicas": "4"}, allocatable={"nvidia.com/gpu": 8})
    assert "NothingShared" not in list_codes(find(node, NVIDIA))
    whole = replace(node, labels={"nvidia.com/gpu.replicas": "1"})
    assert list_codes(find(whole, NVIDIA)) == ["NothingShared"]


def test_two_stacks_on_a_node_of_no_pool_are_an_error() -> None:
    both = find(NODE_OF_HAMI, HAMI, NVIDIA)
    expect_one(both, Reason.COMPETING_STACKS, ERROR, "kubectl label node gpu-1 gpu-")
    snapshot = a_snapshot(pools=(), nodes=(a_sharing_node(),), pods=(PLUGIN,))
    snapshot = replace(snapshot, resource_slices={"gpu-1": ["gpu-1-slice"]})
    expect_one(judge(snapshot, {}), Reason.COMPETING_STACKS, ERROR, "ResourceSlice gpu-1-slice")


def test_a_member_that_the_gpu_operator_serves_by_its_dra_mode_is_another_stacks() -> None:
    # A GPUCluster brings no device plugin and no extended resource: its slices alone show it.
    node = replace(configurations.member(), allocatable={}, capacity={}, annotations={})
    snapshot = a_snapshot(pools=(configurations.build_pool(),), nodes=(node,))
    snapshot = replace(snapshot, resource_slices={node.name: [f"{node.name}-gpu.nvidia.com-x"]})
    found = judge(snapshot, {"GPUSHARE_NVIDIA_NAMESPACE": "gpu-operator"})
    expect_one(found, Reason.OTHER_STACK, WARNING, f"ResourceSlice {node.name}-gpu", "GPUCluster")
    assert Reason.COMPETING_STACKS not in list_codes(found)


def test_a_member_that_shares_by_a_configuration_counts_as_labelled_and_serving() -> None:
    snapshot = a_snapshot(
        pools=(configurations.build_pool(),),
        nodes=(configurations.member(),),
        pods=configurations.PODS,
    )
    plugins = configurations.context().plugin_daemonsets
    settings = {"GPUSHARE_NVIDIA_NAMESPACE": plugins.nvidia_namespace}
    found = judge(replace(snapshot, plugin_daemonsets=plugins), settings)
    expect_one(found, FindingCode.PLUGINS_SERVE, Severity.OK, "1 of 1 labelled nodes")
    assert "NothingShared" not in list_codes(found)


def test_two_units_in_a_cluster_are_an_error_and_mib_alone_is_worth_a_word() -> None:
    gib, mib = a_sharing_node("a"), a_sharing_node("b", memory=15360)
    mixed = judge_units([gib, mib, replace(gib, name="c")])
    expect_one(mixed, FindingCode.UNITS_MIXED, ERROR, "GiB (nodes: 2,", "MiB (nodes: 1,")
    expect_one(judge_units([mib]), FindingCode.UNIT_IS_MIB, INFO)
    assert list(judge_units([gib])) == []


# The vendor's limits.


@pytest.mark.parametrize("mode", ["cgpu", "core_mem"])
@pytest.mark.parametrize("provider", ["", "kind://docker/kind/gpu-1", "cn-beijing.eci-2ze1"])
def test_a_node_that_is_no_ecs_instance_can_not_isolate_by_cgpu(mode: str, provider: str) -> None:
    node = a_sharing_node(labels={"ack.node.gpu.schedule": mode}, provider_id=provider)
    expect_one(find(node), FindingCode.NOT_ECS, WARNING, "node gpu-1", "mode share")


@pytest.mark.parametrize("image", ["ContainerOS 3.5", "LifseaOS 22.03"])
def test_what_container_os_needs_is_said(image: str) -> None:
    node = a_sharing_node(labels={"ack.node.gpu.schedule": "cgpu"}, os_image=image)
    expect_one(
        find(node), FindingCode.CONTAINER_OS, INFO, image, "ack-ai-installer 1.12.6", "helm list"
    )


def test_limits_of_cgpu_are_none_where_it_does_not_run_or_finds_what_it_needs() -> None:
    shared = a_sharing_node(provider_id="", os_image="ContainerOS 3.5")
    assert list_codes(find(shared, PLUGIN)) == ["PluginsServe"]
    for provider in ("cn-beijing.i-2zeabc", "alicloud://us-east-1.i-0x1"):
        node = a_node(labels={"cgpu": "true"}, provider_id=provider, os_image="Ubuntu 24.04")
        assert not {"NotEcs", "ContainerOs"}.intersection(list_codes(find(node)))


def test_plugins_that_a_short_node_evicts_are_named_and_no_other_daemonset() -> None:
    evictable = map(DaemonSet, ("logtail-ds", "renamed", "cgpu-installer"))
    critical = DaemonSet("ack-mps-control", is_critical=True)
    plugins = PluginDaemonSets(
        {"gpushare-device-plugin-ds": "renamed"}, frozenset((*evictable, critical))
    )
    snapshot = replace(a_snapshot(pools=(), nodes=()), plugin_daemonsets=plugins)
    found = judge(snapshot, {})
    told = expect_one(found, FindingCode.PLUGINS_EVICTABLE, WARNING, "system-node-critical")
    assert told.message.startswith("cgpu-installer, renamed: ")


WHY = 'Post "http://10.0.0.9:32766/gpushare-scheduler/filter": connection refused'
WAITING = [
    a_gpu_pod(
        name, node="", phase="Pending", selects=frozenset({("gpushare.io/pool", "training")}),
        unschedulable=WHY, unscheduled=("SchedulerError", WHY),
    )
    for name in ("a", "b")
]  # fmt: skip
LATER_POOL = UnreadablePool("later", "uid", 1, PoolStatus(), "quantum")
MIG_NODE = a_node(allocatable={"nvidia.com/mig-1g.5gb": 1})
NODE_OF_HAMI = a_node(allocatable={"nvidia.com/gpu": 10})
HAMI = a_plugin_pod("hami-1", daemonset="hami-device-plugin")
ELSEWHERE = {"GPUSHARE_PLUGIN_NAMESPACE": "gpu-plugins"}
HALTED = see(has_failed(), a_settled("gpu-2"), pools=(a_pool(),))
HALTED_POOL = [each for each in HALTED if each.object == "pool training"]
UNANSWERED = see(SETTLED, pods=(PLUGIN,), unbound=tuple(WAITING))
POOLS: list[tuple[list[Finding], Severity, FindingCode | Reason, str]] = [
    (
        see(pools=(), unreadable=(LATER_POOL,)),
        ERROR,
        Reason.SPEC_INVALID,
        "not changed: quantum",
    ),
    (see(), INFO, Reason.NO_NODES, "pool training"),
    (HALTED, ERROR, Reason.DEADLINE_EXCEEDED, "node gpu-0"),
    (HALTED_POOL, ERROR, Reason.ROLLOUT_HALTED, "gpushare retry pool/training"),
    (see(a_settled(allocatable=BOTH), pods=(PLUGIN, NVIDIA)), ERROR, Reason.COMPETING_STACKS, ""),
    (see(NODE_OF_HAMI, pods=(HAMI,)), WARNING, Reason.OTHER_STACK, "kubectl label node gpu-1 gpu-"),
    (see(MIG_NODE), WARNING, Reason.MIG_NODE, "gpushare explain node gpu-1"),
    (UNANSWERED, ERROR, Reason.SCHEDULER_UNAVAILABLE, "http://10.0.0.9:32766"),
    (UNANSWERED, ERROR, Reason.SCHEDULER_UNAVAILABLE, "extender (2)"),
    (see(a_sharing_node(), pools=(), settings=ELSEWHERE), INFO, FindingCode.SKIPPED, "gpu-plugins"),
]


@pytest.mark.parametrize(("found", "severity", "code", "told"), POOLS)
def test_each_trouble_of_a_cluster_is_one_finding(
    found: list[Finding], severity: Severity, code: FindingCode | Reason, told: str
) -> None:
    expect_one(found, code, severity, told)


def test_pods_with_the_isolation_of_a_former_mode_are_a_warning() -> None:
    known = {"uid-of-train-1": "cgpu"}
    records = applied("share", edition=Edition.BASIC, before=tuple(known), admitted=known)
    labels = {**MODES[Edition.BASIC, Schedule.SHARE].labels, **OURS}
    node = a_node(labels=labels, records=records, allocatable={MEMORY: 15}, gpu_count=1)
    pods = (
        PLUGIN,
        a_plugin_pod("installer", daemonset="cgpu-installer"),
        a_gpu_pod(containers=(SharingContainer("main"),)),
    )
    found = see(node, pods=pods, pools=(a_pool(schedule="share", edition="Basic"),))
    expect_one(found, Reason.STALE_ISOLATION, WARNING, "default/train-1")


def test_rivals_of_a_pool_are_named() -> None:
    key = "ack.node.gpu.schedule"
    flip = DriftRevert(key=key, manager="sync", theirs="cgpu", at=LATER)
    drift = Drift(claim="training/1", reverts=(flip, flip))
    found_keys = {key: None, "gpushare.io/pool": None}
    records = applied(Schedule.SHARE).model_copy(
        update={"drift": drift, "initial_values": found_keys}
    )
    node = a_node(
        labels={key: "cgpu", **OURS},
        records=records,
        owned=frozenset({"gpushare.io/pool", *records.annotations()}),
        managers={key: "sync"},
    )
    pool = [each for each in see(node) if each.object == "pool training"]
    expect_one(pool, Reason.LABEL_CONFLICT, WARNING, "sync keeps")


def test_without_nodes_or_pods_nothing_is_judged() -> None:
    assert list_codes(see(a_sharing_node(), unseen={"pods": UNSEEN})) == ["Skipped"]


def test_without_what_tells_of_other_stacks_nodes_are_judged_all_the_same() -> None:
    unseen = dict.fromkeys(REFUSABLE, UNSEEN)
    found = see(a_sharing_node(), pods=(PLUGIN,), unseen=unseen)
    assert set(list_codes(found)) > {"Skipped"}


def test_where_pools_may_not_be_read_nobody_is_said_to_have_labelled_by_hand() -> None:
    found = see(a_sharing_node(), pods=(PLUGIN,), pools=(), unseen={"pools": UNSEEN})
    assert list_codes(found) == ["Skipped", "PluginsServe"]


def test_the_worst_comes_first() -> None:
    worst_first = [Severity.ERROR, Severity.WARNING, Severity.INFO, Severity.OK]
    found = [
        Finding(each, FindingCode.SKIPPED, str(each), "told") for each in reversed(worst_first)
    ]
    assert [each.severity for each in sort_findings(found)] == worst_first


def test_nodes_with_the_same_trouble_are_one_finding_that_leads_to_the_worst_of_them() -> None:
    just_started = a_plugin_pod("p-0", node="gpu-0", ready_since=LATER)
    plugins = (just_started, *(a_plugin_pod(f"p-{n}", node=f"gpu-{n}") for n in (1, 2)))
    nodes = [a_sharing_node(f"gpu-{n}", memory=0, gpu_count=min(n, 1)) for n in range(3)]
    found = see(*nodes, pods=plugins, pools=())
    told = expect_one(found, Reason.RESOURCE_NOT_READY, WARNING, "gpushare explain node gpu-1")
    assert told.object == "3 nodes"
    assert told.message.startswith("For example node gpu-1: The node does not offer ")
