"""Converts a cluster into what it would be once the pools have all of their nodes in their mode."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from gpushare import names
from gpushare.analysis.migration.cards import observe_cards
from gpushare.api.k8s.node import Node
from gpushare.api.pool import Pool
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.editions.edition import Mode
from gpushare.editions.registry import EDITIONS, find_schedule, get_mode, settled_labels

_WHOLE = (names.RESOURCE_WHOLE_GPU, names.RESOURCE_TOPOLOGY_GPU)


@dataclass(frozen=True, slots=True)
class Split:
    """A cluster once its pools are rolled out."""

    snapshot: ClusterSnapshot
    unknown: tuple[str, ...]
    """Nodes of which it is unknown what they will offer: they count as offering nothing."""


def roll_out(
    snapshot: ClusterSnapshot, members: Mapping[str, str], displaced: Collection[str], unit: str
) -> Split:
    """Roll the pools out to the nodes that `members` says, by node; the pods `displaced`, by
    `namespace/name`, are gone."""
    pools, nodes, unknown = {pool.name: pool for pool in snapshot.pools}, {}, []
    for name, node in snapshot.nodes.items():
        pool = pools.get(members.get(name, ""))
        if pool is not None and pool.observes:
            nodes[name] = node
            continue
        mode = None
        if pool is not None:
            mode = snapshot.plugin_daemonsets.resolve(
                get_mode(pool.spec.edition, pool.spec.schedule)
            )
        nodes[name] = converted = convert_node(node, pool, mode, unit)
        if mode is not None and mode.resource and not converted.allocatable.get(mode.resource):
            unknown.append(name)
    pods = {
        node: [pod for pod in pods if f"{pod.namespace}/{pod.name}" not in displaced]
        for node, pods in snapshot.pods.items()
    }
    return Split(replace(snapshot, nodes=nodes, pods=pods), tuple(sorted(unknown)))


def convert_node(node: Node, pool: Pool | None, mode: Mode | None, unit: str) -> Node:
    """Convert a node into what it is as a member of `pool` in this `mode`, or as one of none.

    A node that leaves its pool keeps the labels of its mode.
    """
    if pool is None or mode is None:
        ours = {names.LABEL_POOL, names.LABEL_ISOLATION_VERIFIED} & node.owned
        labels = {key: value for key, value in node.labels.items() if key not in ours}
        return replace(node, labels=labels) if ours else node
    edition = EDITIONS[pool.spec.edition]
    dropped = {names.LABEL_POOL, names.LABEL_PLACEMENT, names.LABEL_ISOLATION_VERIFIED}
    kept = {key: v for key, v in node.labels.items() if key not in dropped | edition.labels}
    amounts = dict(node.allocatable)
    before = find_schedule(edition.edition, node.labels)
    if before != mode.schedule or not node.allocatable.get(mode.resource):
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
    memory = next((each.memory for each in observe_cards([node], unit).nodes), None)
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
