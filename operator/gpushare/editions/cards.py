"""Detects whether a node has NVIDIA cards, and which nodes are never changed.

A device plugin shows cards only once it runs, and the plugins of the editions Basic and OpenSource
run only on nodes with their label, which the operator writes. So other signs count too. For nodes
that may have none of them, `spec.nodes.cards: Assumed` declares that all of a pool's nodes have
cards.
"""

import re
from collections.abc import Mapping

from gpushare import names
from gpushare.api.k8s.node import Node

_VENDOR = "nvidia"
_ABSENT = frozenset({"", "0", "false", "no", "none", "off"})
"""Values of labels that stand for no card, in lower case."""

_DISCOVERED = frozenset({"nvidia.com/gpu.present", "nvidia.com/gpu.count"})
"""Labels of GPU feature discovery, and of the GPU Operator on nodes with one of NFD's labels below
(NVIDIA/gpu-operator, controllers/state_manager.go)."""
_INVENTORY = "aliyun.accelerator/nvidia_"
"""Prefix of labels that ACK sets when a GPU node joins (vendor's page on labels of GPU nodes)."""
_VENDOR_LABELS = frozenset(
    {
        # GKE's page on GPUs; TPU nodes have another key.
        "cloud.google.com/gke-accelerator",
        # Cluster autoscaler's README for AWS; Karpenter's page on labels, and EKS Auto Mode's.
        "k8s.amazonaws.com/accelerator",
        "karpenter.k8s.aws/instance-gpu-manufacturer",
        "eks.amazonaws.com/instance-gpu-manufacturer",
        # AKS's page on labels that it reserves, and Karpenter's provider for Azure.
        "kubernetes.azure.com/accelerator",
        "karpenter.azure.com/sku-gpu-manufacturer",
        # Before AKS had its own; also on Huawei Cloud CCE.
        "accelerator",
    }
)
"""Labels of clouds and autoscalers that name a card or its vendor; values for AMD do not count."""
_PCI = re.compile(
    r"feature\.node\.kubernetes\.io/pci-(03[0-9a-f]{2}_)?10de(_[0-9a-f]{4})*\.present"
)
"""Labels of NFD for PCI devices of NVIDIA. An administrator chooses which of class, vendor, device
and subsystem are in the name; `03` is the class of display controllers (NFD, "Feature labels")."""

_INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_INSTANCE_TYPES: tuple[tuple[str, re.Pattern[str]], ...] = (
    # "Instance family" of Alibaba Cloud ECS: whole cards, bare metal, clusters, parts of a card.
    # The families g, ga and ebmg have no card, or none of NVIDIA's.
    ("", re.compile(r"ecs\.(gn|vgn|sgn|ebmgn|sccgn)\d")),
    # "Accelerated computing" of Amazon EC2, without g4ad, which has AMD's. Elsewhere such names may
    # be any machine's.
    ("aws:", re.compile(r"(?!g4ad)(p[2-9]|g[3-9]|gr[6-9])[a-z]*(-[a-z0-9]+)?\.")),
    # "GPU machine types" of Google Compute Engine; those of N1 are shown by GKE's label.
    ("gce:", re.compile(r"(a[2-4]x?|g[24])-")),
    # "GPU accelerated" of Azure's sizes, without those with AMD's: NVv4, NVads V710, ND MI300X, NG.
    ("azure:", re.compile(r"Standard_N[CDV](?!\d+as_v4)(?!.*_(MI\d+|V710))")),
)
"""Instance types with cards, by the prefix of `spec.providerID`."""

_VIRTUAL_LABELS: Mapping[str, str] = {
    # Virtual Kubelet's own; also on ACK's virtual nodes and AKS's.
    "type": "virtual-kubelet",
    # EKS's page on Fargate: no GPU there.
    "eks.amazonaws.com/compute-type": "fargate",
}
_VIRTUAL_TAINTS = frozenset({"virtual-kubelet.io/provider", "eks.tke.cloud.tencent.com/eklet"})
"""Taints of ACK's and AKS's virtual nodes, and of Tencent Cloud's super nodes."""


def find_card_sign(node: Node, initial_values: Mapping[str, str | None] | None = None) -> str:
    """Find a sign that `node` has a card; empty where there is none.

    A mode's label counts only if a user wrote it: for a label of ours, its value of
    `initial_values` counts, from before it was ours.
    """
    if node.capacity:
        return f"resource {min(node.capacity)}"
    if sign := find_machine_sign(node):
        return sign
    for key in sorted(names.MODE_LABELS & node.labels.keys()):
        is_ours = key in node.owned and key not in node.managers
        written = (initial_values or {}).get(key) if is_ours else node.labels[key]
        if written is not None and written.lower() not in _ABSENT:
            return f"label {key}={written}"
    return ""


def find_machine_sign(node: Node) -> str:
    """Find a sign of a card on `node` that needs neither a device plugin nor a mode's label; empty
    where there is none."""
    for key, value in node.labels.items():
        if _is_card_label(key, value.lower()):
            return f"label {key}={value}"
    instance_type = node.labels.get(_INSTANCE_TYPE, "")
    for provider, pattern in _INSTANCE_TYPES:
        if node.provider_id.startswith(provider) and pattern.match(instance_type):
            return f"label {_INSTANCE_TYPE}={instance_type}"
    return ""


def may_show_card(key: str) -> bool:
    """Tell whether a label may show a card, besides the labels of modes and NVIDIA's labels."""
    if key.startswith((_INVENTORY, "feature.node.kubernetes.io/pci-")):
        return True
    return (
        key in _VENDOR_LABELS or key in _VIRTUAL_LABELS or key in (_INSTANCE_TYPE, names.LABEL_OS)
    )


def describe_unfit(node: Node) -> str:
    """Describe why no pool may change `node`, whatever a user declares; empty where one may.

    Device plugins run on Linux only. A virtual node stands for machines of a cloud.
    """
    system = node.labels.get(names.LABEL_OS) or node.operating_system
    if system not in ("", "linux"):
        return f"its operating system is {system}"
    for key, value in _VIRTUAL_LABELS.items():
        if node.labels.get(key) == value:
            return f"it is virtual (label {key}={value})"
    for taint in node.taints:
        if taint.key in _VIRTUAL_TAINTS:
            return f"it is virtual (taint {taint})"
    return ""


def describe_mig(node: Node) -> str:
    """Describe that the node's cards are split into MIG devices; empty where they are not."""
    if not node.offers_mig:
        return ""
    left_over = ""
    if node.mig_labels:
        removed = " ".join(f"{key}-" for key in node.mig_labels)
        left_over = (
            f". If the GPU Operator was removed, run `kubectl label node {node.name} {removed}`"
        )
    return (
        "The node offers MIG devices (nvidia.com/mig-*, nvidia.com/mig.config) and is not changed. "
        f"Exclude it (spec.nodes.exclude), or disable MIG{left_over}"
    )


def _is_card_label(key: str, value: str) -> bool:
    if key in _VENDOR_LABELS:
        return value.startswith(_VENDOR)
    is_read = key in _DISCOVERED or key.startswith(_INVENTORY) or _PCI.fullmatch(key)
    return bool(is_read) and value not in _ABSENT
