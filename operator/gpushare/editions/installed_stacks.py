"""Finds the stacks that give out a node's cards, by evidence other than labels.

A stack counts only its own allocations, so two stacks on one node give each card out twice.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum

from gpushare.api.k8s.daemonset import HAMI_DAEMONSET, NVIDIA_DAEMONSET
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.editions.plugins import SERVED, identify_plugin


class Stack(StrEnum):
    """Provider of a device plugin or driver that gives out cards, as named in messages."""

    ALIBABA_CLOUD = "Alibaba Cloud's device plugin"
    NVIDIA = "NVIDIA's device plugin"
    HAMI = "HAMi"
    DRA = "NVIDIA's DRA driver"


_STACKS = {NVIDIA_DAEMONSET: Stack.NVIDIA, HAMI_DAEMONSET: Stack.HAMI}
"""Stacks by plugin; all other plugins are Alibaba Cloud's."""
FOREIGN = frozenset({Stack.HAMI, Stack.DRA})
"""Stacks beside which no mode with a plugin works. NVIDIA's is not one of them: it serves the whole
cards of a node that does not share them, and a change of mode replaces it."""
_REMEDIES: Mapping[Stack, str] = {
    Stack.NVIDIA: "NVIDIA: keep its DaemonSet off the node by its node selector; with the GPU "
    "Operator, which can reset the node's label, set devicePlugin.enabled=false",
    Stack.HAMI: "HAMi: run `kubectl label node {node} gpu-`",
    Stack.DRA: "DRA: delete the pods with ResourceClaims on the node first, then keep the driver's "
    "kubelet plugin (dra-driver-nvidia-gpu-kubelet-plugin; of the GPU Operator's GPUCluster "
    "nvidia-dra-driver-kubelet-plugin) off it by its node selector",
}
"""How a user removes a stack; Alibaba Cloud's is removed with the pool. HAMi's plugin selects
`gpu=on`. Without the DRA driver its pods hang in Terminating (kubernetes/kubernetes, issue
129402)."""


def find_stacks(
    node: Node, pods: Sequence[Pod], slices: Collection[str] = ()
) -> Mapping[Stack, Sequence[str]]:
    """Find the stacks that give out the cards of `node`, each with its evidence.

    Evidence is a plugin's Running pod, if the node offers a resource of the plugin, or one of
    `slices`, the node's ResourceSlices. HAMi's annotation is none: HAMi never removes it.
    """
    stacks: defaultdict[Stack, list[str]] = defaultdict(list)
    for pod in pods:
        plugin = identify_plugin(pod)
        if not plugin or pod.phase != "Running" or pod.deleting:
            continue
        if offered := sorted(r for r in SERVED[plugin] if node.allocatable.get(r)):
            stack = _STACKS.get(plugin, Stack.ALIBABA_CLOUD)
            stacks[stack].append(f"pod {pod.namespace}/{pod.name} serves {' and '.join(offered)}")
    if slices:
        stacks[Stack.DRA] = [f"ResourceSlice {name}" for name in sorted(slices)]
    return stacks


def describe_competing(node: str, stacks: Mapping[Stack, Sequence[str]]) -> str:
    """Describe the competition of `stacks`, with evidence and how a user removes all but one."""
    present = [stack for stack in Stack if stack in stacks]
    listed = " and ".join(f"{stack} ({stacks[stack][0]})" for stack in present)
    remedies = [_REMEDIES[stack].format(node=node) for stack in present if stack in _REMEDIES]
    problem = f"{listed} each allocate all cards of the node, so a card can be allocated twice"
    then = "If the node then offers 0 of a resource, delete the pod of the plugin that stays"
    return ". ".join([f"{problem}. Remove all but one from the node", *remedies, then])


def describe_other(node: str, stack: Stack, evidence: Sequence[str]) -> str:
    """Describe that another stack has the node, and how a user gives the node to a pool."""
    return (
        f"{stack} gives out the node's cards ({', '.join(evidence[:2])}), so no pool changes the "
        "node. To give it to a pool, end its GPU pods and remove the other stack. "
        f"{_REMEDIES[stack].format(node=node)}. To keep it, exclude it (spec.nodes.exclude) from a "
        "pool that selects it"
    )
