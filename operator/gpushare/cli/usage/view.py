"""Builds the answers of `gpushare usage` about workloads."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from math import ceil
from shlex import quote
from typing import Any

from gpushare import names
from gpushare.analysis.program_name import name_command
from gpushare.analysis.usage.advice import AdviceCode, AdviceOptions, find_target
from gpushare.analysis.usage.workloads import WorkloadUsage, list_workloads
from gpushare.api.pruned.cluster import Kind
from gpushare.cli.cluster.access import Access
from gpushare.cli.cluster.basis import OF_STACKS, Lacks, build_answer
from gpushare.cli.errors.failures import build_unknown
from gpushare.cli.input.named_workload import NamedWorkload
from gpushare.cli.output.answer import Answer, Line, Styled, lay_out_facts
from gpushare.cli.output.data import format_csv
from gpushare.cli.output.tables import build_section, build_table, tell_time
from gpushare.cli.usage.source import ObservedUsage
from gpushare.settings import Variable
from gpushare.workload_kinds import WORKLOAD_KINDS

Json = dict[str, Any]
GIB = 2**30
ABOUT = (Variable.MEMORY_UNIT,)
"""Settings that answers depend on."""
LACKS: Lacks = {
    Kind.NODES: "pools, and advice: unit and isolation are those of the nodes",
    Kind.POOLS: "the pools of the nodes",
    **OF_STACKS,
}
_COLUMNS = (
    "NAMESPACE:namespace,WORKLOAD:workload,POOL:pool,PODS:pods,ASKED:asked,P50:p50,P95:p95,"
    "PEAK:peak,ADVICE:advice"
)
_CSV = (
    *("namespace", "kind", "name", "pools", "pods", "unit", "asked", "wholeCards"),
    *("usedP50Gib", "usedP95Gib", "usedPeakGib", "observedSeconds", "advice", "ask"),
)
_SETTABLE = ("Deployment", "StatefulSet", "DaemonSet")
"""Kinds whose request `kubectl set resources` changes, and whose pods follow."""
_MIGRATED = frozenset(each.kind for each in WORKLOAD_KINDS) | {"Pod"}
"""Kinds that `migrate workloads` reads from a cluster."""
_CHART_COLUMNS, _CHART_ROWS = 60, 6


def show_workloads(
    observed: ObservedUsage,
    wanted: NamedWorkload | None,
    options: AdviceOptions,
    access: Access,
) -> Answer:
    """Show all workloads, or one. Raises `CommandError` where that is unknown."""
    listed = list_workloads(
        observed.pods,
        observed.measured,
        options,
        observed.measurement.span.end,
        is_complete=observed.is_complete,
    )
    if wanted is not None:
        kept = [each for each in listed if _name(each) == wanted]
        if not kept:
            known = [str(_name(each)) for each in listed]
            raise build_unknown("workload", str(wanted), known)
        listed = kept
    document = {
        "window": describe_window(observed),
        "exporters": list(observed.measurement.exporters),
        "workloads": [
            _describe(each, options, access, with_points=wanted is not None) for each in listed
        ],
        "heldGib": round(sum(_sum_asked(each) for each in listed) / GIB, 1),
        "spareGib": round(sum(max(each.spare_bytes, 0) for each in listed) / GIB, 1),
        "notes": list(observed.notes),
    }
    page = _build_page if wanted is None else _build_one
    answer = build_answer(document, page, observed.cluster, LACKS, observed.seen.known, ABOUT)
    return replace(answer, build_csv=_build_csv, notes=observed.notes)


def describe_window(observed: ObservedUsage) -> Json:
    """Describe the span of an answer."""
    span = observed.measurement.span
    moments = (datetime.fromtimestamp(each, UTC) for each in (span.start, span.end))
    start, end = map(tell_time, moments)
    return {"start": start, "end": end, "seconds": round(span.seconds)}


def _name(usage: WorkloadUsage) -> NamedWorkload:
    return NamedWorkload(usage.workload.kind.lower(), usage.workload.name)


def _sum_asked(usage: WorkloadUsage) -> int:
    return sum(pod.asked_bytes for pod in usage.pods)


def _describe(
    usage: WorkloadUsage, options: AdviceOptions, access: Access, *, with_points: bool
) -> Json:
    pod, figures, advice = usage.figures.pod, usage.figures, usage.advice
    unit = "GiB" if pod.bytes_per_unit == GIB else "MiB"
    p50, p95 = usage.find_quantiles_bytes(0.5, 0.95)
    described = {
        "namespace": usage.namespace,
        "kind": usage.workload.kind,
        "name": usage.workload.name,
        "pools": list(usage.pools),
        "pods": len(usage.pods),
        "unit": unit,
        "asked": pod.units or None,
        "wholeCards": pod.cards if pod.is_whole else 0,
        "isolated": pod.is_isolated,
        "usedGib": {
            "p50": _tell_gib(p50),
            "p95": _tell_gib(p95),
            "peak": _tell_gib(figures.peak_bytes),
        },
        "observedSeconds": round(figures.observed_seconds),
        "advice": {
            "code": str(advice.code),
            "ask": advice.units,
            "message": _tell_advice(usage, options, unit),
            "command": _build_command(usage, access),
        },
    }
    if with_points:
        described["points"] = [
            {"time": tell_time(datetime.fromtimestamp(moment, UTC)), "usedGib": _tell_gib(value)}
            for moment, value in _merge_points(usage)
        ]
    return described


def _merge_points(usage: WorkloadUsage) -> list[tuple[float, float]]:
    """Merge the points of all pods: at each moment that of the pod that used most."""
    merged: dict[float, float] = {}
    for each in usage.measured:
        for moment, value in each.reading.points.items():
            merged[moment] = max(merged.get(moment, 0.0), value)
    return sorted(merged.items())


def _tell_gib(amount: float | None) -> float | None:
    return None if amount is None else round(amount / GIB, 2)


def _tell_advice(usage: WorkloadUsage, options: AdviceOptions, unit: str) -> str:
    figures, pod, ask = usage.figures, usage.figures.pod, usage.advice.units
    ask_for_all = find_target(figures, options)
    match usage.advice.code:
        case AdviceCode.NOT_MEASURED:
            nodes = sorted({pod.node for pod in usage.pods})
            more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
            return f"no series of its pods, on {nodes[0]}{more}"
        case AdviceCode.IMPLAUSIBLE:
            return "none: its series have values that no card has"
        case AdviceCode.PARTLY_MEASURED:
            return "none: not all of its pods, or not all series, were reported"
        case AdviceCode.SEVERAL_CONTAINERS:
            return f"{ask_for_all} would do for its containers together (now {pod.units})"
        case AdviceCode.NODE_UNREAD:
            return "none: you may not read its node"
        case AdviceCode.CARD_SHARED:
            return "only its card is reported, which other pods use too"
        case AdviceCode.SIZE_UNKNOWN:
            return "what it asked for has no known size"
        case AdviceCode.ABOVE_REQUEST:
            return f"uses more than it asked: ask {ask} (now {pod.units})"
        case AdviceCode.CRASHES:
            return "none: a container crashes, so its use was cut short"
        case AdviceCode.TOO_LITTLE_DATA:
            seen = _tell_hours(figures.observed_seconds)
            needed = _tell_hours(options.min_data_seconds)
            return f"none yet: seen with this request for {seen} of {needed}"
        case AdviceCode.NEVER_USED:
            return "never used the card"
        case AdviceCode.AT_LIMIT:
            return "none: its peak is at its limit, it may need more"
        case AdviceCode.SHARE_CARD:
            return f"whole card, would share: {ask} {unit}"
        case AdviceCode.LOWER:
            return f"ask {ask} (now {pod.units})"
        case AdviceCode.FITS:
            return "fits"


def _tell_hours(seconds: float) -> str:
    return f"{seconds / 3600:.0f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"


def _build_command(usage: WorkloadUsage, access: Access) -> str | None:
    """Build the command that follows the advice; None where there is none."""
    pod, kind, ask = usage.figures.pod, usage.workload.kind, usage.advice.units
    if ask is None:
        return None
    named = f"{kind.lower()}/{quote(usage.workload.name)} -n {quote(usage.namespace)}"
    options = replace(access, snapshot=None).list_options()
    if usage.advice.code is AdviceCode.SHARE_CARD:
        share = ceil(ask * pod.bytes_per_unit / GIB)
        command = name_command(f"migrate workloads {named} --share {share}")
        return f"{command} {options}".rstrip() if kind in _MIGRATED else None
    containers = {container for pod in usage.pods for container in pod.containers}
    if kind not in _SETTABLE or len(containers) != 1:
        return None
    amount, container = f"{names.RESOURCE_GPU_MEMORY}={ask}", quote(containers.pop())
    # The API server wants requests and limits of such a resource to be equal, if both are set.
    amounts = f"--limits={amount} --requests={amount}"
    return f"kubectl set resources {named} -c {container} {amounts} {options}".rstrip()


def _build_page(document: Json, wide: bool) -> Iterator[Line]:
    workloads = document["workloads"]
    if not workloads:
        yield ("No pods on cards found",)
    else:
        count = sum(each["advice"]["ask"] is not None for each in workloads)
        yield (
            f"{count} of {len(workloads)} workloads should ask for another amount; "
            f"{document['spareGib']:g} of the {document['heldGib']:g} GiB that they hold "
            "would be free",
        )
        yield ()
        yield from build_table(_COLUMNS, map(_build_row, workloads))
        yield ("  Used in GiB, of one pod: P50 and P95 of all points, and the highest peak",)
    advised = [
        {"workload": f"{each['kind'].lower()}/{each['name']}", **each["advice"]}
        for each in workloads
        if each["advice"]["command"]
    ]
    yield from build_section("To follow the advice", "COMMAND:command", advised)
    yield from build_notes(document["notes"])


def _build_row(workload: Json) -> Json:
    used = workload["usedGib"]
    return {
        "namespace": workload["namespace"],
        "workload": f"{workload['kind'].lower()}/{workload['name']}",
        "pool": ", ".join(workload["pools"]),
        "pods": workload["pods"],
        "asked": _tell_asked(workload),
        **{key: used[key] for key in ("p50", "p95", "peak")},
        "advice": _style(workload["advice"]),
    }


def _style(advice: Json) -> Styled | str:
    message: str = advice["message"]
    if advice["code"] == AdviceCode.ABOVE_REQUEST:
        return Styled(message, "red")
    is_change = advice["ask"] is not None or advice["code"] == AdviceCode.NEVER_USED
    return Styled(message, "yellow") if is_change else message


def _tell_asked(workload: Json) -> str | None:
    if cards := workload["wholeCards"]:
        size = f" of {workload['asked'] // cards} {workload['unit']}" if workload["asked"] else ""
        return f"{cards} card{'s' * (cards > 1)}{size}"
    return f"{workload['asked']} {workload['unit']}" if workload["asked"] else None


def build_notes(notes: Sequence[str]) -> Iterator[Line]:
    """Yield a line for each note."""
    if notes:
        yield ()
        yield from ((Styled(note, "yellow"),) for note in notes)


def _build_one(document: Json, wide: bool) -> Iterator[Line]:
    for number, workload in enumerate(document["workloads"]):
        if number:
            yield ()
        used = workload["usedGib"]
        yield (Styled(f"{workload['kind'].lower()}/{workload['name']}", "bold"),)
        facts = {
            "namespace": workload["namespace"],
            "pool": ", ".join(workload["pools"]) or "-",
            "pods": str(workload["pods"]),
            "asked": _tell_asked(workload) or "-",
            "used": "-"
            if used["peak"] is None
            else f"p50 {used['p50']} GiB, p95 {used['p95']} GiB, peak {used['peak']} GiB",
            "observed": _tell_hours(workload["observedSeconds"]),
            "advice": _style(workload["advice"]),
            "command": workload["advice"]["command"] or "-",
        }
        yield from lay_out_facts(facts.items())
        if workload["points"]:
            yield ()
            yield from _build_chart(workload)
    yield from build_notes(document["notes"])


def _build_chart(workload: Json) -> Iterator[Line]:
    """Draw the use of the pod that used most, oldest first, below the line of what it asked."""
    points = [
        (datetime.fromisoformat(each["time"]), each["usedGib"]) for each in workload["points"]
    ]
    first, last = points[0][0], points[-1][0]
    columns = [0.0] * _CHART_COLUMNS
    for moment, value in points:
        part = (moment - first) / (last - first) if last > first else 0.0
        column = min(int(part * _CHART_COLUMNS), _CHART_COLUMNS - 1)
        columns[column] = max(columns[column], value)
    asked = (workload["asked"] or 0) / (1 if workload["unit"] == "GiB" else 1024)
    top = max(asked, *columns)
    if not top:
        return
    for row in range(_CHART_ROWS, 0, -1):
        low, high = top * (row - 1) / _CHART_ROWS, top * row / _CHART_ROWS
        line = "-" if low < asked <= high else " "
        drawn = "".join("#" if value > low else line for value in columns)
        label = f"{high:.1f}" if row == _CHART_ROWS else ""
        mark = "  asked" if line == "-" else ""
        yield (f"  {label:>7} |{drawn}{mark}".rstrip(),)
    yield (f"  {'GiB':>7} +{'-' * _CHART_COLUMNS}",)
    yield (f"  {'':>7}  {tell_time(first)} to {tell_time(last)}",)


def _build_csv(document: Json) -> str:
    return format_csv(_CSV, _list_csv(document))


def _list_csv(document: Json) -> Iterator[Json]:
    for each in document["workloads"]:
        used = {f"used{key.capitalize()}Gib": value for key, value in each["usedGib"].items()}
        pools = " ".join(each["pools"])
        yield {
            **each,
            **used,
            "pools": pools,
            "ask": each["advice"]["ask"],
            "advice": each["advice"]["code"],
        }
