"""Builds the answers of `gpushare usage --by namespace` and `--by pool`: who held how much."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from gpushare.analysis.usage.bill import HeldMemory, sum_by_pool, sum_held
from gpushare.cli.cluster.basis import build_answer
from gpushare.cli.output.answer import Answer, Line
from gpushare.cli.output.data import format_csv
from gpushare.cli.output.tables import build_section, build_table
from gpushare.cli.usage.measurement import Measurement
from gpushare.cli.usage.request import Grouping
from gpushare.cli.usage.source import ObservedUsage
from gpushare.cli.usage.view import ABOUT, GIB, LACKS, build_notes, describe_window

Json = dict[str, Any]
_GIB_HOUR = GIB * 3600
_KNOWN = 0.95
"""Part of a window from which on the operator's metrics count as there for all of it."""
_COLUMNS = {
    "namespace": "NAMESPACE",
    "pool": "POOL",
    "askedGibHours": "ASKED",
    "usedGibHours": "USED",
    "unmeasuredGibHours": "NOT MEASURED",
    "share": "SHARE OF POOL",
    "cost": "COST",
}


def show_bill(observed: ObservedUsage, by: Grouping, price: Decimal | None) -> Answer:
    """Show what each namespace held in each pool, or what was held in each pool."""
    measurement = observed.measurement
    held = sum_held(
        measurement.span,
        observed.pods,
        observed.measured,
        observed.members,
        measurement.allocated,
    )
    rows = sum_by_pool(held) if by is Grouping.POOL else held
    # Of a part of the window the share would be too large.
    is_known = measurement.offered_seconds >= _KNOWN * measurement.span.seconds
    offered = measurement.offered if is_known else {}
    described = [_describe(row, by, offered, price) for row in rows]
    keys = list(_COLUMNS)
    if by is Grouping.POOL:
        keys.remove("namespace")
    if price is None:
        keys.remove("cost")
    notes = [*observed.notes, *_list_notes(measurement)]
    document = {
        "window": describe_window(observed),
        "exporters": list(measurement.exporters),
        "by": str(by),
        "pricePerGibHour": None if price is None else str(price),
        "rows": described,
        "notMeasured": _list_unmeasured(observed),
        "notes": notes,
    }

    def build_page(document: Json, wide: bool) -> Iterator[Line]:
        if not document["rows"]:
            yield ("Nothing was held",)
        columns = ",".join(f"{_COLUMNS[key]}:{key}" for key in keys)
        yield from build_table(columns, map(_tell_row, document["rows"]))
        if document["rows"]:
            yield ("  Memory in GiB-hours",)
        yield from build_section(
            "Not measured: no series of these pods alone",
            "NODE:node,POOL:pool,PODS:pods",
            document["notMeasured"],
        )
        yield from build_notes(document["notes"])

    def build_csv(document: Json) -> str:
        return format_csv(keys, document["rows"])

    answer = build_answer(document, build_page, observed.cluster, LACKS, observed.seen.known, ABOUT)
    return replace(answer, build_csv=build_csv, notes=notes)


def _list_notes(measurement: Measurement) -> Iterator[str]:
    if measurement.allocated is None:
        yield (
            "Prometheus has no metrics of the operator: asked memory counts only for pods that are "
            "there now (docs/metrics.md)"
        )
    elif measurement.offered_seconds < _KNOWN * measurement.span.seconds:
        hours = measurement.offered_seconds / 3600
        yield f"The operator's metrics are there for {hours:.1f} h of the window only"


def _describe(
    row: HeldMemory, by: Grouping, offered: Mapping[str, float], price: Decimal | None
) -> Json:
    of_pool = offered.get(row.pool)
    asked = row.asked / _GIB_HOUR
    is_unknown = row.asked > 0 and row.unmeasured >= row.asked and not row.used
    described: Json = {} if by is Grouping.POOL else {"namespace": row.namespace}
    return described | {
        "pool": row.pool or None,
        "askedGibHours": round(asked, 2),
        "usedGibHours": None if is_unknown else round(row.used / _GIB_HOUR, 2),
        "unmeasuredGibHours": round(row.unmeasured / _GIB_HOUR, 2),
        "share": round(row.asked / of_pool, 4) if of_pool else None,
        "cost": None if price is None else str(_round(Decimal(str(asked)) * price)),
    }


def _round(amount: Decimal) -> Decimal:
    return amount.quantize(Decimal("0.01"))


def _tell_row(row: Json) -> Json:
    share = row["share"]
    used = row["usedGibHours"]
    return row | {
        "share": None if share is None else f"{share:.1%}",
        "usedGibHours": "unknown" if used is None else used,
        "unmeasuredGibHours": row["unmeasuredGibHours"] or None,
    }


def _list_unmeasured(observed: ObservedUsage) -> list[Json]:
    """List the nodes with pods that no exporter reports."""
    counts: dict[tuple[str, str], int] = {}
    for pod in observed.pods:
        if pod.key not in observed.measured.pods:
            counts[pod.node, pod.pool] = counts.get((pod.node, pod.pool), 0) + 1
    return [
        {"node": node, "pool": pool or None, "pods": count}
        for (node, pool), count in sorted(counts.items())
    ]
