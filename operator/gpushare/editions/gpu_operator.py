"""Describes nodes with MIG devices, by labels of NVIDIA's GPU Operator."""

from gpushare.api.k8s.node import Node


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
