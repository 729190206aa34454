"""Builds the answer of `gpushare explain pool`."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from gpushare import names
from gpushare.analysis.effective_settings import PLANNED_BY
from gpushare.analysis.explain.pools import (
    ConditionLine,
    NodeGroup,
    PoolExplanation,
    explain_pool,
)
from gpushare.analysis.inspect.pools import find_waiting, plan_snapshot
from gpushare.api.pool import UnreadablePool
from gpushare.api.pruned.cluster import STATE_KINDS, Cluster
from gpushare.cli.cluster.access import Access
from gpushare.cli.cluster.basis import OF_STACKS, build_answer
from gpushare.cli.cluster.snapshot import observe_pools
from gpushare.cli.errors.failures import build_unknown
from gpushare.cli.output.answer import Answer, Fact, Line, Styled, lay_out_facts
from gpushare.cli.output.facts import describe_waiting
from gpushare.cli.output.tables import build_section, tell_time
from gpushare.core.status.pool_status import build_unreadable_status
from gpushare.core.status.unschedulable_pods import UnschedulablePod

Json = dict[str, Any]

_CONDITIONS = "TYPE:type,STATUS:status,REASON:reason,CONTROLLER SAID:said,WHY:message"
_NODES = "STATE:state,REASON:reason,NODES:nodes,WHY:message"
_STATES = {"ready": "green", "failed": "red", "blocked": "red"}
_WAITING = "NAMESPACE:namespace,POD:name,GPU-MEM:requested,REASON:reason,WHY:message"
MAX_SHOWN = 3
"""Nodes of a group in the narrow table."""


def explain_one_pool(access: Access, name: str) -> Answer:
    """Explain the pool. Raises `CommandError` for an unknown one."""
    cluster = access.read(*STATE_KINDS)
    seen = observe_pools(cluster)
    pools = {pool.name: pool for pool in seen.snapshot.pools}
    unreadable = {pool.name: pool for pool in seen.unreadable}
    if name in unreadable:
        return _explain_unreadable(unreadable[name], cluster.taken_at)
    if name not in pools:
        raise build_unknown("pool", name, [*pools, *unreadable])
    planner = plan_snapshot(seen.snapshot, seen.known.setup, cluster.taken_at)
    explained = explain_pool(pools[name], planner, seen.unbound, cluster.taken_at)
    every = find_waiting(seen, planner.plans_by_pool, cluster.taken_at)
    waiting = [each for each in every if name in each.pod.pools]
    adopted = _is_adopted(cluster, explained)
    return build_answer(
        _describe(explained, waiting, is_adopted=adopted),
        _build_page,
        cluster,
        OF_STACKS,
        seen.known,
        PLANNED_BY,
    )


def _is_adopted(cluster: Cluster, explained: PoolExplanation) -> bool:
    """Tell whether a controller has adopted the pool: by its finalizer, or for one that only
    observes, which gets none, by its status."""
    pool = explained.pool
    if pool.observes:
        return not explained.is_unheard
    (raw,) = (raw for raw in cluster.pools or () if raw["metadata"]["name"] == pool.name)
    return names.FINALIZER in (raw["metadata"].get("finalizers") or ())


def _explain_unreadable(pool: UnreadablePool, now: datetime) -> Answer:
    ready, *_ = build_unreadable_status(pool, now).conditions
    document = {"name": pool.name, "reason": ready.reason, "message": ready.message}
    return Answer(document, _build_unreadable_page)


def _build_unreadable_page(document: Json, wide: bool) -> Iterator[Line]:
    yield (Styled(f"Pool {document['name']}", "bold"),)
    yield (Styled(f"  {document['reason']}: {document['message']}", "red"),)


def _describe(
    explained: PoolExplanation, waiting: Sequence[UnschedulablePod], *, is_adopted: bool
) -> Json:
    pool, status = explained.pool, explained.status
    return {
        "name": pool.name,
        "edition": str(pool.spec.edition),
        "schedule": str(pool.spec.schedule),
        "priority": pool.spec.priority,
        "reconcile": str(pool.spec.reconcile),
        "deleting": pool.deleting,
        "adopted": is_adopted,
        "controllerIsBehind": explained.hears_nothing,
        "conditions": [_describe_condition(each) for each in explained.conditions],
        "nodes": {**status.nodes.model_dump(by_alias=True), "releasing": explained.releasing},
        "groups": [_describe_group(group) for group in explained.groups],
        "outOfService": list(explained.out_of_service),
        # Since when nodes are idle only the controller knows.
        "recommendation": pool.status.recommendation and pool.status.recommendation.message,
        "planHash": status.plan.hash if status.plan is not None else None,
        "planSummary": status.plan.summary if status.plan is not None else None,
        "waiting": [describe_waiting(each) for each in waiting],
    }


def _describe_condition(line: ConditionLine) -> Json:
    now, told = line.now, line.told
    return {
        "type": now.type,
        "status": now.status,
        "reason": now.reason,
        "message": now.message,
        "since": tell_time(now.last_transition_time),
        "healthy": line.is_healthy,
        "told": told and told.model_dump(include={"status", "reason", "message"}),
    }


def _describe_group(group: NodeGroup) -> Json:
    nodes = [
        {"name": plan.node, "message": plan.message, "deadline": tell_time(plan.facts.deadline)}
        for plan in group.plans
    ]
    return {"state": str(group.state), "reason": str(group.reason), "nodes": nodes}


def _build_page(document: Json, wide: bool) -> Iterator[Line]:
    mode = f"{document['schedule']} ({document['edition']})"
    head = f"  {mode}, priority {document['priority']}, {document['reconcile']}"
    yield (Styled(f"Pool {document['name']}", "bold"), head)
    yield from lay_out_facts(_build_facts(document))
    conditions = [
        {**each, "said": _tell_said(each), "status": _mark_status(each)}
        for each in document["conditions"]
    ]
    yield from build_section("Conditions", _CONDITIONS, conditions)
    nodes = [row for group in document["groups"] for row in _list_nodes(group, wide=wide)]
    none = {"state": "none", "reason": " ", "nodes": " ", "message": " "}
    marked = [{**each, "state": _mark_state(each["state"])} for each in nodes]
    yield from build_section("Nodes", _NODES, marked or [none])
    waiting = [{**each, "requested": each["requested"] or None} for each in document["waiting"]]
    yield from build_section("Pods that wait for it", _WAITING, waiting, {"reason": "yellow"})


def _mark_status(condition: Json) -> Styled:
    return Styled(condition["status"], "green" if condition["healthy"] else "yellow")


def _mark_state(state: str) -> Styled:
    return Styled(state, _STATES.get(state, "yellow"))


def _tell_said(condition: Json) -> str:
    if (told := condition["told"]) is None:
        return "nothing"
    is_same = all(told[key] == condition[key] for key in ("status", "reason"))
    return "the same" if is_same else f"{told['status']}, {told['reason']}"


def _list_nodes(group: Json, *, wide: bool) -> Iterator[Json]:
    nodes = group["nodes"]
    if wide:
        yield from ({**group, "nodes": each["name"], "message": each["message"]} for each in nodes)
        return
    listed = ", ".join(each["name"] for each in nodes[:MAX_SHOWN])
    more = f" and {len(nodes) - MAX_SHOWN} more" if len(nodes) > MAX_SHOWN else ""
    yield {**group, "nodes": f"{listed}{more}", "message": nodes[0]["message"]}


def _build_facts(document: Json) -> Iterator[Fact]:
    nodes = document["nodes"]
    states = ("updating", "waiting", "blocked", "failed")
    counts = [f"{nodes[state]} {state}" for state in states if nodes[state]]
    size = f" (size {nodes['summary']})" if "/" in nodes["summary"] else ""
    ready = f"{nodes['ready']} of {nodes['matched']} ready{size}"
    yield "Nodes", ", ".join([ready, *counts])
    trouble = ""
    if document["deleting"]:
        nodes_are = "node is" if nodes["releasing"] == 1 else "nodes are"
        told = f"{nodes['releasing']} {nodes_are} not released yet"
        yield "Deleted", Styled(told, "yellow")
    elif not document["adopted"]:
        trouble = "no controller has adopted the pool yet: run `kubectl gpushare doctor`"
    elif document["controllerIsBehind"]:
        trouble = "the current spec has not been processed yet"
    if trouble:
        yield "Controller", Styled(trouble, "yellow")
    if document["recommendation"]:
        yield "Next move", document["recommendation"]
    if document["outOfService"]:
        yield "Unavailable", ", ".join(document["outOfService"])
    if document["planHash"]:
        yield "Left to do", f"{document['planSummary']} (plan {document['planHash']})"
