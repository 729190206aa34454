"""Converts a node into what it would be as a member of a pool."""

from dataclasses import replace

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.api.pool import Pool
from gpushare.core.capacity.card_memory import read_card_memory
from gpushare.editions.edition import Mode
from gpushare.editions.registry import EDITIONS, find_schedule, settled_labels

_WHOLE = (names.RESOURCE_WHOLE_GPU, names.RESOURCE_TOPOLOGY_GPU)


def convert_node(node: Node, pool: Pool, mode: Mode, unit: str) -> Node:
    """Convert a node into what it is as a member of `pool`, in this `mode`."""
    edition = EDITIONS[pool.spec.edition]
    dropped = {names.LABEL_POOL, names.LABEL_PLACEMENT, names.LABEL_ISOLATION_VERIFIED}
    kept = {key: v for key, v in node.labels.items() if key not in dropped | edition.labels}
    amounts = dict(node.allocatable)
    before = find_schedule(edition.edition, node.labels)
    if before != pool.spec.schedule or not node.allocatable.get(mode.resource):
        amounts = _offer(node, mode, unit)
    capacity = {**node.capacity, **amounts}
    return replace(
        node,
        labels={**kept, **settled_labels(pool.name, pool.spec)},
        allocatable=amounts,
        capacity={key: n for key, n in capacity.items() if n or key in amounts},
        gpu_count=_count_cards(node) if names.RESOURCE_GPU_MEMORY in amounts else node.gpu_count,
        # The cordon of a change ends with it.
        unschedulable=node.unschedulable and not node.owns_cordon,
    )


def _offer(node: Node, mode: Mode, unit: str) -> dict[str, int]:
    """Return the GPU resources that the node offers in a mode that it is not in yet; without those
    of which the amount is unknown."""
    others = {key: n for key, n in node.allocatable.items() if key not in names.GPU_RESOURCES}
    expected = EDITIONS[mode.edition].find_expected_state(node, mode)[1]
    cards = _count_cards(node)
    memory = None if node.offers_mig else read_card_memory(node, unit)
    known = {
        names.RESOURCE_GPU_MEMORY: cards * (memory or 0),
        names.RESOURCE_GPU_CORE: cards * 100,
        **dict.fromkeys(_WHOLE, cards),
        **expected,
    }
    offered = {resource: known.get(resource, 0) for resource in mode.resources}
    # Time slices of cards whose number is unknown.
    if mode.config and mode.resource not in expected:
        offered = {}
    return {**others, **{resource: n for resource, n in offered.items() if n}}


def _count_cards(node: Node) -> int:
    label = node.labels.get(names.LABEL_CARDS, "")
    whole = (node.allocatable.get(resource, 0) for resource in _WHOLE)
    return node.gpu_count or (int(label) if label.isdecimal() else 0) or max(whole)
