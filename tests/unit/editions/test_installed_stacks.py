"""Which stacks give out a node's cards, and what proves it."""

from dataclasses import replace

import pytest

from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.editions.installed_stacks import (
    Stack,
    describe_competing,
    describe_other,
    find_stacks,
)
from tests.kit.values.objects import MEMORY, a_node, a_plugin_pod, a_static_plugin

WHOLE = "nvidia.com/gpu"
OURS, STATIC = a_plugin_pod(), a_static_plugin()
MIG = a_plugin_pod("mig-1", daemonset="migparted-device-plugin")
NVIDIA = replace(
    a_plugin_pod("nvidia-1", daemonset="nvidia-device-plugin-daemonset"), namespace="gpu-operator"
)
HAMI = a_plugin_pod("hami-1", daemonset="hami-device-plugin")
SLICE = ("gpu-1-slice",)


def _offering(**offers: int) -> Node:
    named = {"memory": MEMORY, "whole": WHOLE, "shared": "nvidia.com/gpu.shared"}
    return a_node(allocatable={named[key]: amount for key, amount in offers.items()})


FOUND: dict[str, tuple[Node, tuple[Pod, ...], tuple[str, ...], set[Stack]]] = {
    "an empty node": (_offering(), (), (), set()),
    "ours": (_offering(memory=15), (OURS,), (), {Stack.ALIBABA_CLOUD}),
    "the static plugin is ours": (_offering(whole=1), (STATIC,), (), {Stack.ALIBABA_CLOUD}),
    "NVIDIA's in its namespace": (_offering(whole=1), (NVIDIA,), (), {Stack.NVIDIA}),
    "NVIDIA's shares": (_offering(whole=0, shared=4), (NVIDIA,), (), {Stack.NVIDIA}),
    "HAMi": (_offering(whole=10), (HAMI,), (), {Stack.HAMI}),
    "DRA, by its slice alone": (_offering(), (), SLICE, {Stack.DRA}),
    "ours and NVIDIA's": (
        _offering(memory=15, whole=1), (OURS, NVIDIA), (), {Stack.ALIBABA_CLOUD, Stack.NVIDIA},
    ),
    "ours and HAMi": (
        _offering(memory=15, whole=1), (OURS, HAMI), (), {Stack.ALIBABA_CLOUD, Stack.HAMI},
    ),
    "NVIDIA's and HAMi, of one resource": (
        _offering(whole=10), (NVIDIA, HAMI), (), {Stack.NVIDIA, Stack.HAMI},
    ),
    "ours and DRA": (_offering(memory=15), (OURS,), SLICE, {Stack.ALIBABA_CLOUD, Stack.DRA}),
    "NVIDIA's and DRA": (_offering(whole=1), (NVIDIA,), SLICE, {Stack.NVIDIA, Stack.DRA}),
    "a plugin whose resource the node does not offer": (
        _offering(memory=15, whole=0), (OURS, NVIDIA), (), {Stack.ALIBABA_CLOUD},
    ),
    "a plugin that has not started": (
        _offering(whole=1), (replace(NVIDIA, phase="Pending"),), (), set(),
    ),
    "a plugin that is being deleted": (
        _offering(whole=1), (replace(NVIDIA, deleting=True),), (), set(),
    ),
    "a plugin of MIG devices": (_offering(memory=15), (OURS, MIG), (), {Stack.ALIBABA_CLOUD}),
    "another DaemonSet": (_offering(whole=1), (a_plugin_pod(daemonset="kube-proxy"),), (), set()),
}  # fmt: skip


@pytest.mark.parametrize(("node", "pods", "slices", "stacks"), FOUND.values(), ids=FOUND)
def test_a_stack_is_found_by_what_gives_cards_out(
    node: Node, pods: tuple[Pod, ...], slices: tuple[str, ...], stacks: set[Stack]
) -> None:
    assert find_stacks(node, pods, slices).keys() == stacks


def test_the_message_names_each_stack_its_evidence_and_what_removes_it() -> None:
    stacks = find_stacks(_offering(memory=15, whole=1), [NVIDIA, HAMI, OURS], SLICE)
    message = describe_competing("gpu-1", stacks)
    assert message.startswith(
        f"Alibaba Cloud's device plugin (pod kube-system/{OURS.name} serves aliyun.com/gpu-mem) "
        f"and NVIDIA's device plugin (pod gpu-operator/{NVIDIA.name} serves nvidia.com/gpu) and"
    )
    for remedy in ("devicePlugin.enabled=false", "`kubectl label node gpu-1 gpu-`", "DRA: delete"):
        assert remedy in message


@pytest.mark.parametrize("stack", [Stack.HAMI, Stack.DRA])
def test_another_stack_alone_is_told_with_both_ways_out(stack: Stack) -> None:
    message = describe_other("gpu-1", stack, ["its evidence"])
    for words in (f"{stack} gives out", "(its evidence)", "spec.nodes.exclude", "remove the other"):
        assert words in message
