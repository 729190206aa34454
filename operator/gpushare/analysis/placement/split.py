"""Converts a cluster into what it would be once the pools have all of their nodes in their mode."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Pool
from gpushare.core.nodechange.blockers import find_blocking_pods
from gpushare.core.placement.converted_node import convert_node
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.editions.registry import (
    find_mode,
    find_schedule,
    find_transition,
    get_mode,
)


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
