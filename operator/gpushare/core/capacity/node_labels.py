"""Counts the labels of a pool's nodes, which admission compares with pods' node selectors.

Only a few keys are published, each combination of their values once: nodes of one node pool are
alike, so a pool of thousands of nodes has a few combinations.
"""

from collections.abc import Mapping
from typing import NamedTuple

from gpushare import names
from gpushare.api.k8s.interning import share
from gpushare.api.status import LabelCombination, NodeLabels

PUBLISHED_KEYS = frozenset(
    {
        # "Well-Known Labels, Annotations and Taints" in the Kubernetes documentation.
        *("kubernetes.io/arch", "kubernetes.io/os", "node.kubernetes.io/instance-type"),
        *("topology.kubernetes.io/region", "topology.kubernetes.io/zone"),
        # Cards, by ACK (vendor's page on labels of GPU nodes).
        *(names.LABEL_NODE_POOL, names.LABEL_CARDS, names.LABEL_CARD_MEMORY),
        "aliyun.accelerator/nvidia_name",
        # Cards, by NVIDIA's GPU feature discovery (docs of NVIDIA/k8s-device-plugin).
        *("nvidia.com/gpu.product", "nvidia.com/gpu.family", "nvidia.com/gpu.count"),
        *(names.LABEL_CARD_MEMORY_NVIDIA, "nvidia.com/gpu.compute.major"),
        # Cards and node pools, by other clouds.
        *("cloud.google.com/gke-accelerator", "cloud.google.com/gke-nodepool"),
        *("k8s.amazonaws.com/accelerator", "eks.amazonaws.com/nodegroup"),
        *("karpenter.k8s.aws/instance-gpu-name", "karpenter.sh/nodepool"),
        *("kubernetes.azure.com/accelerator", "kubernetes.azure.com/agentpool"),
        "accelerator",
    }
)
"""The keys by which pods most often select nodes.

No key whose value differs on every node is among them. An installation may add keys, each of which
multiplies the combinations.
"""
MAX_COMBINATIONS = 50
MAX_BYTES = 16 * 1024
"""The largest size of a status's part about labels."""


class Combination(NamedTuple):
    """The published labels of a node."""

    keys: tuple[str, ...]
    values: tuple[str | None, ...]
    """By key; None where the node does not have the label."""

    @property
    def labels(self) -> dict[str, str]:
        pairs = zip(self.keys, self.values, strict=True)
        return {key: value for key, value in pairs if value is not None}


def combine(labels: Mapping[str, str], keys: tuple[str, ...]) -> Combination:
    """Combine a node's labels of these keys."""
    # By its values alone, which are too many to be kept where an installation adds keys.
    return Combination(keys, share(tuple(map(labels.get, keys))))


def list_combinations(counts: Mapping[Combination, int]) -> NodeLabels | None:
    """List the combinations, the one of most nodes first; None where no node takes pods."""
    if not counts:
        return None
    keys = next(iter(counts)).keys
    listed: list[LabelCombination] = []
    room = MAX_BYTES - _count_bytes(NodeLabels(keys=keys))
    pairs = ((-nodes, tuple(each.labels.items())) for each, nodes in counts.items())
    for less_nodes, labels in sorted(pairs):
        found = LabelCombination(nodes=-less_nodes, labels=dict(labels))
        room -= _count_bytes(found) + len(",")
        if len(listed) == MAX_COMBINATIONS or room < 0:
            break
        listed.append(found)
    more = sum(counts.values()) - sum(each.nodes for each in listed)
    return NodeLabels(keys=keys, combinations=tuple(listed), more=more)


def _count_bytes(model: NodeLabels | LabelCombination) -> int:
    return len(model.model_dump_json(by_alias=True).encode())
