"""`gpushare inspect --pools`: what the vendors' plugins lack."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from gpushare.api.pool import UnreadablePool
from gpushare.api.pruned.cluster import Cluster, Kind
from gpushare.cli.cluster.access import Access, check_namespace
from gpushare.cli.cluster.basis import UNHEALTHY, build_unread_lines, describe_unread
from gpushare.cli.cluster.snapshot import observe_pools
from gpushare.cli.output.answer import Answer, Line, Styled, lay_out, lay_out_section
from gpushare.cli.output.facts import (
    describe_capacity,
    describe_card,
    describe_change,
    describe_isolation,
    describe_waiting,
    tell_allocated,
)
from gpushare.core.analysis.inspect.pools import (
    Card,
    PoolCards,
    PoolNode,
    PoolsView,
    Waiting,
    view_pools,
)
from gpushare.core.snapshot.actions import NodeState

Json = dict[str, Any]

_LACKS = {Kind.CONFIGMAPS: UNHEALTHY}
BAR = 20
"""Characters of a full bar."""


def inspect_pools(access: Access, namespace: str | None) -> Answer:
    """The answer of `inspect --pools`; `namespace`: of the pods that wait, only those in it."""
    cluster = access.read(*Kind)
    check_namespace(cluster, namespace)
    seen = observe_pools(cluster)
    setup, unbound = seen.known.setup, seen.unbound
    view = view_pools(seen.snapshot, setup, unbound, seen.opted_out, cluster.taken_at)
    waiting = (w for w in view.waiting if namespace is None or w.pod.namespace == namespace)
    shown = replace(view, waiting=tuple(waiting))

    def build(wide: bool) -> list[Line]:
        page = _build_page(shown, seen.unreadable, wide=wide)
        return [*page, *build_unread_lines(cluster, _LACKS, wide=wide)]

    return Answer(describe_pools(shown, seen.unreadable, cluster), build)


# As data.


def describe_pools(view: PoolsView, unreadable: Sequence[UnreadablePool], cluster: Cluster) -> Json:
    """All of it; `unreadable` are pools of `cluster` whose spec can't be read."""
    return {
        "pools": [_describe_pool(pool) for pool in view.pools],
        "unreadable": [
            {"name": pool.name, "part": pool.part, "error": pool.error} for pool in unreadable
        ],
        "unit": view.unit,
        "waiting": [describe_waiting(each) for each in view.waiting],
        "unread": describe_unread(cluster, _LACKS),
    }


def _describe_pool(view: PoolCards) -> Json:
    capacity = view.capacity
    return {
        "name": view.pool.name,
        "edition": str(view.pool.spec.edition),
        "schedule": str(view.pool.spec.schedule),
        "nodesReady": view.ready,
        **describe_capacity(capacity),
        "freePods": capacity.free_pods,
        "nodes": [_describe_node(node) for node in view.nodes],
    }


def _describe_node(node: PoolNode) -> Json:
    return {
        "name": node.name,
        "state": str(node.plan.state),
        "reason": str(node.plan.reason),
        "message": node.plan.message,
        "takesPods": node.takes_pods,
        "cordoned": node.cordoned,
        "modeByLabels": node.labelled or None,
        "modeApplied": None if node.records.applied is None else str(node.records.applied.schedule),
        "change": describe_change(node.records.change, node.plan),
        "isolation": describe_isolation(node.isolation),
        "cards": [describe_card(card) for card in node.cards],
    }


# For people.


def _build_page(
    view: PoolsView, unreadable: Sequence[UnreadablePool], *, wide: bool
) -> Iterator[Line]:
    if not view.pools and not unreadable:
        yield ("There are no pools.",)
    for number, pool in enumerate(view.pools):
        if number:
            yield ()
        yield from _build_pool(pool, wide=wide)
    for lost in unreadable:
        yield ()
        yield (Styled(lost.name, "bold"), f"  its {lost.part} can't be read: {lost.error}")
    if view.waiting:
        rows = [_build_waiting(each) for each in view.waiting]
        header = ("NAMESPACE", "POD", f"GPU-MEM({view.unit})", "POOL", "REASON", "WHY")
        yield from lay_out_section("Pods that wait", header, rows)


def _build_pool(view: PoolCards, *, wide: bool) -> Iterator[Line]:
    capacity = view.capacity
    yield (
        Styled(view.pool.name, "bold"),
        f"  {view.pool.spec.schedule}, {view.ready}/{len(view.nodes)} nodes ready, "
        f"{capacity.gpus} GPUs, {capacity.memory_allocated}/{capacity.memory_total} GiB allocated, "
        f"largest free block {capacity.largest_free_block} GiB, "
        f"stranded {capacity.stranded_memory} GiB",
    )
    rows: list[Line] = []
    for node in view.nodes:
        note = _note(node)
        for place, card in enumerate(node.cards):
            name, said = (node.name, note) if place == 0 else ("", Styled(""))
            row: Line = (name, str(card.index), _draw_bar(card), tell_allocated(card), said)
            rows.append((*row, ", ".join(card.pods)) if wide else row)
        if not node.cards:
            row = (node.name, "-", "", "-", note)
            rows.append((*row, "") if wide else row)
    if rows:
        header = ["NODE", "GPU", "USED", f"ALLOCATED({capacity.unit})", "STATE"]
        yield from lay_out([*header, "PODS"] if wide else header, rows, indent=2)


def _note(node: PoolNode) -> Styled:
    plan = node.plan
    if plan.state is not NodeState.READY:
        failed = plan.state in (NodeState.FAILED, NodeState.BLOCKED)
        return Styled(str(plan.reason), "red" if failed else "yellow")
    if plan.warns:
        return Styled(str(plan.reason), "yellow")
    return Styled("ready", "green") if node.takes_pods else Styled("takes no pods", "yellow")


def _draw_bar(card: Card) -> Styled:
    """A full bar is a full card; any allocation at all shows."""
    if not card.total:
        return Styled("?" * BAR, "red")
    filled = min(-(-card.allocated * BAR // card.total), BAR)
    colour = "red" if card.is_overcommitted or card.is_unhealthy else "cyan"
    return Styled("#" * filled + "." * (BAR - filled), colour)


def _build_waiting(waiting: Waiting) -> Line:
    pod = waiting.pod
    pools = " or ".join(pod.pools) or "-"
    reason = Styled(str(waiting.why.reason), "yellow")
    memory = str(pod.gpu_memory or "-")
    return (pod.namespace, pod.name, memory, pools, reason, waiting.why.message)
