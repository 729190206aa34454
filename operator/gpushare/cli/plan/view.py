"""Builds the answer of `gpushare plan`: what the controller will do, node by node."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from shlex import quote
from types import MappingProxyType
from typing import Any

from gpushare.analysis.effective_settings import PLANNED_BY, KnownSetup
from gpushare.analysis.finding import Finding
from gpushare.analysis.forecast.kept_fields import KeptField
from gpushare.analysis.forecast.pools import PoolForecast, forecast_pools
from gpushare.analysis.forecast.steps import NodeForecast
from gpushare.analysis.node_findings import group_by_code
from gpushare.analysis.program_name import name_command
from gpushare.api.manifest import ManifestError, check_update
from gpushare.api.pool import Pool
from gpushare.cli.cluster.access import Access
from gpushare.cli.cluster.basis import build_setup_lines, describe_setup
from gpushare.cli.cluster.snapshot import PLANNED, observe_cluster, observe_pools, with_pools
from gpushare.cli.errors.failures import build_unknown
from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.cli.input.manifests import Given
from gpushare.cli.input.pools import GivenPools, find_pools
from gpushare.cli.output.answer import Answer, Line, Styled
from gpushare.cli.output.facts import describe_plan
from gpushare.cli.output.tables import build_table
from gpushare.cli.plan.calendar import build_calendar, describe_windows
from gpushare.core.status.pool_status import build_unreadable_status
from gpushare.names import Condition

Json = dict[str, Any]

_STEPS = "WAVE:wave,NODE:node,CHANGE:change,DOES:does,PODS:count,WAITS FOR:waits"
_STEPS_WIDE = "WAVE:wave,NODE:node,CHANGE:change,DOES:does,PODS:pods,LABELS:written,WAITS FOR:waits"


def plan_manifests(access: Access, objects: Sequence[Given], at: datetime | None = None) -> Answer:
    """Plan these manifests. Raises `CommandError`, and what `errors_as_sentences` knows."""
    cluster = access.read(*PLANNED)
    given = find_pools(objects, cluster.pools or (), cluster.taken_at)
    seen = observe_cluster(cluster)
    present = {pool.name: pool for pool in seen.snapshot.pools}
    check_updates(given, present)
    asked = {pool.name for pool in given.pools}
    snapshot = with_pools(seen.snapshot, given.pools)
    forecasts = forecast_pools(snapshot, asked, seen.known.setup, cluster.taken_at, at)
    new = asked - present.keys()
    return _answer(forecasts, seen.known, new=new, kept=given.kept, others=given.skipped)


def check_updates(given: GivenPools, present: Mapping[str, Pool]) -> None:
    """Raise `CommandError` where the API server would refuse to change a `present` pool so."""
    for pool in given.pools:
        try:
            if (old := present.get(pool.name)) is not None:
                check_update(old, pool)
        except ManifestError as error:
            raise CommandError(Exit.MANIFEST, str(error)) from error


def plan_pool(access: Access, name: str, at: datetime | None = None) -> Answer:
    """Plan this pool. Raises `CommandError`, and what `errors_as_sentences` knows."""
    cluster = access.read(*PLANNED)
    seen = observe_pools(cluster)
    for lost in seen.unreadable:
        if lost.name == name:
            ready, *_ = build_unreadable_status(lost, cluster.taken_at).conditions
            raise CommandError(Exit.MANIFEST, f"pool {name}: {ready.message}")
    present = [pool.name for pool in seen.snapshot.pools]
    if name not in present:
        raise build_unknown("pool", name, present)
    forecasts = forecast_pools(seen.snapshot, {name}, seen.known.setup, cluster.taken_at, at)
    return _answer(forecasts, seen.known, is_there=True)


def _answer(
    forecasts: Sequence[PoolForecast],
    known: KnownSetup,
    *,
    new: Collection[str] = (),
    kept: Mapping[str, Sequence[KeptField]] = MappingProxyType({}),
    others: Sequence[str] = (),
    is_there: bool = False,
) -> Answer:
    """Build the answer. `new` pools are not in the cluster yet; with `is_there` the pool is, just
    as it is. `kept` has the fields that a pool's file leaves to others."""
    is_empty = all(forecast.is_empty for forecast in forecasts)
    document = {
        "changes": not is_empty,
        "pools": [
            {"new": each.pool.name in new, "fromFile": not is_there}
            | describe_forecast(each, kept.get(each.pool.name, ()))
            for each in forecasts
        ],
        "skipped": list(others),
        **describe_setup(known, PLANNED_BY),
    }
    return Answer(document, _build_page, exit_code=Exit.OK if is_empty else Exit.CHANGES)


def describe_forecast(forecast: PoolForecast, kept: Sequence[KeptField]) -> Json:
    """Describe everything that the controller will do for a pool."""
    pool, plan, duration = forecast.pool, forecast.plan, forecast.duration
    return {
        "name": pool.name,
        "edition": str(pool.spec.edition),
        "schedule": str(pool.spec.schedule),
        "reconcile": str(pool.spec.reconcile),
        "approval": str(pool.spec.rollout.approval),
        "acts": pool.acts,
        "changes": not forecast.is_empty,
        "hash": plan.hash,
        "summary": plan.summary,
        "waitsForApproval": forecast.waits_for_approval,
        "approved": plan.approved
        and {"hash": plan.approved.hash, "kinds": list(plan.approved.kinds)},
        "nodes": forecast.status.nodes.model_dump(by_alias=True),
        "conditions": [
            each.model_dump(include={"type", "status", "reason", "message"})
            for each in forecast.status.conditions
        ],
        "steps": [_describe_step(step) for step in forecast.steps],
        "limits": [_describe_limit(each, forecast) for each in group_by_code(forecast.limits)],
        "waves": duration.waves if duration else 0,
        "expectedSeconds": _to_seconds(duration.expected) if duration else None,
        "longestSeconds": _to_seconds(duration.longest) if duration else None,
        "reckoned": duration.basis if duration else "",
        **describe_windows(forecast),
        "kept": [
            {"field": ".".join(("spec", *field.path)), "manager": field.manager} for field in kept
        ],
    }


def _describe_limit(limit: Finding, forecast: PoolForecast) -> Json:
    alike = {each.object: each.message for each in forecast.limits if each.code is limit.code}
    return {"nodes": alike} | {field: str(value) for field, value in asdict(limit).items()}


def _describe_step(step: NodeForecast) -> Json:
    return {
        "node": step.node,
        "pool": step.pool,
        "fromPool": step.owner,
        "leaves": step.leaves,
        "wave": step.wave,
        "waveIsAbout": step.is_about,
        **describe_plan(step.plan),
        "blocker": step.blocker,
        "change": step.kind.change if step.kind else "",
        "outcome": str(step.kind.outcome) if step.kind else "",
        "labels": dict(sorted(step.labels.items())),
        "removedLabels": list(step.removed),
        "cordons": step.cordons,
        "restartsPlugin": step.restarts_plugin,
        "reboots": step.reboots,
        "writes": step.plan.action is not None,
        "pods": list(step.pods),
        "evictedPods": list(step.evicted),
    }


def _to_seconds(time: timedelta | None) -> float | None:
    return None if time is None else time.total_seconds()


def _build_page(document: Json, wide: bool) -> Iterator[Line]:
    for number, pool in enumerate(document["pools"]):
        if number:
            yield ()
        yield from build_forecast(pool, wide=wide)
    if document["skipped"]:
        yield ()
        yield (f"Skipped, because they are not pools: {', '.join(document['skipped'])}",)
    yield from build_setup_lines(document, wide=wide)


def build_forecast(document: Json, *, wide: bool) -> Iterator[Line]:
    """Build the lines of a pool's forecast."""
    name, plan_hash = document["name"], document["hash"]
    what = "new, " if document["new"] else ""
    matched = document["nodes"]["matched"]
    nodes = f"{matched} node{'' if matched == 1 else 's'}"
    yield (Styled(name, "bold"), f"  {what}{document['schedule']} on {nodes}")
    if not matched:
        yield (Styled("  spec.nodes matches no node of this cluster", "yellow"),)
    for condition in () if document["fromFile"] else document["conditions"]:
        if condition["type"] in (Condition.READY, Condition.ROLLOUT_COMPLETE):
            said = f"{condition['type']} {condition['status']}, {condition['reason']}"
            yield (f"  {said}: {condition['message']}",)
    if document["kept"]:
        kept = (f"{each['field']} (owned by {each['manager']})" for each in document["kept"])
        yield (f"  kept, because the file does not set it: {', '.join(kept)}",)
    if not document["changes"]:
        yield ("  nothing to do",)
    if not document["acts"]:
        yield (f"  reconcile is {document['reconcile']}: nothing of this begins",)
    if plan_hash:
        yield (f"  plan {plan_hash}: {document['summary']}",)
    if (approved := document["approved"]) is not None:
        agreed = "; ".join(approved["kinds"])
        yield (f"  already approved by rollout.approvedPlan {approved['hash']}: {agreed}",)
    rows = map(_build_row, document["steps"])
    yield from build_table(_STEPS_WIDE if wide else _STEPS, rows, {"waits": "yellow"})
    for limit in document["limits"]:
        said = f"{limit['object']}: {limit['message']}. {limit['remedy']}"
        yield ("  ", Styled(f"{limit['severity']}: {said}", "yellow"))
    if document["waves"]:
        yield _build_duration(document)
    yield from build_calendar(document)
    if document["waitsForApproval"]:
        command = name_command(f"approve {quote(name)} --hash {plan_hash}")
        yield (f"  to approve it, run: {command}",)


def _build_row(step: Json) -> Json:
    written = [f"{key}={value}" for key, value in step["labels"].items()]
    return step | {
        "wave": _describe_wave(step),
        "does": _describe_work(step),
        "count": len(step["pods"]) or None,
        "written": ",".join([*written, *(f"{key}-" for key in step["removedLabels"])]),
        "waits": f"{step['blocker']}: {step['message']}" if step["blocker"] else " ",
    }


def _describe_wave(step: Json) -> str | None:
    if step["wave"] is None:
        return None
    about = "about " if step["waveIsAbout"] else ""
    return f"{about}{step['wave'] or 'now'}"


def _describe_work(step: Json) -> str:
    """Describe what is done to a node, in its order."""
    written, evicted = len(step["labels"]) + len(step["removedLabels"]), len(step["evictedPods"])
    parts = (
        (step["fromPool"], f"from {step['fromPool']}"),
        (step["leaves"], "leaves"),
        (step["cordons"], "cordon"),
        (evicted, f"evict {evicted}"),
        (written, f"{written} label{'s' if written > 1 else ''}"),
        (step["restartsPlugin"], "restart plugin"),
        (step["reboots"], "reboot"),
    )
    records = "records" if step["writes"] and not step["leaves"] else "-"
    return ", ".join(part for is_done, part in parts if is_done) or records


def _build_duration(document: Json) -> Line:
    expected, longest = document["expectedSeconds"], document["longestSeconds"]
    parts = ["duration unknown" if expected is None else f"about {_tell_time(expected)}"]
    if longest is not None:
        until = f"at most {_tell_time(longest)} until each node is done or counts as failed"
        parts.append(until)
    return (f"  {', '.join(parts)}: {document['reckoned']}",)


def _tell_time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
