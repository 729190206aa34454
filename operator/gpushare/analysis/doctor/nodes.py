"""Finds what is wrong with nodes, in a pool or not: one finding for all nodes with the same
problem, since `explain node` shows all of one node."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpushare import names
from gpushare.analysis.finding import Finding, FindingCode, look_up, report
from gpushare.analysis.node_findings import (
    group_by_code,
    judge_node,
    list_switches,
    name_node,
)
from gpushare.analysis.program_name import name_command
from gpushare.api.k8s.node import Node
from gpushare.api.pool import Schedule
from gpushare.core.capacity.node_capacity import observe_node_capacity, tell_unit
from gpushare.core.planner.planner import Planner
from gpushare.core.snapshot.cluster import ClusterSnapshot, build_node_context
from gpushare.core.snapshot.node import ReconcileContext
from gpushare.editions.plugin_daemonsets import PluginDaemonSets
from gpushare.editions.registry import EDITIONS, find_edition, find_schedule
from gpushare.names import NOT_TAKEN, Reason

_OTHER_STACKS = frozenset({Reason.OTHER_STACK, Reason.COMPETING_STACKS})
_SERVE = frozenset(
    {FindingCode.STATIC_POD, FindingCode.NOT_ECS, FindingCode.CONTAINER_OS}
    | {FindingCode.WITHOUT_CARD, FindingCode.UNREQUESTED_CARDS}
    | {FindingCode.ALL_DEVICES, FindingCode.UNKNOWN_PLUGIN}
)
"""Findings of nodes that nevertheless serve what their labels say."""


def judge_nodes(
    snapshot: ClusterSnapshot, planner: Planner, ctx: ReconcileContext, *, knows_pools: bool
) -> Iterator[Finding]:
    """Find what is wrong on nodes for which `planner` has planned: for none where the pools are
    unknown."""
    pools = {pool.name: pool for pool in snapshot.pools}
    planned = {
        name: (pools[pool], plan)
        for pool, pool_plans in planner.plans_by_pool.items()
        for name, plan in pool_plans.plans.items()
        if pool in pools and plan.reason not in NOT_TAKEN
    }
    found: list[Finding] = []
    labelled: list[Node] = []
    serving = 0
    for name, node in sorted(snapshot.nodes.items()):
        pool, plan = planned.get(name, (None, None))
        told = judge_node(build_node_context(snapshot, name), pool, plan, ctx)
        found += map(_lead_to_node, told)
        if find_edition(node.labels) is not None or (
            pool is not None and EDITIONS[pool.spec.edition].switch in node.labels
        ):
            labelled.append(node)
            serving += _SERVE.issuperset(each.code for each in told)
        if pool is None and knows_pools and _shares(node):
            said = f"The node has {list_switches(node)}, but no pool selects it"
            adopt = name_command("adopt")
            remedy = f"To get the pools that describe such nodes, run: {adopt}"
            found.append(report(FindingCode.LABELLED_MANUALLY, name_node(node), said, remedy))
    yield from group_by_code(found)
    yield from judge_units(labelled)
    is_others = any(each.code in _OTHER_STACKS for each in found)
    if not is_others and not any(map(_is_shared, snapshot.nodes.values())):
        yield report(
            FindingCode.NOTHING_SHARED, "nodes", f"None of {len(snapshot.nodes)} nodes shares GPUs"
        )
    if serving:
        said = f"{serving} of {len(labelled)} labelled nodes serve the mode of their labels"
        yield report(FindingCode.PLUGINS_SERVE, "nodes", said)


def _lead_to_node(finding: Finding) -> Finding:
    """Add the command that shows all of its node, after the remedy for its code."""
    more = look_up(finding.code) if isinstance(finding.code, Reason) else finding.remedy
    command = name_command(f"explain {finding.object}")
    return replace(finding, remedy=f"{more}. For details, run: {command}")


def _shares(node: Node) -> bool:
    """Tell whether a node's labels share its cards, rather than give them out whole."""
    edition = find_edition(node.labels)
    whole = (Schedule.DEFAULT, Schedule.DISABLED)
    return edition is not None and find_schedule(edition, node.labels) not in whole


def _is_shared(node: Node) -> bool:
    """Tell whether a node's cards are shared: by its labels, or by GPU feature discovery's."""
    return _shares(node) or node.labels.get(names.LABEL_REPLICAS, "1") not in ("0", "1")


def judge_units(nodes: Sequence[Node]) -> Iterator[Finding]:
    """Check in which unit the plugins count memory."""
    by_unit: dict[str, list[str]] = {}
    for node in nodes:
        if card := observe_node_capacity(node, ()).card_total:
            by_unit.setdefault(tell_unit(card), []).append(node.name)
    if len(by_unit) > 1:
        counts = " and ".join(
            f"{unit} (nodes: {len(found)}, for example {found[0]})"
            for unit, found in sorted(by_unit.items())
        )
        told = f"Device plugins count GPU memory in {counts}"
        remedy = "Run all device plugins with the same --memory-unit, and restart the changed ones"
        yield report(FindingCode.UNITS_MIXED, "nodes", told, remedy)
    elif "MiB" in by_unit:
        told = f"The device plugins of all {len(by_unit['MiB'])} nodes count GPU memory in MiB"
        remedy = "Use --memory-unit=GiB, the vendor's default"
        yield report(FindingCode.UNIT_IS_MIB, "nodes", told, remedy)


def judge_priority(plugins: PluginDaemonSets) -> Iterator[Finding]:
    """Check that the vendor's plugins have a system priority."""
    if found := plugins.list_evictable():
        yield report(
            FindingCode.PLUGINS_EVICTABLE,
            "plugins",
            f"{', '.join(found)}: the pods lack priorityClassName system-node-critical. A node "
            "under pressure evicts them, and then offers no GPU memory",
            "Set it while the pools are paused, since it restarts the pods (docs/ack.md#priority)",
        )
