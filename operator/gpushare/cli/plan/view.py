"""`gpushare plan`: what the controller will do, node by node, before it is done."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from shlex import quote
from types import MappingProxyType
from typing import Any

from gpushare.api.manifest import ManifestError, check_update
from gpushare.cli.cluster.access import Access
from gpushare.cli.cluster.basis import build_setup_lines, describe_setup
from gpushare.cli.cluster.snapshot import PLANNED, observe_cluster, observe_pools, with_pools
from gpushare.cli.errors.failures import build_unknown
from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.cli.input.manifests import Given
from gpushare.cli.input.pools import find_pools
from gpushare.cli.output.answer import Answer, Line, Styled, lay_out
from gpushare.core.analysis.effective_settings import PLANNED_BY, KnownSetup
from gpushare.core.analysis.forecast.duration import DurationForecast
from gpushare.core.analysis.forecast.kept_fields import KeptField
from gpushare.core.analysis.forecast.pools import PoolForecast, forecast_pools
from gpushare.core.analysis.forecast.steps import NodeForecast
from gpushare.core.analysis.node_findings import group_by_code
from gpushare.names import Condition

Json = dict[str, Any]


def plan_manifests(access: Access, objects: Sequence[Given]) -> Answer:
    """The answer of `plan -f`. Raises `CommandError`, and what `errors_as_sentences` knows."""
    cluster = access.read(*PLANNED)
    given = find_pools(objects, cluster.pools or (), cluster.taken_at)
    seen = observe_cluster(cluster)
    present = {pool.name: pool for pool in seen.snapshot.pools}
    for pool in given.pools:
        try:
            if (old := present.get(pool.name)) is not None:
                check_update(old, pool)
        except ManifestError as error:
            raise CommandError(Exit.MANIFEST, str(error)) from error
    asked = {pool.name for pool in given.pools}
    snapshot = with_pools(seen.snapshot, given.pools)
    forecasts = forecast_pools(snapshot, asked, seen.known.setup, cluster.taken_at)
    new = asked - present.keys()
    return _answer(forecasts, seen.known, new=new, kept=given.kept, others=given.skipped)


def plan_pool(access: Access, name: str) -> Answer:
    """The answer of `plan pool`. Raises `CommandError`, and what `errors_as_sentences` knows."""
    cluster = access.read(*PLANNED)
    seen = observe_pools(cluster)
    for lost in seen.unreadable:
        if lost.name == name:
            raise CommandError(
                Exit.MANIFEST, f"the spec of pool {name} can't be read, so that its nodes are "
                f"left as they are: {lost.error}"
            )  # fmt: skip
    present = [pool.name for pool in seen.snapshot.pools]
    if name not in present:
        raise build_unknown("pool", name, present)
    forecasts = forecast_pools(seen.snapshot, {name}, seen.known.setup, cluster.taken_at)
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
    """`new` pools are not in the cluster yet; the pool of `plan pool` is, just as it is. `kept` is
    what the file of a pool leaves to others."""
    is_empty = all(forecast.is_empty for forecast in forecasts)
    document = {
        "changes": not is_empty,
        "pools": [
            _describe(each, is_new=each.pool.name in new)
            | {"kept": [_describe_kept(field) for field in kept.get(each.pool.name, ())]}
            for each in forecasts
        ],
        "skipped": list(others),
        "setup": describe_setup(known),
    }

    def build(wide: bool) -> list[Line]:
        page = _build_page(forecasts, new, kept, others, is_there=is_there, wide=wide)
        return [*page, *build_setup_lines(known, PLANNED_BY, wide=wide)]

    return Answer(document, build, exit_code=Exit.OK if is_empty else Exit.CHANGES)


# As data.


def _describe(forecast: PoolForecast, *, is_new: bool) -> Json:
    pool, status, plan = forecast.pool, forecast.status, forecast.plan
    forecast_duration = forecast.forecast_duration
    return {
        "name": pool.name,
        "new": is_new,
        "edition": str(pool.spec.edition),
        "schedule": str(pool.spec.schedule),
        "reconcile": str(pool.spec.reconcile),
        "approval": str(pool.spec.rollout.approval),
        "hash": plan.hash,
        "summary": plan.summary,
        "waitsForApproval": forecast.waits_for_approval,
        "approved": None
        if plan.approved is None
        else {"hash": plan.approved.hash, "kinds": list(plan.approved.kinds)},
        "nodes": status.nodes.model_dump(by_alias=True),
        "conditions": [
            {"type": c.type, "status": c.status, "reason": c.reason, "message": c.message}
            for c in status.conditions
        ],
        "steps": [_describe_step(step) for step in forecast.steps],
        "limits": [
            {"code": str(limit.code), "object": limit.object, "message": limit.message}
            for limit in forecast.limits
        ],
        "waves": forecast_duration.waves if forecast_duration is not None else 0,
        "expectedMinutes": _to_minutes(forecast_duration.expected)
        if forecast_duration is not None
        else None,
        "longestMinutes": _to_minutes(forecast_duration.longest)
        if forecast_duration is not None
        else None,
        "reckoned": forecast_duration.basis if forecast_duration is not None else "",
    }


def _describe_kept(field: KeptField) -> Json:
    return {"field": ".".join(("spec", *field.path)), "manager": field.manager}


def _describe_step(step: NodeForecast) -> Json:
    kind = step.kind
    return {
        "node": step.node,
        "pool": step.pool,
        "fromPool": step.owner,
        "leaves": step.leaves,
        "wave": step.wave,
        "state": str(step.plan.state),
        "reason": str(step.plan.reason),
        "message": step.plan.message,
        "blocker": step.blocker,
        "change": kind.change if kind is not None else "",
        "outcome": str(kind.outcome) if kind is not None else "",
        "labels": dict(sorted(step.labels.items())),
        "removedLabels": list(step.removed),
        "cordons": step.cordons,
        "restartsPlugin": step.restarts_plugin,
        "reboots": step.reboots,
        "pods": list(step.pods),
        "evictedPods": list(step.evicted),
    }


def _to_minutes(time: timedelta | None) -> float | None:
    return None if time is None else round(time.total_seconds() / 60, 1)


# For people.


def _build_page(
    forecasts: Sequence[PoolForecast],
    new: Collection[str],
    kept: Mapping[str, Sequence[KeptField]],
    others: Sequence[str],
    *,
    is_there: bool,
    wide: bool,
) -> Iterator[Line]:
    for number, forecast in enumerate(forecasts):
        if number:
            yield ()
        left = kept.get(forecast.pool.name, ())
        yield from _build_pool(forecast, new, left, is_there=is_there, wide=wide)
    if others:
        yield ()
        yield (f"Skipped, since they are no pools: {', '.join(others)}",)


def _build_pool(
    forecast: PoolForecast,
    new: Collection[str],
    kept: Sequence[KeptField],
    *,
    is_there: bool,
    wide: bool,
) -> Iterator[Line]:
    pool, plan = forecast.pool, forecast.plan
    what = "new, " if pool.name in new else ""
    matched = forecast.status.nodes.matched
    nodes = f"{matched} node{'' if matched == 1 else 's'}"
    yield (Styled(pool.name, "bold"), f"  {what}{pool.spec.schedule} on {nodes}")
    if is_there:
        for condition in forecast.status.conditions:
            if condition.type in (Condition.READY, Condition.ROLLOUT_COMPLETE):
                said = f"{condition.type} {condition.status}, {condition.reason}"
                yield (f"  {said}: {condition.message}",)
    if kept:
        listed = ", ".join(map(str, kept))
        yield (f"  left as it is, since the file has nothing of it: {listed}",)
    if forecast.is_empty:
        yield ("  nothing to do",)
    if not pool.acts:
        yield (f"  reconcile is {pool.spec.reconcile}: none of it is begun",)
    if plan.hash:
        yield (f"  plan {plan.hash}: {plan.summary}",)
    if plan.approved is not None:
        agreed = "; ".join(plan.approved.kinds)
        yield (f"  agreed to already by rollout.approvedPlan {plan.approved.hash}: {agreed}",)
    if forecast.steps:
        yield from _build_steps(forecast.steps, wide=wide)
    for limit in group_by_code(forecast.limits):
        said = f"{limit.object}: {limit.message}; {limit.remedy}"
        yield ("  ", Styled(f"{limit.severity}: {said}", "yellow"))
    if forecast.forecast_duration is not None:
        yield from _describe_duration(forecast.forecast_duration)
    if forecast.waits_for_approval:
        name = quote(pool.name)
        yield (f"  to agree to it: gpushare approve {name} --hash {plan.hash}",)


def _build_steps(steps: Sequence[NodeForecast], *, wide: bool) -> Iterator[Line]:
    rows: list[Line] = []
    for step in steps:
        wave = "-" if step.wave is None else "now" if step.wave == 0 else str(step.wave)
        change = step.kind.change if step.kind is not None else "-"
        pods = str(len(step.pods) or "-")
        row: list[str | Styled] = [wave, step.node, change, _tell(step), pods]
        if wide:
            row[-1] = ", ".join(step.pods) or "-"
            row.append(_tell_labels(step))
        waits = f"{step.blocker}: {step.plan.message}" if step.blocker else ""
        rows.append((*row, Styled(waits, "yellow")))
    header = ["WAVE", "NODE", "CHANGE", "DOES", "PODS"]
    yield from lay_out([*header, *(["LABELS"] if wide else []), "WAITS FOR"], rows, indent=2)


def _tell(step: NodeForecast) -> str:
    """What is done, in its order."""
    written = len(step.labels) + len(step.removed)
    parts = [
        f"from {step.owner}" if step.owner else "",
        "leaves" if step.leaves else "",
        "cordon" if step.cordons else "",
        f"evict {len(step.evicted)}" if step.evicted else "",
        f"{written} label{'s' if written > 1 else ''}" if written else "",
        "restart plugin" if step.restarts_plugin else "",
        "reboot" if step.reboots else "",
    ]
    records = "records" if step.plan.action is not None and not step.leaves else "-"
    return ", ".join(part for part in parts if part) or records


def _tell_labels(step: NodeForecast) -> str:
    written = [f"{key}={value}" for key, value in sorted(step.labels.items())]
    return ",".join([*written, *(f"{key}-" for key in step.removed)]) or "-"


def _describe_duration(forecast_duration: DurationForecast) -> Iterator[Line]:
    parts = ["how long is not known"]
    if forecast_duration.expected is not None:
        parts = [f"about {_tell_time(forecast_duration.expected)}"]
    if forecast_duration.longest is not None:
        longest = _tell_time(forecast_duration.longest)
        parts.append(f"at most {longest} until each node is done or counts as failed")
    yield (f"  {', '.join(parts)}: {forecast_duration.basis}",)


def _tell_time(time: timedelta) -> str:
    seconds = time.total_seconds()
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
