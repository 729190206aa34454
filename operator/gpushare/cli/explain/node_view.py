"""Builds the answer of `gpushare explain node`."""

from collections.abc import Iterator
from typing import Any

from gpushare import names
from gpushare.analysis.effective_settings import PLANNED_BY
from gpushare.analysis.explain.nodes import NodeExplanation, explain_node
from gpushare.analysis.inspect.pools import plan_snapshot
from gpushare.api.k8s.taint import Taint, parse_taints
from gpushare.api.pruned.cluster import Kind, Subject
from gpushare.cli.cluster.access import Access
from gpushare.cli.cluster.basis import OF_STACKS, build_answer
from gpushare.cli.cluster.snapshot import PLANNED, observe_cluster
from gpushare.cli.errors.failures import build_unknown
from gpushare.cli.output.answer import Answer, Fact, Line, Styled, lay_out_facts
from gpushare.cli.output.facts import (
    describe_allocated,
    describe_card,
    describe_change,
    describe_isolation,
    describe_plan,
)
from gpushare.cli.output.tables import build_section, describe
from gpushare.core.ownership.drift import describe_conflict
from gpushare.core.records.change_record import ChangePhase

Json = dict[str, Any]

_LACKS = {
    Kind.NODES: "its plan, which depends on other nodes",
    Kind.PODS: "its pods, its plan, and what is wrong with its plugins",
    Kind.POOLS: "which pools claim it, and its plan",
    Kind.DAEMONSETS: "its plan, and what is wrong with its plugins",
    **OF_STACKS,
}

_CLAIMANTS = "POOL:pool,PRIORITY:priority,HAS IT:hasIt,STATE:state,REASON:reason,WHY:message"
_LABELS = "LABEL:key,VALUE:value,POOL WANTS:wanted,WRITTEN BY:owner"
_RESOURCES = "RESOURCE:name,ALLOCATABLE:allocatable,REQUESTED:requested,OF ITS MODE:ofMode"
_PLUGINS = "NAME:name,POD:pod,READY:ready,RESTARTS:restarts,SERVES:serves,OF ITS MODE:ofMode"
_CARDS = "GPU:index,ALLOCATED:allocated,PODS:pods"
_FINDINGS = "REASON:reason,WHAT:message"


def explain_one_node(access: Access, name: str) -> Answer:
    """Explain the node. Raises `CommandError` for an unknown one."""
    cluster = access.read_about(Subject(Kind.NODES, name), *PLANNED, Kind.CONFIGMAPS)
    raws = {raw["metadata"]["name"]: raw for raw in cluster.nodes}
    if name not in raws:
        raise build_unknown("node", name, raws)
    seen = observe_cluster(cluster)
    now, planner = cluster.taken_at, None
    if cluster.can_be_planned:
        planner = plan_snapshot(seen.snapshot, seen.known.setup, now)
    has_pods = Kind.PODS not in cluster.unread
    explained = explain_node(seen.snapshot, planner, name, now, has_pods=has_pods)
    taints = parse_taints(raws[name])
    # A user who may not list pools can't know whether there are any.
    installed = None if Kind.POOLS in cluster.unread else cluster.pools is not None

    return build_answer(
        _describe(explained, taints, installed=installed),
        _build_page,
        cluster,
        _LACKS,
        seen.known,
        PLANNED_BY,
    )


def _describe(
    explained: NodeExplanation, taints: tuple[Taint, ...], *, installed: bool | None
) -> Json:
    node, change, applied = explained.node, explained.records.change, explained.records.applied
    plan, isolation = explained.plan, explained.isolation
    claimants = None
    if explained.claimants is not None:
        claimants = [
            {"pool": each.pool, "priority": each.priority, "hasIt": each.has_it}
            | describe_plan(each.plan)
            for each in explained.claimants
        ]
    return {
        "name": node.name,
        "ready": node.ready,
        "cordoned": node.unschedulable,
        "cordonedByOperator": node.owns_cordon,
        "taints": [str(taint) for taint in taints],
        "hasGpus": explained.has_gpus,
        "operatorInstalled": installed,
        "pool": explained.pool,
        "claimants": claimants,
        "edition": describe(explained.edition),
        "modeByLabels": str(explained.labelled) or None,
        "modeIsKnown": explained.mode is not None,
        "modeApplied": None if applied is None else str(applied.schedule),
        "applied": None
        if applied is None
        else {
            "edition": str(applied.edition),
            "schedule": str(applied.schedule),
            "pool": applied.pool,
            "restartPending": applied.restart_pending,
        },
        "stacks": [
            {"name": str(stack), "evidence": list(evidence)}
            for stack, evidence in explained.stacks.items()
        ],
        "moduleMayBeLoaded": explained.records.module,
        "labels": describe(explained.labels),
        "resources": describe(explained.resources),
        "plugins": describe(explained.plugins),
        "change": describe_change(change, plan),
        "rule": (plan.rule or None) if plan is not None else None,
        "conflicts": [describe_conflict(each) for each in plan.facts.conflicts] if plan else [],
        "isolation": None
        if isolation is None
        else {**describe_isolation(isolation), "unknownPods": list(explained.unknown_pods)},
        "cards": [describe_card(card) for card in explained.cards],
        "findings": [
            {
                "reason": str(each.code),
                "message": f"{each.message}. {each.remedy}" if each.remedy else each.message,
            }
            for each in explained.findings
        ],
    }


def _build_page(document: Json, wide: bool) -> Iterator[Line]:
    yield (Styled(f"Node {document['name']}", "bold"), f"  {_tell_state(document)}")
    if document["operatorInstalled"] is False:
        text = f"  The cluster has no {names.PLURAL}.{names.GROUP}, so no pool has the node"
        yield (Styled(text, "yellow"),)
    if not (document["hasGpus"] or document["claimants"]):
        # Without its pods its plugins are unknown.
        plugin = ", no device plugin" if document["isolation"] is not None else ""
        yield (f"  The node has nothing of GPUs: no label, no resource{plugin}",)
        return
    yield from lay_out_facts(_build_facts(document))
    yield from build_section("Pools that claim it", _CLAIMANTS, document["claimants"] or ())
    yield from build_section("Labels", _LABELS, map(_mark_label, document["labels"]))
    yield from build_section("What it offers", _RESOURCES, document["resources"])
    yield from build_section("Plugins and components", _PLUGINS, document["plugins"])
    cards = ({**card, "allocated": describe_allocated(card)} for card in document["cards"])
    yield from build_section("Cards", _CARDS, cards)
    yield from build_section("Findings", _FINDINGS, document["findings"], {"reason": "yellow"})
    if not document["findings"]:
        yield ()
        yield (Styled("Findings", "bold"),)
        is_planned = document["claimants"] is not None
        yield ("  none" if is_planned else "  none by its labels and records",)


def _tell_state(document: Json) -> str:
    told = ["Ready" if document["ready"] else "not Ready"]
    if document["cordoned"]:
        told.append(f"cordoned by {_tell_who(document)}")
    taints = (t for t in document["taints"] if not t.startswith("node.kubernetes.io"))
    return ", ".join([*told, *(f"taint {taint}" for taint in taints)])


def _tell_who(document: Json) -> str:
    return "the operator" if document["cordonedByOperator"] else "a user"


def _build_facts(document: Json) -> Iterator[Fact]:
    pool, change, isolation = document["pool"], document["change"], document["isolation"]
    yield "Pool", pool or ("none" if pool is None else "none (deleted)")
    if document["edition"] is not None:
        said = f"{document['modeByLabels'] or ''} ({document['edition']})"
        known = said if document["modeIsKnown"] else Styled(f"{said}, unknown", "red")
        yield "Mode by labels", known
    if (applied := document["applied"]) is not None:
        waits = ", plugin restart pending" if applied["restartPending"] else ""
        told = f"{applied['schedule']} ({applied['edition']}) by pool {applied['pool']}{waits}"
        yield "Mode applied", told
    if change is not None:
        under_way = "not started" if change["phase"] == ChangePhase.DEFERRED else "in progress"
        if change["failed"] is not None:
            under_way = "failed"
        told = (
            f"{change['from']} -> {change['to']} for pool {change['pool']}, {under_way}, in phase "
            f"{change['phase']} since {change['since']}"
        )
        yield "Change", Styled(told, "yellow")
        if (waits := change["waitsFor"]) is not None:
            end = change["deadline"]
            yield "Waits for", f"{waits} (fails at {end})" if end else waits
        elif change["failed"] is not None:
            yield "Failed", Styled(change["failed"], "red")
    for conflict in document["conflicts"]:
        yield "Conflict", Styled(conflict, "red")
    if document["moduleMayBeLoaded"]:
        yield "Kernel module", "the cGPU module may be loaded: its removal is not verified"
    if document["stacks"]:
        yield "Cards given by", " and ".join(stack["name"] for stack in document["stacks"])
    if document["rule"] is not None:
        yield "Rule", document["rule"]
    if isolation is None or not isolation["containers"]:
        return
    sharing = "1 container shares a card"
    if isolation["containers"] > 1:
        sharing = f"{isolation['containers']} containers share cards"
    yield (
        "Isolation",
        f"{sharing}: {isolation['isolated']} isolated, {isolation['stale']} stale, "
        f"{isolation['optedOut']} opted out, {isolation['unknown']} unknown",
    )
    for each in isolation["samples"]:
        yield "Stale", Styled(each, "yellow")
    if isolation["unknownPods"]:
        yield "Unknown", Styled(", ".join(isolation["unknownPods"]), "yellow")


def _mark_label(label: Json) -> Json:
    """Mark the value that the pool wants where the node has another."""
    differs = label["wanted"] not in (None, label["value"])
    return {**label, "wanted": Styled(label["wanted"], "red")} if differs else label
