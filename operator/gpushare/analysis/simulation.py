"""Simulates the planner's decisions once its quiet writes are carried out.

One pass of it is not enough to tell what becomes of a node: what is done once the first labels and
records are written is decided only then. Quiet writes touch neither service nor plugin; here they
are carried out in memory, and it is asked again until it has none left.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.core.planner.decisions import NodeDecision
from gpushare.core.planner.planner import Planner
from gpushare.core.snapshot.actions import ApplyNode
from gpushare.core.snapshot.cluster import ClusterSnapshot

_PASSES = 5
"""More than a node at rest needs: labels and records, and what is noted after that."""


def settle(
    planner: Planner,
    snapshot: ClusterSnapshot,
    decisions: Collection[NodeDecision],
    pools: Collection[str],
    now: datetime,
) -> tuple[ClusterSnapshot, Collection[NodeDecision]]:
    """Return `snapshot` after the quiet writes for these `pools`, and the decisions about it then.

    `decisions` are what `planner`, which goes on from there, made of `snapshot`.
    """
    for _ in range(_PASSES):
        quiet = _list_quiet(decisions, pools, snapshot.nodes)
        if not quiet:
            break
        written = {each.node: _apply(each, snapshot.nodes[each.node]) for each in quiet}
        snapshot = replace(snapshot, nodes={**snapshot.nodes, **written})
        decisions = planner.update(snapshot, written.keys(), now).decisions
    return snapshot, decisions


def _list_quiet(
    decisions: Collection[NodeDecision], pools: Collection[str], nodes: Mapping[str, Node]
) -> list[ApplyNode]:
    """List writes that leave the cordon as it is; a change begins with its cordon."""
    return [
        action
        for each in decisions
        if each.pool in pools
        and isinstance(action := each.plan.action, ApplyNode)
        and action.cordon is nodes[action.node].owns_cordon
    ]


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
