"""Formats the explanation of a pod, as data and as a page.

Its messages come from `analysis.explain`.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from gpushare import names
from gpushare.analysis.explain.pods import PodExplanation
from gpushare.analysis.explain.verdicts import PoolOutcome, PoolVerdict
from gpushare.cli.output.answer import Fact, Line, Styled, lay_out_facts
from gpushare.cli.output.facts import tell_stale
from gpushare.cli.output.tables import build_section, describe
from gpushare.core.admission.decision import AdmissionDecision
from gpushare.core.snapshot.isolation import ContainerIsolation
from gpushare.webhook.patch import plan_patch

Json = dict[str, Any]

MAX_NODES = 20
"""Limit of nodes in the narrow table."""
_STYLES = {PoolOutcome.CHOSEN: "green", PoolOutcome.SELECTED: "green", PoolOutcome.LOST: "yellow"}
_POOLS = "POOL:name,SCHEDULE:schedule,PRIORITY:priority,FREE:free,LARGEST BLOCK:largestFreeBlock"
_POOLS_WIDE = "EDITION:edition,NODES:nodes,LARGEST CARD:largestCard,ASKED:asked,FIT:fit"
_VERDICT = "VERDICT:outcome,REASON:reason,WHY:message"
_NODES = "NODE:name,POOL:pool,REASON:reason,WHY:message"


def describe_pod(
    kind: str,
    explained: PodExplanation,
    notes: Sequence[str],
    stale: Sequence[ContainerIsolation] = (),
    *,
    is_asked: bool,
) -> Json:
    """Describe a pod, or the pods of a workload of this `kind`.

    `stale` are its containers whose isolation is not what their node's mode gives; `is_asked`: the
    webhook is asked about such pods; otherwise nothing is written.
    """
    decision, past, found = explained.decision, explained.past, explained.found
    waits = explained.waits
    has_patch = decision is not None and not decision.is_refused
    placed = then = None
    if found is not None and found.node:
        placed = {
            "node": found.node,
            "phase": found.phase,
            "cards": {str(card): units for card, units in sorted(found.cards.items())},
            "staleIsolation": [tell_stale(each) for each in stale],
        }
    if past is not None:
        then = describe(past) | {"sameNow": explained.is_as_then}
    return {
        "kind": kind,
        "namespace": explained.namespace,
        "name": explained.name,
        "phase": found and found.phase,
        "selectedPools": list(found.pools) if found is not None else [],
        "requests": dict(explained.request.requests),
        "decision": decision and _describe_decision(decision),
        "patch": plan_patch(explained.written, decision) if decision and has_patch else [],
        "decidedThen": then,
        "pools": [_describe_verdict(verdict) for verdict in explained.verdicts],
        "placed": placed,
        "waits": waits and {"reason": str(waits.reason), "message": waits.message},
        "noDemand": waits and describe(waits.no_demand),
        "nodes": [
            {
                "name": fit.node,
                "pool": fit.pool or None,
                "fits": fit.fits,
                "rejections": [
                    {"reason": str(each.reason), "message": each.message, "remedy": each.remedy}
                    for each in fit.rejections
                ],
                "warning": fit.warning or None,
            }
            for fit in explained.fits
        ],
        "smallestChange": explained.smallest_change,
        "webhookIsAsked": is_asked if decision is not None else None,
        "notes": list(notes),
    }


def _describe_decision(decision: AdmissionDecision) -> Json:
    return {
        "reason": str(decision.reason),
        "message": decision.message,
        "pool": decision.pool,
        "refused": decision.refusal,
        "nodeSelector": dict(decision.selector),
        "tolerations": [dict(each) for each in decision.tolerations],
        "annotation": decision.annotation,
        "warnings": list(decision.warnings),
    }


def _describe_verdict(verdict: PoolVerdict) -> Json:
    view, figures = verdict.view, verdict.figures
    return {
        "name": verdict.pool,
        "outcome": str(verdict.outcome),
        "reason": describe(verdict.reason),
        "message": verdict.message,
        "edition": view and str(view.edition),
        "schedule": view and str(view.schedule),
        "priority": view and view.priority,
        "nodes": view and view.nodes,
        "figures": figures
        and describe(figures) | {"fit": figures.fit.name.title().replace("_", "")},
    }


def build_pod_page(document: Json, wide: bool) -> Iterator[Line]:
    """Build the page of the document of a pod; one without a phase does not exist."""
    requests = sorted(document["requests"].items())
    asks = ", ".join(f"{amount} {resource}" for resource, amount in requests)
    title = f"{document['kind']} {document['namespace']}/{document['name']}"
    if template := document.get("template"):
        title += f" {template}"
    yield (Styled(title, "bold"), f"  asks for {asks or 'no GPU of a pool'}")
    for note in document["notes"]:
        yield (Styled(f"  {note}", "yellow"),)
    yield from lay_out_facts(_build_facts(document))
    columns = ",".join([_POOLS, *([_POOLS_WIDE] if wide else []), _VERDICT])
    yield from build_section("Pools", columns, map(_build_verdict, document["pools"]))
    decision = document["decision"] or {}
    if document["webhookIsAsked"] and (written := list(_list_written(decision))):
        yield ()
        what = (
            "What is written"
            if document["phase"] is None
            else "What is written to a new pod like it"
        )
        yield (Styled(what, "bold"),)
        yield from lay_out_facts(written)
    yield from _build_lines("Warnings", decision.get("warnings", ()))
    ranked = sorted(document["nodes"], key=lambda fit: (len(fit["rejections"]), fit["name"]))
    shown = ranked if wide else ranked[:MAX_NODES]
    rows = [row for fit in shown for row in _list_rejections(fit)]
    yield from build_section("Nodes", _NODES, rows, {"reason": "yellow"})
    if len(shown) < len(ranked):
        yield (f"  {len(ranked) - len(shown)} more nodes: list them with -o wide",)
    change = document["smallestChange"]
    yield from _build_lines("Smallest change that lets it run", [change] if change else ())


def _build_lines(title: str, lines: Sequence[str]) -> Iterator[Line]:
    if lines:
        yield ()
        yield (Styled(title, "bold"),)
        yield from ((f"  {line}",) for line in lines)


def _build_facts(document: Json) -> Iterator[Fact]:
    decision, past, waits = document["decision"], document["decidedThen"], document["waits"]
    placed, phase = document["placed"], document["phase"]
    if decision is not None:
        told, style = f"{decision['reason']}: {decision['message']}", ""
        if decision["refused"]:
            told, style = f"refused: {told}", "red"
        elif decision["pool"]:
            style = "green"
        yield "Decision" if phase is None else "Now", Styled(told, style)
    if past is not None:
        to = f" to pool {past['pool']}" if past["pool"] is not None else ""
        same = ", same as now" if past["sameNow"] else ", different from now"
        same = same if decision is not None else ""
        lost = [f"{', '.join(pools)} lost by {reason}" for reason, pools in past["lost"].items()]
        lost += [f"{past['more']} more lost"] if past["more"] else []
        yield "Then", "; ".join([f"{past['reason']}{to}{same}", *lost])
    if placed is not None:
        cards = ", ".join(f"GPU {card}: {units}" for card, units in placed["cards"].items())
        yield "Node", f"{placed['node']}{f' ({cards})' if cards else ''}, {placed['phase']}"
    elif phase is not None and waits is None:
        yield "Node", f"none yet, {phase}"
    if waits is not None:
        yield "Trouble", Styled(f"{waits['reason']}: {waits['message']}", "yellow")
    if document["noDemand"] is not None:
        pools = " or ".join(document["selectedPools"])
        yield "Demand", f"takes no room of pool {pools} from other pods: {document['noDemand']}"
    for each in placed["staleIsolation"] if placed is not None else ():
        yield "Stale", Styled(each, "yellow")


def _build_verdict(verdict: Json) -> Json:
    row = verdict | {"outcome": Styled(verdict["outcome"], _STYLES.get(verdict["outcome"], ""))}
    if (figures := verdict["figures"]) is None:
        return row
    free, total = figures["free"], f"{figures['total']} {figures['unit']}"
    return row | {
        "free": f"0/{total}, {-free} short" if free < 0 else f"{free}/{total}",
        "largestFreeBlock": figures["largestFreeBlock"],
        "largestCard": figures["largestCard"] or None,
        "asked": f"{figures['cards']}x{figures['asked']}",
        "fit": figures["fit"],
    }


def _list_written(decision: Json) -> Iterator[Fact]:
    if decision["refused"]:
        return
    for key, value in decision["nodeSelector"].items():
        yield "nodeSelector", f"{key}={value}"
    for toleration in decision["tolerations"]:
        yield "toleration", ", ".join(f"{key}={value}" for key, value in toleration.items())
    if decision["annotation"]:
        yield "annotation", f"{names.ANNOTATION_DECISION}={decision['annotation']}"


def _list_rejections(fit: Json) -> Iterator[Json]:
    """Yield a row for each rejection, of which the first names the node."""
    where = {"name": fit["name"], "pool": fit["pool"]}
    if fit["fits"]:
        yield {**where, "reason": Styled("fits", "green"), "message": fit["warning"] or " "}
    for rejection in fit["rejections"]:
        yield {**where, "reason": rejection["reason"], "message": rejection["message"]}
        where = {"name": " ", "pool": " "}
