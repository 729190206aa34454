"""One node: whose it is, what its labels say, what its plugins serve, and what is wrong."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpushare import names
from gpushare.analysis.explain.nodes import NodeExplanation, explain_node
from gpushare.analysis.finding import FindingCode
from gpushare.analysis.inspect.pools import plan_snapshot
from gpushare.api.k8s.daemonset import NVIDIA_DAEMONSET
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod, SharingContainer
from gpushare.api.nvidia_plugin import NvidiaConfig, SharingStrategy
from gpushare.api.pool import Edition, Pool, Schedule
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.editions.installed_stacks import Stack
from gpushare.names import Reason
from gpushare.settings import Settings
from tests.kit.values import configurations
from tests.kit.values.node_plans import LEFT_INSTALLER, SHARE, a_settled, changing
from tests.kit.values.objects import (
    MEMORY,
    NOW,
    a_gpu_pod,
    a_node,
    a_plugin_pod,
    a_pool,
    a_snapshot,
)

LATER = NOW + timedelta(minutes=5)
POOL = a_pool(schedule="share")
OFFERS: dict[str, Any] = {"allocatable": {MEMORY: 15}, "gpu_count": 1}
PLUGIN = a_plugin_pod()


def explain(node: Node, *pods: Pod, pools: tuple[Pool, ...] = (POOL,)) -> NodeExplanation:
    return explain_in(a_snapshot(pools=pools, nodes=(node,), pods=pods), node.name)


def explain_in(snapshot: ClusterSnapshot, name: str = "gpu-1") -> NodeExplanation:
    setup = Settings()
    return explain_node(snapshot, plan_snapshot(snapshot, setup, LATER), name, LATER)


def reasons(explained: NodeExplanation) -> list[FindingCode | Reason]:
    return [finding.code for finding in explained.findings]


def test_labels_say_what_is_wanted_and_who_wrote_them() -> None:
    labels = {**SHARE, "aliyun.accelerator/nvidia_count": "1", "cgpu": "true"}
    node = a_node(labels=labels, managers={"cgpu": "kubectl-label"}, **OFFERS)
    lines = {line.key: line for line in explain(node, PLUGIN).labels}
    assert (lines[names.LABEL_POOL].value, lines[names.LABEL_POOL].wanted) == (None, "training")
    assert (lines["cgpu"].wanted, lines["cgpu"].owner) == (None, "kubectl-label")
    assert lines["aliyun.accelerator/nvidia_count"].value == "1"
    assert "group" not in lines


@pytest.mark.parametrize(
    ("labels", "edition", "mode"),
    [
        ({"ack.node.gpu.schedule": "cgpu"}, Edition.PROFESSIONAL, Schedule.CGPU),
        ({"cgpu": "true"}, Edition.BASIC, Schedule.CGPU),
        ({"cgpu": "true", "cgpu.disable.isolation": "true"}, Edition.BASIC, Schedule.SHARE),
        ({"gpushare": "true"}, Edition.OPEN_SOURCE, Schedule.SHARE),
    ],
)
def test_the_edition_of_a_node_in_no_pool_is_that_of_its_labels(
    labels: dict[str, str], edition: Edition, mode: Schedule
) -> None:
    explained = explain(a_node(labels=labels), pools=())
    assert explained.mode is not None
    assert (explained.mode.edition, explained.mode.schedule) == (edition, mode)


def test_pods_whose_isolation_is_unknown_are_named() -> None:
    pod = a_gpu_pod(containers=(SharingContainer("main"),))
    assert explain(a_node(labels=SHARE, **OFFERS), PLUGIN, pod).unknown_pods == ("default/train-1",)


SHARING = a_node(labels=SHARE, **OFFERS)
OLD_LABEL = a_node(labels={**SHARE, "cgpu": "true"}, **OFFERS)
QUANTUM = a_node(labels={"ack.node.gpu.schedule": "quantum"})
UNREADABLE = replace(a_settled(**OFFERS), annotations={names.ANNOTATION_APPLIED: "{"})
IN_MIB = a_settled(allocatable={MEMORY: 15360}, gpu_count=1)


@pytest.mark.parametrize(
    ("explained", "found"),
    [
        # Without a pool labels are compared with plugins all the same.
        (explain(SHARING, PLUGIN, pools=()), []),
        (explain(SHARING, pools=()), [Reason.PLUGIN_RESTARTING]),
        (explain(QUANTUM, pools=()), [FindingCode.UNKNOWN_MODE]),
        (explain(OLD_LABEL, PLUGIN, pools=()), [Reason.OTHER_EDITION_LABELS]),
        (explain(a_settled(), PLUGIN), [Reason.NO_CARDS]),
        (explain(IN_MIB, PLUGIN), [Reason.MEMORY_UNIT_DIFFERS]),
        (explain(UNREADABLE, PLUGIN), [Reason.RECORD_UNREADABLE]),
        # What a change waits for, and nothing that follows from it.
        (explain(changing("gpu-1"), pools=(a_pool(),)), [Reason.COMPONENT_NOT_READY]),
    ],
)
def test_what_is_wrong_is_found(
    explained: NodeExplanation, found: list[FindingCode | Reason]
) -> None:
    assert reasons(explained) == found


def test_a_second_plugin_and_its_resource_are_not_of_the_nodes_mode() -> None:
    offers = {MEMORY: 15, names.RESOURCE_WHOLE_GPU: 1}
    second = a_plugin_pod("nvidia", daemonset=NVIDIA_DAEMONSET)
    node = a_settled(allocatable=offers, gpu_count=1)
    explained = explain(node, PLUGIN, second, LEFT_INSTALLER)
    assert Reason.COMPETING_STACKS in reasons(explained)
    assert [(plugin.name, plugin.of_mode) for plugin in explained.plugins] == [
        ("cgpu-installer", False),
        ("gpushare-device-plugin-ds", True),
        (NVIDIA_DAEMONSET, False),
    ]
    assert [r.name for r in explained.resources if not r.of_mode] == ["nvidia.com/gpu"]


def test_pools_that_claim_the_same_node() -> None:
    strong = a_pool("strong", "share", priority=200)
    first, second = explain(SHARING, PLUGIN, pools=(POOL, strong)).claimants or ()
    assert (first.pool, first.has_it, first.priority) == ("strong", True, 200)
    assert (second.pool, second.has_it) == ("training", False)
    assert second.plan.reason is Reason.OWNED_BY_OTHER_POOL


def test_a_node_whose_pools_spec_is_unreadable_is_left_alone() -> None:
    snapshot = a_snapshot(pools=(), nodes=(a_settled(**OFFERS),), pods=(PLUGIN,))
    snapshot = replace(snapshot, unreadable_pools=frozenset({"training"}))
    assert reasons(explain_in(snapshot)) == [Reason.SPEC_INVALID]


# Other stacks, and modes that a ConfigMap defines.

HAMI = a_plugin_pod("hami-1", daemonset="hami-device-plugin")
BY_HAMI = a_node(allocatable={names.RESOURCE_WHOLE_GPU: 20})


def test_a_stack_that_has_a_node_of_no_pool_is_named_with_its_evidence_and_its_end() -> None:
    explained = explain(BY_HAMI, HAMI, pools=())
    assert list(explained.stacks) == [Stack.HAMI]
    (found,) = explained.findings
    assert found.code is Reason.OTHER_STACK
    assert "pod kube-system/hami-device-plugin-hami-1 serves nvidia.com/gpu" in found.message
    assert "`kubectl label node gpu-1 gpu-`" in found.message


def test_a_node_whose_cards_only_the_dra_driver_gives_out_has_gpus() -> None:
    snapshot = a_snapshot(pools=(), nodes=(a_node(),))
    explained = explain_in(replace(snapshot, resource_slices={"gpu-1": ["gpu-1-slice"]}))
    assert explained.has_gpus
    assert reasons(explained) == [Reason.OTHER_STACK]


def explain_configured(
    found: Node, text: str = configurations.SLICES, *pods: Pod
) -> NodeExplanation:
    snapshot = a_snapshot(
        pools=(configurations.build_pool(),), nodes=(found,), pods=(*configurations.PODS, *pods)
    )
    plugins = configurations.context(text).plugin_daemonsets
    return explain_in(replace(snapshot, plugin_daemonsets=plugins))


def test_gpu_feature_discovery_is_listed_by_its_pod_and_by_its_labels() -> None:
    explained = explain_configured(configurations.member())
    assert ("gfd", True) in [(each.name, each.of_mode) for each in explained.plugins]
    assert {line.key for line in explained.labels} > configurations.SHOWN.keys()


def test_plugins_and_resources_are_compared_with_what_the_node_has_loaded() -> None:
    renamed = NvidiaConfig("a", SharingStrategy.MPS, 4, renamed=True)
    found = replace(configurations.member(renamed), allocatable={"nvidia.com/gpu.shared": 8})
    daemon = a_plugin_pod("m", daemonset="nvidia-device-plugin-mps-control-daemon")
    explained = explain_configured(found, configurations.SLICES, daemon)
    assert [line.of_mode for line in explained.plugins] == [True, True, True]
    assert [(line.name, line.of_mode) for line in explained.resources] == [
        ("nvidia.com/gpu.shared", True)
    ]
