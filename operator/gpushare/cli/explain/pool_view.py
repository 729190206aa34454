"""`gpushare explain pool`: its conditions, what its nodes wait for, and who waits for it."""

from collections.abc import Iterator, Sequence
from typing import Any

from gpushare import names
from gpushare.api.pool import UnreadablePool
from gpushare.api.pruned.cluster import Cluster, Kind, Subject
from gpushare.cli.cluster.access import Access
from gpushare.cli.cluster.basis import UNHEALTHY, Basis, build_answer
from gpushare.cli.cluster.snapshot import observe_pools
from gpushare.cli.errors.failures import build_unknown
from gpushare.cli.output.answer import Answer, Fact, Line, Styled, lay_out_facts, lay_out_section
from gpushare.cli.output.facts import describe_capacity, describe_waiting, tell_time
from gpushare.core.analysis.effective_settings import PLANNED_BY
from gpushare.core.analysis.explain.pools import PoolExplanation, explain_pool, recall_pool
from gpushare.core.analysis.inspect.pools import Waiting, find_waiting, plan_snapshot
from gpushare.core.snapshot.actions import NodeState
from gpushare.names import Reason

Json = dict[str, Any]

_LACKS = {
    Kind.NODES: "anything of its nodes but what the controller told last",
    Kind.PODS: "anything of its pods but what the controller told last",
    Kind.POOLS: "what other pools take from it since the controller told last",
    Kind.DAEMONSETS: "what its nodes lack since the controller told last",
    Kind.CONFIGMAPS: UNHEALTHY,
}
MAX_SHOWN = 3
"""Nodes of a group in the narrow table."""


def explain_one_pool(access: Access, name: str) -> Answer:
    """The answer of `explain pool NAME`. Raises `CommandError` for a pool that there is not."""
    cluster = access.read_about(Subject(Kind.POOLS, name), *Kind)
    seen = observe_pools(cluster)
    pools = {pool.name: pool for pool in seen.snapshot.pools}
    unreadable = {pool.name: pool for pool in seen.unreadable}
    if name in unreadable:
        return _explain_unreadable(unreadable[name])
    if name not in pools:
        raise build_unknown("pool", name, [*pools, *unreadable])
    waiting: list[Waiting] = []
    if cluster.can_be_planned:
        planner = plan_snapshot(seen.snapshot, seen.known.setup, cluster.taken_at)
        explained = explain_pool(pools[name], planner, seen.unbound, cluster.taken_at)
        books, opted_out = planner.books, seen.opted_out
        every = find_waiting(seen.snapshot, books, seen.unbound, opted_out, cluster.taken_at)
        waiting += (each for each in every if name in each.pod.pools)
    else:
        explained = recall_pool(pools[name])
    adopted = _is_adopted(cluster, explained)

    return build_answer(
        _describe(explained, waiting, is_adopted=adopted),
        lambda wide: _build_page(explained, waiting, is_adopted=adopted, wide=wide),
        Basis(cluster, _LACKS, seen.known, PLANNED_BY),
    )


def _is_adopted(cluster: Cluster, explained: PoolExplanation) -> bool:
    """Whether a controller has taken the pool on: by its finalizer, which one that only observes
    never gets, or there by what it told."""
    pool = explained.pool
    if pool.observes:
        return not explained.is_unheard
    (raw,) = (raw for raw in cluster.pools or () if raw["metadata"]["name"] == pool.name)
    return names.FINALIZER in (raw["metadata"].get("finalizers") or ())


def _explain_unreadable(pool: UnreadablePool) -> Answer:
    message = f"its spec can't be read, so its nodes are left as they are: {pool.error}"
    document = {"name": pool.name, "reason": str(Reason.SPEC_INVALID), "message": message}
    lines: list[Line] = [
        (Styled(f"Pool {pool.name}", "bold"),),
        (Styled(f"  {Reason.SPEC_INVALID}: {message}", "red"),),
    ]
    return Answer(document, lambda wide: lines)


# As data.


def _describe(explained: PoolExplanation, waiting: Sequence[Waiting], *, is_adopted: bool) -> Json:
    pool, capacity, status = explained.pool, explained.capacity, explained.status
    return {
        "name": pool.name,
        "edition": str(pool.spec.edition),
        "schedule": str(pool.spec.schedule),
        "priority": pool.spec.priority,
        "reconcile": str(pool.spec.reconcile),
        "deleting": pool.deleting,
        "adopted": is_adopted,
        "controllerIsBehind": explained.hears_nothing,
        "conditions": [
            {
                "type": each.now.type,
                "status": each.now.status,
                "reason": each.now.reason,
                "message": each.now.message,
                "since": tell_time(each.now.last_transition_time),
                "healthy": each.is_healthy,
                "told": None
                if each.told is None
                else {
                    "status": each.told.status,
                    "reason": each.told.reason,
                    "message": each.told.message,
                },
            }
            for each in explained.conditions
        ],
        "nodes": {
            "matched": status.nodes.matched,
            "ready": status.nodes.ready,
            "updating": status.nodes.updating,
            "waiting": status.nodes.waiting,
            "blocked": status.nodes.blocked,
            "failed": status.nodes.failed,
            "releasing": explained.releasing,
        },
        "groups": None if explained.is_recalled else _describe_groups(explained),
        "samples": [
            {
                "name": each.node,
                "reason": each.reason,
                "message": each.message,
                "deadline": tell_time(each.deadline),
            }
            for each in (status.samples if explained.is_recalled else ())
        ],
        "outOfService": None if explained.is_recalled else list(explained.out_of_service),
        "planHash": status.plan.hash if status.plan is not None else None,
        "capacity": None if capacity is None else describe_capacity(capacity),
        "waiting": None if explained.is_recalled else [describe_waiting(each) for each in waiting],
    }


def _describe_groups(explained: PoolExplanation) -> list[Json]:
    return [
        {
            "state": str(group.state),
            "reason": str(group.reason),
            "nodes": [
                {
                    "name": plan.node,
                    "message": plan.message,
                    "deadline": tell_time(plan.deadline),
                }
                for plan in group.plans
            ],
        }
        for group in explained.groups
    ]


# For people.


def _build_page(
    explained: PoolExplanation, waiting: Sequence[Waiting], *, is_adopted: bool, wide: bool
) -> Iterator[Line]:
    pool = explained.pool
    spec = pool.spec
    head = f"  {spec.schedule} ({spec.edition}), priority {spec.priority}, {spec.reconcile}"
    yield (Styled(f"Pool {pool.name}", "bold"), head)
    yield from lay_out_facts(_build_facts(explained, is_adopted=is_adopted))
    yield from _build_conditions(explained)
    if explained.is_recalled:
        # The nodes that the controller named last, at most 20.
        title = "Nodes that are not ready or have a warning, from the pool's status"
        told = [(each.node, each.reason, each.message) for each in explained.status.samples]
        yield from lay_out_section(title, ("NODE", "REASON", "WHY"), told or [("none", "", "")])
        return
    yield from _build_nodes(explained, wide=wide)
    if waiting:
        rows = [
            (
                each.pod.namespace,
                each.pod.name,
                str(each.pod.gpu_memory or "-"),
                Styled(str(each.why.reason), "yellow"),
                each.why.message,
            )
            for each in waiting
        ]
        header = ("NAMESPACE", "POD", "GPU-MEM", "REASON", "WHY")
        yield from lay_out_section("Pods that wait for it", header, rows)


def _build_facts(explained: PoolExplanation, *, is_adopted: bool) -> Iterator[Fact]:
    nodes, capacity = explained.status.nodes, explained.capacity
    others = (
        (nodes.updating, "updating"),
        (nodes.waiting, "waiting"),
        (nodes.blocked, "blocked"),
        (nodes.failed, "failed"),
    )
    counts = [f"{count} {state}" for count, state in others if count]
    yield "Nodes", ", ".join([f"{nodes.ready} of {nodes.matched} ready", *counts])
    if capacity is not None:
        yield (
            "Memory",
            f"{capacity.memory_allocated}/{capacity.memory_total} GiB allocated, largest free "
            f"block {capacity.largest_free_block} GiB, stranded {capacity.stranded_memory} GiB",
        )
    if explained.pool.deleting:
        nodes_are = "node is" if explained.releasing == 1 else "nodes are"
        yield (
            "Deleted",
            Styled(f"{explained.releasing} {nodes_are} still to be given back", "yellow"),
        )
    elif not is_adopted:
        yield "Controller", Styled("no controller has taken the pool on yet", "yellow")
    elif explained.hears_nothing:
        yield "Controller", Styled("none has acted on the spec as it is now", "yellow")
    if explained.out_of_service:
        yield "Out of service", ", ".join(explained.out_of_service)
    plan = explained.status.plan
    if plan is not None and plan.hash:
        yield "Left to do", f"{plan.summary} (plan {plan.hash})"


def _build_conditions(explained: PoolExplanation) -> Iterator[Line]:
    rows = []
    for each in explained.conditions:
        now, told = each.now, each.told
        last = "the same" if each.is_told else "nothing"
        if told is not None and not each.is_told:
            last = f"{told.status}, {told.reason}"
        style = "green" if each.is_healthy else "yellow"
        rows.append((now.type, Styled(now.status, style), str(now.reason), last, now.message))
    header = ("TYPE", "STATUS", "REASON", "CONTROLLER SAID", "WHY")
    return lay_out_section("Conditions", header, rows)


def _build_nodes(explained: PoolExplanation, *, wide: bool) -> Iterator[Line]:
    styles = {NodeState.READY: "green", NodeState.FAILED: "red", NodeState.BLOCKED: "red"}
    rows: list[Line] = []
    for group in explained.groups:
        state = Styled(str(group.state), styles.get(group.state, "yellow"))
        start = (state, str(group.reason))
        if wide:
            rows += [(*start, plan.node, plan.message) for plan in group.plans]
            continue
        shown = [plan.node for plan in group.plans[:MAX_SHOWN]]
        more = len(group.plans) - len(shown)
        listed = ", ".join(shown) + (f" and {more} more" if more else "")
        rows.append((*start, listed, group.plans[0].message))
    header = ("STATE", "REASON", "NODES", "WHY")
    return lay_out_section("Nodes", header, rows or [("none", "", "", "")])
