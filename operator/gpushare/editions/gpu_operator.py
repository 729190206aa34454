"""What the labels of NVIDIA's GPU Operator say of a node, and what a user does about it."""

from collections.abc import Sequence

from gpushare.api.k8s.node import Node

_SHOWN = 3
"""Of several labels that say the same."""


def describe_mig(node: Node) -> str:
    """Describe that the node's cards are split into MIG devices; empty where they are not."""
    if not node.offers_mig:
        return ""
    return (
        "The node offers MIG devices (nvidia.com/mig-*, nvidia.com/mig.config) and is not changed. "
        "Exclude it (spec.nodes.exclude), or disable MIG"
        f"{_advise_left_over(node, node.mig_labels)}"
    )


def describe_maintenance(node: Node) -> str:
    """Describe the GPU Operator's work on the node; empty where there is none."""
    at_work = node.maintenance_labels
    if not at_work:
        return ""
    shown = ", ".join(f"{key}={node.labels[key]}" for key in at_work[:_SHOWN])
    return (
        f"The GPU Operator is at work on the node ({shown}). The change waits until these labels "
        f"say that it is done{_advise_left_over(node, at_work)}"
    )


def _advise_left_over(node: Node, labels: Sequence[str]) -> str:
    """Tell how a user removes labels of a GPU Operator that is gone: nothing on a node shows that,
    since it may be restarting, so they count until a user removes them."""
    if not labels:
        return ""
    removed = " ".join(f"{key}-" for key in labels)
    return f". If the GPU Operator was removed, run `kubectl label node {node.name} {removed}`"
