"""Orders the nodes of a rollout into waves, by asking the planner again and again.

Nodes whose change the planner begins are taken for done, and it is asked who is next. So budgets,
canaries, halts and names count as they will.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Pool, Schedule
from gpushare.core.planner.decisions import NodeDecision
from gpushare.core.planner.planner import Planner
from gpushare.core.records.applied_record import LastApplied
from gpushare.core.records.node_records import NodeRecords, extend_initial_values
from gpushare.core.snapshot.actions import NodePlan, NodeState
from gpushare.core.snapshot.cluster import ClusterSnapshot, build_node_context
from gpushare.editions.registry import EDITIONS, get_mode, settled_labels

MOST_ASKED = 20
"""Waves for which the planner is asked; those after are alike, and as large as the last."""


def order_waves(
    planner: Planner, snapshot: ClusterSnapshot, decisions: Collection[NodeDecision], now: datetime
) -> Mapping[str, int]:
    """Find the wave in which each node's change begins; nodes of unknown waves are left out.

    `decisions` are what `planner`, which is used up, made of `snapshot`. Nodes whose change is
    under way are in wave 0, and those of the first wave begin beside them.
    """
    waves: dict[str, int] = {}
    for decision in decisions:
        if decision.plan.facts.under_way and decision.plan.state is not NodeState.FAILED:
            waves[decision.plan.node] = 0
    ending = [each for each in decisions if each.plan.node in waves]
    last: dict[str, int] = {}
    wave = 0
    for _ in range(MOST_ASKED):
        begun = [each for each in decisions if _begins(each.plan) and each.plan.node not in waves]
        if not begun and not ending:
            break
        wave += bool(begun)
        waves |= dict.fromkeys((each.plan.node for each in begun), wave)
        last |= Counter(each.pool for each in begun)
        done = [*ending, *begun]
        snapshot, ending = _finish(planner, snapshot, done), []
        decisions = planner.update(snapshot, {each.plan.node for each in done}, now).decisions
    else:
        begins = {each.plan.node: each.pool for each in decisions if _begins(each.plan)}
        _number_rest(planner, begins, waves, wave, last)
    return waves


def _begins(plan: NodePlan) -> bool:
    return plan.started is not None and plan.action is not None


def _number_rest(
    planner: Planner,
    begins: Mapping[str, str],
    waves: dict[str, int],
    last: int,
    sizes: Mapping[str, int],
) -> None:
    """Add the nodes that begin next, each with its pool, and those that are queued to `waves`, as
    many to a wave as there were in the last."""
    for pool, size in sizes.items():
        next_ones = {node for node, its_pool in begins.items() if its_pool == pool}
        queued = set().union(*planner.pool_states[pool].queue.values())
        rest = sorted((queued | next_ones) - waves.keys())
        for place, node in enumerate(rest):
            waves[node] = last + 1 + place // size


def _finish(
    planner: Planner, snapshot: ClusterSnapshot, done: Iterable[NodeDecision]
) -> ClusterSnapshot:
    """Return `snapshot` once these nodes are what their pools want, or are released."""
    pools = {pool.name: pool for pool in snapshot.pools}
    nodes, pods = dict(snapshot.nodes), dict(snapshot.pods)
    for each in done:
        name = each.plan.node
        if name in planner.releases or each.pool not in pools:
            nodes[name] = _release(nodes[name])
            continue
        pool = pools[each.pool]
        mode = snapshot.plugin_daemonsets.resolve(get_mode(pool.spec.edition, pool.spec.schedule))
        pods[name] = tuple(_build_component(name, daemonset) for daemonset in mode.daemonsets)
        nodes[name] = _finish_member(snapshot, name, pool, each.plan)
    return replace(snapshot, nodes=nodes, pods=pods)


def _release(node: Node) -> Node:
    gone = {names.LABEL_POOL, names.LABEL_ISOLATION_VERIFIED}
    labels = {key: value for key, value in node.labels.items() if key not in gone}
    return replace(_uncordon(node), labels=labels, annotations={}, owned=frozenset())


def _finish_member(snapshot: ClusterSnapshot, name: str, pool: Pool, plan: NodePlan) -> Node:
    seen, wanted = build_node_context(snapshot, name).seen, settled_labels(pool.name, pool.spec)
    node = seen.node
    mode = snapshot.plugin_daemonsets.resolve(get_mode(pool.spec.edition, pool.spec.schedule))
    witness, amounts = EDITIONS[mode.edition].find_expected_state(node, mode)
    kept = {k: v for k, v in node.labels.items() if k not in names.NODE_LABELS & node.owned}
    applied = LastApplied(
        node_uid=node.uid,
        pool=pool.name,
        edition=mode.edition,
        schedule=mode.schedule,
        boot_id=node.boot_id,
        plugins={f"{mode.plugin}-{name}": 0} if mode.plugin else {},
        from_mode=None if plan.initializes else mode.schedule,
    )
    found = extend_initial_values(seen.records.initial_values, node, frozenset(wanted))
    annotations = NodeRecords(initial_values=found, applied=applied).annotations()
    offered = mode.resources
    if mode.schedule is Schedule.DEFAULT:
        offered = (names.RESOURCE_WHOLE_GPU,)
    allocatable = {**dict.fromkeys(offered, 1), **amounts}
    return replace(
        _uncordon(node),
        labels={**kept, **witness, **wanted},
        annotations=annotations,
        owned=frozenset(wanted) | frozenset(annotations),
        allocatable=allocatable,
        capacity=allocatable,
    )


def _uncordon(node: Node) -> Node:
    """Uncordon the node, unless a user cordoned it."""
    ours = node.owns_cordon
    return replace(node, unschedulable=node.unschedulable and not ours, owns_cordon=False)


def _build_component(node: str, daemonset: str) -> Pod:
    name, namespace = f"{daemonset}-{node}", names.PLUGIN_NAMESPACE
    return Pod(namespace, name, name, node=node, phase="Running", ready=True, daemonset=daemonset)
