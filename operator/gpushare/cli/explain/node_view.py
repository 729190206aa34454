"""`gpushare explain node`: what its labels say, what its plugins serve, and whose it is."""

from collections.abc import Iterator
from typing import Any

from gpushare import names
from gpushare.api.k8s.taint import Taint, parse_taints
from gpushare.api.pruned.cluster import Kind, Subject
from gpushare.cli.cluster.access import Access
from gpushare.cli.cluster.basis import UNHEALTHY, Basis, build_answer
from gpushare.cli.cluster.snapshot import PLANNED, observe_cluster
from gpushare.cli.errors.failures import build_unknown
from gpushare.cli.output.answer import Answer, Fact, Line, Styled, lay_out_facts, lay_out_section
from gpushare.cli.output.facts import (
    describe_card,
    describe_change,
    describe_isolation,
    tell_allocated,
    tell_stale,
    tell_time,
)
from gpushare.core.analysis.effective_settings import PLANNED_BY
from gpushare.core.analysis.explain.nodes import NodeExplanation, explain_node
from gpushare.core.analysis.finding import Finding
from gpushare.core.analysis.inspect.pools import plan_snapshot
from gpushare.core.ownership.drift import describe_conflict

Json = dict[str, Any]

_LACKS = {
    Kind.NODES: "what is planned for it, which depends on others",
    Kind.PODS: "what runs on it, what is planned for it, and what is wrong with its plugins",
    Kind.POOLS: "which pools claim it, and what is planned for it",
    Kind.DAEMONSETS: "what is planned for it, and what is wrong with its plugins",
    Kind.CONFIGMAPS: UNHEALTHY,
}


def explain_one_node(access: Access, name: str) -> Answer:
    """The answer of `explain node NAME`. Raises `CommandError` for a node that there is not."""
    cluster = access.read_about(Subject(Kind.NODES, name), *PLANNED, Kind.CONFIGMAPS)
    raws = {raw["metadata"]["name"]: raw for raw in cluster.nodes}
    if name not in raws:
        raise build_unknown("node", name, raws)
    seen = observe_cluster(cluster)
    setup = seen.known.setup
    now, planner = cluster.taken_at, None
    if cluster.can_be_planned:
        planner = plan_snapshot(seen.snapshot, setup, now)
    has_pods = Kind.PODS not in cluster.unread
    explained = explain_node(seen.snapshot, setup, planner, name, now, has_pods=has_pods)
    taints = parse_taints(raws[name])
    # Whoever may not list pools is not told whether there are any.
    installed = None if Kind.POOLS in cluster.unread else cluster.pools is not None

    return build_answer(
        _describe(explained, taints, installed=installed),
        lambda wide: _build_page(explained, taints, installed=installed),
        Basis(cluster, _LACKS, seen.known, PLANNED_BY),
    )


# As data.


def _describe(
    explained: NodeExplanation, taints: tuple[Taint, ...], *, installed: bool | None
) -> Json:
    node, change, applied = explained.node, explained.records.change, explained.records.applied
    owner, isolation = explained.owner, explained.isolation
    return {
        "name": node.name,
        "ready": node.ready,
        "cordoned": node.unschedulable,
        "cordonedByOperator": node.owns_cordon,
        "taints": [str(taint) for taint in taints],
        "operatorInstalled": installed,
        "pool": explained.pool,
        "claimants": None
        if explained.claimants is None
        else [
            {
                "pool": each.pool,
                "priority": each.priority,
                "hasIt": each.has_it,
                "state": str(each.plan.state),
                "reason": str(each.plan.reason),
                "message": each.plan.message,
            }
            for each in explained.claimants
        ],
        "edition": None if explained.edition is None else str(explained.edition),
        "modeByLabels": str(explained.labelled) or None,
        "modeApplied": None if applied is None else str(applied.schedule),
        "moduleMayBeLoaded": explained.records.module,
        "labels": [
            {"key": each.key, "value": each.value, "wanted": each.wanted, "owner": each.owner}
            for each in explained.labels
        ],
        "resources": [
            {
                "name": each.name,
                "offered": each.offered,
                "requested": each.requested,
                "ofMode": each.is_of_mode,
            }
            for each in explained.resources
        ],
        "plugins": [
            {
                "name": each.name,
                "pod": each.pod,
                "serves": list(each.serves),
                "ready": each.is_ready,
                "readySince": tell_time(each.ready_since),
                "restarts": each.restarts,
                "ofMode": each.is_of_mode,
            }
            for each in explained.plugins
        ],
        "change": describe_change(change, None if owner is None else owner.plan),
        "conflicts": [
            describe_conflict(conflict) for conflict in (owner.plan.conflicts if owner else ())
        ],
        "isolation": None if isolation is None else describe_isolation(isolation),
        "cards": [describe_card(card) for card in explained.cards],
        "findings": [
            {"reason": str(each.code), "message": _tell(each)} for each in explained.findings
        ],
    }


# For people.


def _build_page(
    explained: NodeExplanation, taints: tuple[Taint, ...], *, installed: bool | None
) -> Iterator[Line]:
    yield (Styled(f"Node {explained.node.name}", "bold"), f"  {_tell_state(explained, taints)}")
    if installed is False:
        text = f"  The cluster has no {names.PLURAL}.{names.GROUP}: no pool has the node."
        yield (Styled(text, "yellow"),)
    if not explained.has_gpus:
        # Without its pods nobody knows of a plugin.
        plugin = ", no device plugin" if explained.isolation is not None else ""
        yield (f"  Nothing on it speaks of GPUs: no label, no resource{plugin}.",)
        return
    yield from lay_out_facts(_build_facts(explained))
    if explained.claimants:
        rows = [
            (
                each.pool or "-",
                "-" if each.priority is None else str(each.priority),
                Styled("has it", "green") if each.has_it else "does not",
                str(each.plan.state),
                str(each.plan.reason),
                each.plan.message,
            )
            for each in explained.claimants
        ]
        header = ("POOL", "PRIORITY", "IT", "STATE", "REASON", "WHY")
        yield from lay_out_section("Pools that claim it", header, rows)
    yield from _build_labels(explained)
    yield from _build_served(explained)
    if explained.cards:
        held = [
            (str(each.index), tell_allocated(each), ", ".join(each.pods) or "-")
            for each in explained.cards
        ]
        yield from lay_out_section("Cards", ("GPU", "ALLOCATED", "PODS"), held)
    if explained.findings:
        found = [(Styled(str(each.code), "yellow"), _tell(each)) for each in explained.findings]
        yield from lay_out_section("Findings", ("REASON", "WHAT"), found)
        return
    yield ()
    yield (Styled("Findings", "bold"),)
    yield ("  none" if explained.claimants is not None else "  none by its labels and records",)


def _tell(finding: Finding) -> str:
    return f"{finding.message}; {finding.remedy}" if finding.remedy else finding.message


def _tell_state(explained: NodeExplanation, taints: tuple[Taint, ...]) -> str:
    node = explained.node
    told = ["Ready" if node.ready else "not Ready"]
    if node.unschedulable:
        told.append(f"cordoned by {'the operator' if node.owns_cordon else 'somebody'}")
    told += [f"taint {taint}" for taint in taints if not taint.key.startswith("node.kubernetes.io")]
    return ", ".join(told)


def _build_facts(explained: NodeExplanation) -> Iterator[Fact]:
    owner, change, isolation = explained.owner, explained.records.change, explained.isolation
    none = "none" if explained.pool is None else "none any more"
    yield "Pool", explained.pool or none
    if explained.edition is not None:
        said = f"{explained.labelled} ({explained.edition})"
        known = said if explained.mode is not None else Styled(f"{said}, which is none", "red")
        yield "Mode by labels", known
    if (applied := explained.records.applied) is not None:
        waits = ", its plugin has yet to restart" if applied.restart_pending else ""
        yield (
            "Mode applied",
            f"{applied.schedule} ({applied.edition}) by pool {applied.pool}{waits}",
        )
    if change is not None:
        under_way = "under way" if change.is_under_way else "not begun"
        if change.failure is not None:
            under_way = "failed"
        yield (
            "Change",
            Styled(
                f"{change.from_mode} -> {change.to} for pool {change.pool}, {under_way}, in phase "
                f"{change.phase} since {tell_time(change.since)}",
                "yellow",
            ),
        )
        if change.failure is not None and owner is None:
            yield "Failed", Styled(change.failure.message, "red")
        if owner is not None:
            end = owner.plan.deadline
            deadline = f"; fails at {tell_time(end)}" if end is not None else ""
            yield "Waits for", f"{owner.plan.message}{deadline}"
    for conflict in owner.plan.conflicts if owner is not None else ():
        yield "Rival", Styled(describe_conflict(conflict), "red")
    if explained.records.module:
        yield "Kernel module", "cGPU's may be loaded: nobody has shown since that it is gone"
    if isolation is not None and isolation.containers:
        sharing = "1 container shares a card"
        if isolation.containers > 1:
            sharing = f"{isolation.containers} containers share cards"
        yield (
            "Isolation",
            f"{sharing}: {isolation.isolated} isolated, "
            f"{isolation.stale} stale, {isolation.opted_out} opted out, "
            f"{isolation.unknown} unknown",
        )
    for claim in isolation.samples if isolation is not None else ():
        yield "Stale", Styled(tell_stale(claim), "yellow")


def _build_labels(explained: NodeExplanation) -> Iterator[Line]:
    if not explained.labels:
        return
    rows = [
        (
            each.key,
            "-" if each.value is None else each.value,
            Styled("-" if each.wanted is None else each.wanted,
                   "red" if each.wanted not in (None, each.value) else ""),
            each.owner or "-",
        )
        for each in explained.labels
    ]  # fmt: skip
    yield from lay_out_section("Labels", ("LABEL", "VALUE", "POOL WANTS", "WRITTEN BY"), rows)


def _build_served(explained: NodeExplanation) -> Iterator[Line]:
    if explained.resources:
        offered = [
            (
                each.name,
                str(each.offered),
                "-" if each.requested is None else str(each.requested),
                _tell_of_mode(each.is_of_mode),
            )
            for each in explained.resources
        ]
        header: tuple[str, ...] = ("RESOURCE", "ALLOCATABLE", "REQUESTED", "OF ITS MODE")
        yield from lay_out_section("What it offers", header, offered)
    if explained.plugins:
        running = [
            (
                each.name,
                each.pod,
                Styled("yes", "green") if each.is_ready else Styled("no", "red"),
                str(each.restarts),
                ", ".join(each.serves) or "-",
                _tell_of_mode(each.is_of_mode),
            )
            for each in explained.plugins
        ]
        header = ("NAME", "POD", "READY", "RESTARTS", "SERVES", "OF ITS MODE")
        yield from lay_out_section("Plugins and components", header, running)


def _tell_of_mode(is_of_mode: bool) -> Styled:
    return Styled("yes", "green") if is_of_mode else Styled("no", "red")
