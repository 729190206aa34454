"""Carries out the planner's quiet writes in memory, to tell what becomes of a node after them.

They touch neither service nor plugin. Only once a node has its first labels and records is it
planned what else it needs. One pass is enough: a record that is written after that stands beside
the rest of the node's plan.
"""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.core.planner.decisions import NodeDecision
from gpushare.core.planner.planner import Planner
from gpushare.core.snapshot.actions import ApplyNode
from gpushare.core.snapshot.cluster import ClusterSnapshot


def write_quietly(
    planner: Planner,
    snapshot: ClusterSnapshot,
    decisions: Collection[NodeDecision],
    pools: Collection[str],
    now: datetime,
) -> tuple[ClusterSnapshot, Collection[NodeDecision]]:
    """Return `snapshot` after the quiet writes for these `pools`, and what is decided after them.

    `decisions` are what `planner`, which goes on from there, made of `snapshot`.
    """
    written = {
        action.node: _apply(action, node)
        for each in decisions
        if each.pool in pools
        and isinstance(action := each.plan.action, ApplyNode)
        # A change begins and ends with the cordon.
        and action.cordon is (node := snapshot.nodes[action.node]).owns_cordon
    }
    snapshot = replace(snapshot, nodes={**snapshot.nodes, **written})
    return snapshot, planner.update(snapshot, written.keys(), now).decisions


def _apply(action: ApplyNode, node: Node) -> Node:
    """Return the node as the API server would have it after a server-side apply with force."""
    dropped = (names.NODE_LABELS & node.owned) - action.labels.keys()
    kept = {key: value for key, value in node.labels.items() if key not in dropped}
    shared = {k: m for k, m in node.managers.items() if action.labels.get(k) == node.labels.get(k)}
    return replace(
        node,
        labels={**kept, **action.labels},
        annotations=dict(action.annotations),
        owned=frozenset(action.labels) | frozenset(action.annotations),
        managers=shared,
    )
