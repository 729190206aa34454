"""Builds the answer of `gpushare inspect --pools`, which the vendors' plugins lack."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from gpushare.analysis.inspect.pools import (
    OutsideNode,
    PoolNode,
    PoolsView,
    view_pools,
)
from gpushare.api.pool import UnreadablePool
from gpushare.api.pruned.cluster import STATE_KINDS, Cluster
from gpushare.cli.cluster.access import Access, check_namespace
from gpushare.cli.cluster.basis import OF_STACKS, build_unread_lines, describe_unread
from gpushare.cli.cluster.snapshot import observe_pools
from gpushare.cli.output.answer import Answer, Line, Styled
from gpushare.cli.output.facts import (
    describe_allocated,
    describe_capacity,
    describe_card,
    describe_change,
    describe_isolation,
    describe_plan,
    describe_waiting,
)
from gpushare.cli.output.tables import build_section, build_table
from gpushare.core.snapshot.actions import READY_WITH_WARNING, NodeState

Json = dict[str, Any]

BAR = 20
"""Characters of a full bar."""


def inspect_pools(access: Access, namespace: str | None) -> Answer:
    """Show the pools; of the pods that wait, only those in `namespace`, if given."""
    cluster = access.read(*STATE_KINDS)
    check_namespace(cluster, namespace)
    seen = observe_pools(cluster)
    view = view_pools(seen, cluster.taken_at)
    waiting = (w for w in view.waiting if namespace is None or w.pod.namespace == namespace)
    view = replace(view, waiting=tuple(waiting))
    return Answer(describe_pools(view, seen.unreadable, cluster), _build_page)


def describe_pools(view: PoolsView, unreadable: Sequence[UnreadablePool], cluster: Cluster) -> Json:
    """Describe the pools; `unreadable` are pools of `cluster` whose spec can't be read."""
    return {
        "pools": [
            {
                "name": pool.pool.name,
                "edition": str(pool.pool.spec.edition),
                "schedule": str(pool.pool.spec.schedule),
                "nodesReady": pool.ready,
                **describe_capacity(pool.capacity),
                "freePods": pool.capacity.free_pods,
                "nodes": [_describe_node(node) for node in pool.nodes],
            }
            for pool in view.pools
        ],
        "outside": [_describe_outside(node) for node in view.outside],
        "unreadable": [
            {"name": each.name, "part": each.part, "error": each.error} for each in unreadable
        ],
        "unit": view.unit,
        "waiting": [describe_waiting(each) for each in view.waiting],
        "unread": describe_unread(cluster, OF_STACKS),
    }


def _describe_outside(view: OutsideNode) -> Json:
    stacks = view.stacks
    return {
        "name": view.node.name,
        "takesPods": view.takes_pods,
        "cordoned": view.node.unschedulable,
        "reason": None if stacks is None else str(stacks.reason),
        "message": None if stacks is None else stacks.message,
        "cards": [describe_card(card) for card in view.cards],
    }


def _describe_node(view: PoolNode) -> Json:
    applied = view.records.applied
    return {
        "name": view.node.name,
        **describe_plan(view.plan),
        "takesPods": view.takes_pods,
        "cordoned": view.node.unschedulable,
        "untoleratedTaints": [str(taint) for taint in view.taints],
        "modeByLabels": view.labelled or None,
        "modeApplied": None if applied is None else str(applied.schedule),
        "change": describe_change(view.records.change, view.plan),
        "isolation": describe_isolation(view.isolation),
        "resources": [
            {"name": name, "allocatable": view.node.allocatable[name], "requested": requested}
            for name, requested in view.requested.items()
        ],
        "cards": [describe_card(card) for card in view.cards],
    }


def _build_page(document: Json, wide: bool) -> Iterator[Line]:
    if not document["pools"] and not document["unreadable"]:
        yield ("No pools found",)
    for number, pool in enumerate(document["pools"]):
        if number:
            yield ()
        yield from _build_pool(pool, wide=wide)
    for lost in document["unreadable"]:
        yield ()
        yield (Styled(lost["name"], "bold"), f"  its {lost['part']} can't be read: {lost['error']}")
    others: dict[str, list[Json]] = {}
    for each in filter(lambda each: each["reason"], document["outside"]):
        others.setdefault(each["reason"], []).append(each)
    columns = "REASON:reason,NODES:nodes,FOR EXAMPLE:name,WHY:message"
    rows = [{**alike[0], "nodes": len(alike)} for alike in others.values()]
    yield from build_section("Nodes in no pool, with another stack", columns, rows)
    waiting = [
        {**each, "requested": each["requested"] or None, "pools": " or ".join(each["pools"])}
        for each in document["waiting"]
    ]
    columns = f"GPU-MEM({document['unit']}):requested,POOL:pools"
    yield from build_section(
        "Pods that wait",
        f"NAMESPACE:namespace,POD:name,{columns},REASON:reason,WHY:message",
        [each for each in waiting if not each["gates"]],
        {"reason": "yellow"},
    )
    yield from build_section(
        "Pods behind scheduling gates, which are no demand yet",
        f"NAMESPACE:namespace,PODS:pods,{columns},GATES:gates",
        _sum_gated(each for each in waiting if each["gates"]),
    )
    yield from build_unread_lines(document["unread"], wide=wide)


def _sum_gated(gated: Iterable[Json]) -> list[Json]:
    """Sum the pods of a namespace, for the same pools and behind the same gates: there may be
    thousands in a queue."""
    sums: dict[tuple[str, ...], Json] = {}
    for each in gated:
        row = {**each, "gates": ", ".join(each["gates"]), "requested": 0, "pods": 0}
        alike = sums.setdefault((each["namespace"], each["pools"], row["gates"]), row)
        alike["pods"] += 1
        alike["requested"] += each["requested"] or 0
    return list(sums.values())


def _build_pool(pool: Json, *, wide: bool) -> Iterator[Line]:
    nodes = pool["nodes"]
    yield (
        Styled(pool["name"], "bold"),
        f"  {pool['schedule']}, {pool['nodesReady']}/{len(nodes)} nodes ready, "
        f"{pool['gpus']} GPUs, {pool['memoryAllocatedGiB']}/{pool['memoryTotalGiB']} GiB "
        f"allocated, largest free block {pool['largestFreeBlockGiB']} GiB, "
        f"stranded {pool['strandedMemoryGiB']} GiB",
    )
    columns = f"NODE:node,GPU:gpu,USED:used,ALLOCATED({pool['unit']}):allocated,STATE:state"
    columns += ",PODS:pods" if wide else ""
    yield from build_table(columns, (row for node in nodes for row in _list_cards(node)))


def _list_cards(node: Json) -> Iterator[Json]:
    """Yield a row for each card, of which the first names the node and its state."""
    head: Json = {"node": node["name"], "state": _note(node)}
    for card in node["cards"]:
        row = {"gpu": card["index"], "used": _draw_bar(card), "allocated": describe_allocated(card)}
        yield {**head, **row, "pods": ", ".join(card["pods"]) or " "}
        head = {"node": " ", "state": " "}
    if not node["cards"]:
        told = [f"{r['requested']}/{r['allocatable']} {r['name']}" for r in node["resources"]]
        yield {**head, "used": " ", "allocated": ", ".join(told) or None, "pods": " "}


def _note(node: Json) -> Styled:
    noted = _note_state(node)
    if not node["untoleratedTaints"]:
        return noted
    return Styled(f"{noted.text}, taint {node['untoleratedTaints'][0]}", noted.style)


def _note_state(node: Json) -> Styled:
    state, reason = node["state"], node["reason"]
    if state != NodeState.READY:
        failed = state in (NodeState.FAILED, NodeState.BLOCKED)
        return Styled(reason, "red" if failed else "yellow")
    if reason in READY_WITH_WARNING:
        return Styled(reason, "yellow")
    return Styled("ready", "green") if node["takesPods"] else Styled("takes no pods", "yellow")


def _draw_bar(card: Json) -> Styled:
    """Draw a card's allocation as a bar, in which any allocation at all shows."""
    if not card["total"]:
        return Styled("?" * BAR, "red")
    filled = min(-(-card["allocated"] * BAR // card["total"]), BAR)
    colour = "red" if card["overcommitted"] or card["unhealthy"] else "cyan"
    return Styled("#" * filled + "." * (BAR - filled), colour)
