"""Reads how much memory a card of a node has, also where the node does not share it yet."""

import re

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.core.capacity.node_capacity import MIB_PER_GIB, observe_node_capacity, tell_unit

_MIB = re.compile(r"(\d{1,9})(?:MiB)?", re.ASCII)


def read_card_memory(node: Node, unit: str) -> int | None:
    """Read the memory of each card of `node` in `unit`, GiB or MiB; None where it is unknown.

    A node that shares memory offers what its plugin counts; of others the labels tell: that of the
    vendor's clusters, or that of NVIDIA's GPU feature discovery. The plugin counts whole GiB, or
    MiB: then a card has more than 1024.
    """
    per_gib = MIB_PER_GIB if unit == "MiB" else 1
    if offered := observe_node_capacity(node, ()).card_total:
        return offered * per_gib // (MIB_PER_GIB if tell_unit(offered) == "MiB" else 1)
    for key in (names.LABEL_CARD_MEMORY, names.LABEL_CARD_MEMORY_NVIDIA):
        if found := _MIB.fullmatch(node.labels.get(key, "")):
            return int(found[1]) * per_gib // MIB_PER_GIB or None
    return None
