"""Counts the labels of a pool's nodes, which admission compares with pods' node selectors.

Only a few keys are published, each combination of their values once: nodes of one node pool are
alike, so a pool of thousands of nodes has a few combinations.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

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

_Combination = tuple[tuple[str, str], ...]
"""Labels of a node, as pairs of key and value, in the order of the keys."""


@dataclass(slots=True)
class LabelSums:
    """The number of a pool's nodes with each combination of labels, updated node by node."""

    by_node: dict[str, _Combination] = field(default_factory=dict)
    counts: Counter[_Combination] = field(default_factory=Counter)
    _keys: tuple[str, ...] = ()
    _listed: NodeLabels | None = None

    def record(
        self, node: str, labels: Mapping[str, str] | None, keys: tuple[str, ...] = ()
    ) -> bool:
        """Record the node's `labels` of these `keys`; None: the node takes no pods.

        Return whether anything changed.
        """
        old, new = self.by_node.get(node), None
        if labels is not None:
            new = share(tuple([(key, labels[key]) for key in keys if key in labels]))
        if old == new:
            return False
        self._listed = None
        if old is not None:
            del self.by_node[node]
            self.counts[old] -= 1
            if not self.counts[old]:
                del self.counts[old]
        if new is not None:
            self.by_node[node], self._keys = new, keys
            self.counts[new] += 1
        return True

    def list_combinations(self) -> NodeLabels | None:
        """List the combinations, the one of most nodes first; None where no node takes pods."""
        if self._listed is None and self.by_node:
            self._listed = _list(self.counts, self._keys)
        return self._listed


def _list(counts: Mapping[_Combination, int], keys: tuple[str, ...]) -> NodeLabels:
    listed: list[LabelCombination] = []
    room = MAX_BYTES - _count_bytes(NodeLabels(keys=keys))
    for combination, nodes in sorted(counts.items(), key=lambda each: (-each[1], each[0])):
        found = LabelCombination(nodes=nodes, labels=dict(combination))
        room -= _count_bytes(found) + len(",")
        if len(listed) == MAX_COMBINATIONS or room < 0:
            break
        listed.append(found)
    more = sum(counts.values()) - sum(each.nodes for each in listed)
    return NodeLabels(keys=keys, combinations=tuple(listed), more=more)


def _count_bytes(model: NodeLabels | LabelCombination) -> int:
    return len(model.model_dump_json(by_alias=True).encode())
