"""A pod that is explained, as a page for people."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpushare import names
from gpushare.cli.output.answer import Cell, Fact, Line, Styled, lay_out_facts, lay_out_section
from gpushare.cli.output.facts import tell_stale
from gpushare.core.admission import Decision
from gpushare.core.analysis.explain.node_fit import NodeFit
from gpushare.core.analysis.explain.pods import PodExplanation
from gpushare.core.analysis.explain.verdicts import Figures, PoolOutcome, Verdict
from gpushare.core.snapshot.isolation import Claim

MAX_NODES = 20
"""In the narrow table."""
_STYLES = {PoolOutcome.CHOSEN: "green", PoolOutcome.SELECTED: "green", PoolOutcome.LOST: "yellow"}


@dataclass(frozen=True, slots=True)
class Told:
    """A pod that is explained, or the pods of a workload, and what else is to be said."""

    kind: str
    explained: PodExplanation
    notes: Sequence[str]
    is_asked: bool
    """The webhook is asked about such pods; else nobody writes anything."""
    stale: Sequence[Claim] = ()
    """Its containers whose isolation is not what their node's mode gives."""


def build_pod_page(told: Told, *, wide: bool) -> Iterator[Line]:
    """All that is to be said of it."""
    explained = told.explained
    asks = ", ".join(
        f"{amount} {resource}" for resource, amount in sorted(explained.request.requests.items())
    )
    title = f"{told.kind} {explained.namespace}/{explained.name}"
    yield (Styled(title, "bold"), f"  asks for {asks or 'no GPU that a pool gives'}")
    for note in told.notes:
        yield (Styled(f"  {note}", "yellow"),)
    yield from lay_out_facts(_build_facts(explained, told.stale))
    if explained.verdicts:
        yield from _build_verdicts(explained.verdicts, wide=wide)
    decision = explained.decision
    if told.is_asked and decision is not None and (written := list(_list_written(decision))):
        yield ()
        what = "What is written" if explained.found is None else "What is written to one like it"
        yield (Styled(what, "bold"),)
        yield from lay_out_facts(written)
    if decision is not None and decision.warnings:
        yield ()
        yield (Styled("Warnings", "bold"),)
        yield from ((f"  {warning}",) for warning in decision.warnings)
    if explained.fits:
        yield from _build_fits(explained.fits, wide=wide)
    if (change := explained.smallest_change) is not None:
        yield ()
        yield (Styled("Smallest change that lets it in", "bold"),)
        yield (f"  {change}",)


def _build_facts(explained: PodExplanation, stale: Sequence[Claim]) -> Iterator[Fact]:
    decision, past, found = explained.decision, explained.past, explained.found
    if decision is not None:
        told = f"{decision.reason}: {decision.message}"
        when = "Decision" if found is None else "Now"
        if decision.is_refused:
            yield when, Styled(f"refused, {told}", "red")
        else:
            yield when, Styled(told, "green") if decision.pool else told
    if past is not None:
        to = f" to pool {past.pool}" if past.pool is not None else ""
        same = ", the same" if explained.is_as_then else ", not what would be decided now"
        same = same if decision is not None else ""
        yield "Then", f"{past.reason}{to}{same}{_tell_lost(past.lost, past.more)}"
    if found is not None and found.node:
        cards = ", ".join(f"GPU {card}: {units}" for card, units in sorted(found.cards.items()))
        yield "Node", f"{found.node}{f' ({cards})' if cards else ''}, {found.phase}"
    elif found is not None and explained.waits is None:
        yield "Node", f"none yet, {found.phase}"
    if explained.waits is not None:
        yield "Trouble", Styled(f"{explained.waits.reason}: {explained.waits.message}", "yellow")
    for claim in stale:
        yield "Stale", Styled(tell_stale(claim), "yellow")


def _tell_lost(lost: Mapping[str, Sequence[str]], more: int) -> str:
    told = [f"{', '.join(pools)} lost by {reason}" for reason, pools in lost.items()]
    if more:
        told.append(f"{more} more lost")
    return f"; {'; '.join(told)}" if told else ""


def _build_verdicts(verdicts: Sequence[Verdict], *, wide: bool) -> Iterator[Line]:
    header = ["POOL", "SCHEDULE", "PRIORITY", "FREE", "LARGEST BLOCK"]
    if wide:
        header += ["EDITION", "NODES", "LARGEST CARD", "ASKED", "FIT"]
    rows = [_build_verdict(verdict, wide=wide) for verdict in verdicts]
    yield from lay_out_section("Pools", [*header, "VERDICT", "REASON", "WHY"], rows)


def _build_verdict(verdict: Verdict, *, wide: bool) -> Line:
    view, figures = verdict.view, verdict.figures
    row: list[Cell] = [
        verdict.pool,
        str(view.schedule) if view is not None else "-",
        str(view.priority) if view is not None else "-",
        _tell_free(figures) if figures is not None else "-",
        str(figures.largest_free) if figures is not None else "-",
    ]
    if wide:
        row += [
            str(view.edition) if view is not None else "-",
            str(view.nodes) if view is not None and view.nodes is not None else "-",
            str(figures.largest_card or "-") if figures is not None else "-",
            f"{figures.cards}x{figures.asked}" if figures is not None else "-",
            figures.fit.name if figures is not None else "-",
        ]
    outcome = Styled(str(verdict.outcome), _STYLES.get(verdict.outcome, ""))
    return (*row, outcome, str(verdict.reason or "-"), verdict.message)


def _tell_free(figures: Figures) -> str:
    short = f", {-figures.free} short" if figures.free < 0 else ""
    return f"{max(figures.free, 0)}/{figures.total} {figures.unit}{short}"


def _list_written(decision: Decision) -> Iterator[Fact]:
    if decision.is_refused:
        return
    for key, value in decision.selector:
        yield "nodeSelector", f"{key}={value}"
    for toleration in decision.tolerations:
        yield "toleration", ", ".join(f"{key}={value}" for key, value in toleration.items())
    if decision.annotation:
        yield "annotation", f"{names.ANNOTATION_DECISION}={decision.annotation}"


def _build_fits(fits: Sequence[NodeFit], *, wide: bool) -> Iterator[Line]:
    ranked = sorted(fits, key=lambda fit: (len(fit.rejections), fit.node))
    shown = ranked if wide else ranked[:MAX_NODES]
    rows: list[Line] = []
    for fit in shown:
        start = (fit.node, fit.pool or "-")
        if fit.fits:
            rows.append((*start, Styled("fits", "green"), ""))
        for place, rejection in enumerate(fit.rejections):
            where = start if place == 0 else ("", "")
            rows.append((*where, Styled(str(rejection.reason), "yellow"), rejection.message))
    yield from lay_out_section("Nodes", ("NODE", "POOL", "REASON", "WHY"), rows)
    if len(shown) < len(ranked):
        yield (f"  and {len(ranked) - len(shown)} more nodes; -o wide lists them all",)
