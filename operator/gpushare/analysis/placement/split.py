"""Converts a cluster into what it would be once the pools have all of their nodes in their mode."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from gpushare import names
from gpushare.analysis.migration.cards import observe_cards
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Pool
from gpushare.core.nodechange.blockers import find_blocking_pods
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.editions.edition import Mode
from gpushare.editions.registry import (
    EDITIONS,
    find_mode,
    find_schedule,
    find_transition,
    get_mode,
    settled_labels,
)

_WHOLE = (names.RESOURCE_WHOLE_GPU, names.RESOURCE_TOPOLOGY_GPU)


@dataclass(frozen=True, slots=True)
class NodeMove:
    """What it takes to have a node in a pool."""

    changes: bool
    """Whether its mode changes."""
    displaced: frozenset[str] = frozenset()
    """Pods that must be gone before, by UID."""


@dataclass(frozen=True, slots=True)
class Split:
    """A cluster once its pools are rolled out."""

    snapshot: ClusterSnapshot
    changes: int
    """Nodes whose mode changes."""
    displaced: frozenset[str]
    """Pods that must be gone before, by UID; they are not in the snapshot."""
    unknown: tuple[str, ...]
    """Nodes of which it is unknown what they will offer: they count as offering nothing."""


def roll_out(snapshot: ClusterSnapshot, members: Mapping[str, str], unit: str) -> Split:
    """Roll the pools out to the nodes that `members` says, by node."""
    pools = {pool.name: pool for pool in snapshot.pools if not pool.observes}
    nodes, unknown, moves = dict(snapshot.nodes), [], []
    for name, node in snapshot.nodes.items():
        pool = pools.get(members.get(name, ""))
        if pool is None:
            if name not in members:
                nodes[name] = release_node(node)
            continue
        mode = snapshot.plugin_daemonsets.resolve(get_mode(pool.spec.edition, pool.spec.schedule))
        moves.append(plan_move(node, snapshot.pods.get(name, ()), pool))
        nodes[name] = convert_node(node, pool, mode, unit)
        if mode.resource and not nodes[name].allocatable.get(mode.resource):
            unknown.append(name)
    displaced = frozenset[str]().union(*(move.displaced for move in moves))
    pods = {
        node: [pod for pod in pods if pod.uid not in displaced]
        for node, pods in snapshot.pods.items()
    }
    return Split(
        replace(snapshot, nodes=nodes, pods=pods),
        sum(move.changes for move in moves),
        displaced,
        tuple(sorted(unknown)),
    )


def plan_move(node: Node, pods: Iterable[Pod], pool: Pool) -> NodeMove:
    """Plan what it takes to have `node`, on which `pods` run, in `pool`: by the operator's own rule
    on the pods that hold a change up."""
    edition, to, pods = pool.spec.edition, pool.spec.schedule, list(pods)
    current = find_schedule(edition, node.labels)
    own = node.labels.get(names.LABEL_POOL, pool.name)
    displaced = {
        pod.uid
        for pod in pods
        if own != pool.name and pod.is_live and (names.LABEL_POOL, own) in pod.selects
    }
    if current != to and (before := find_mode(edition, current)) is not None:
        transition, after = find_transition(edition, current, to), get_mode(edition, to)
        blocked = find_blocking_pods(transition, before, after, pods)
        displaced |= {pod.uid for pod in blocked.pods} if blocked is not None else set()
    return NodeMove(current != to, frozenset(displaced))


def release_node(node: Node) -> Node:
    """Return a node that is in no pool: it keeps the labels of its mode."""
    ours = {names.LABEL_POOL, names.LABEL_ISOLATION_VERIFIED} & node.owned
    labels = {key: value for key, value in node.labels.items() if key not in ours}
    return replace(node, labels=labels) if ours else node


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
