"""Forecasts what the controller will do for pools that exist, or would after an apply."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from statistics import median

from gpushare.analysis.card_holders import judge_card_holders
from gpushare.analysis.finding import Finding
from gpushare.analysis.forecast.calendar import Calendar, forecast_calendar
from gpushare.analysis.forecast.duration import DurationForecast, forecast_duration
from gpushare.analysis.forecast.steps import NodeForecast, forecast_leaver, forecast_member
from gpushare.analysis.forecast.waves import find_waves
from gpushare.analysis.node_findings import judge_cgpu
from gpushare.analysis.quiet_writes import write_quietly
from gpushare.api.pool import Pool
from gpushare.api.status import PoolPlan, PoolStatus
from gpushare.core.decision_settings import build_planner, build_timing
from gpushare.core.ownership.claims import find_owner
from gpushare.core.planner.change_duration import find_needed
from gpushare.core.planner.decisions import NodeDecision
from gpushare.core.planner.planner import Planner
from gpushare.core.planner.pool_plans import PoolPlans
from gpushare.core.snapshot.actions import NodeState
from gpushare.core.snapshot.cluster import ClusterSnapshot, build_node_context
from gpushare.core.snapshot.node import ReconcileContext, Timing
from gpushare.core.status.plan_status import build_plan
from gpushare.core.status.pool_status import build_status
from gpushare.editions.registry import get_mode
from gpushare.names import Reason
from gpushare.settings import Settings


@dataclass(frozen=True, slots=True)
class PoolForecast:
    """The forecast for one pool."""

    pool: Pool
    status: PoolStatus
    """The status that the controller would write now."""
    plan: PoolPlan
    steps: tuple[NodeForecast, ...]
    """Nodes that are not as the pool says, or leave it; by wave and name."""
    duration: DurationForecast | None
    limits: tuple[Finding, ...] = ()
    """Limits of the pool's mode on the nodes of its steps, and uncounted pods there."""
    calendar: Calendar | None = None
    """The pool's waves by window; None without windows or waves."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be done to any node."""
        return not any(step.is_change for step in self.steps)

    @property
    def waits_for_approval(self) -> bool:
        """Whether the pool's changes wait for approval."""
        return any(step.plan.reason is Reason.WAITING_FOR_APPROVAL for step in self.steps)


def forecast_pools(
    snapshot: ClusterSnapshot,
    asked: Collection[str],
    setup: Settings,
    now: datetime,
    at: datetime | None = None,
) -> tuple[PoolForecast, ...]:
    """Forecast what the controller will do for the pools `asked`, decided by its own planner.

    Waves are numbered as if everything was approved that must be, and placed into the windows from
    `at` on, by default from `now` on.
    """
    planner = build_planner(setup)
    decisions = planner.update(snapshot, None, now).decisions
    if (noted := _note_approvals(snapshot, planner.plans_by_pool)) is not snapshot:
        snapshot, decisions = noted, planner.update(noted, None, now).decisions
    ctx = planner.build_context(snapshot, now)
    first = tuple(_list_steps(snapshot, planner, decisions, ctx))
    snapshot, settled = write_quietly(planner, snapshot, decisions, asked, now)
    steps = _join(first, _list_steps(snapshot, planner, settled, ctx))
    latest = {(each.pool, each.plan.node): each for each in (*decisions, *settled)}
    waves = find_waves(planner, snapshot, latest.values(), setup.max_joins)
    found = []
    for pool in sorted((p for p in snapshot.pools if p.name in asked), key=lambda pool: pool.name):
        state = planner.plans_by_pool[pool.name]
        own = [_number(step, waves) for step in steps if _concerns(step, pool.name, asked)]
        if any(step.is_place_unknown for step in own):
            own = [
                replace(step, is_about=bool(step.wave and not step.plan.started)) for step in own
            ]
        own.sort(key=lambda step: (step.wave is None, step.wave, step.node))
        duration = forecast_duration(pool, own, state.durations, snapshot, setup)
        found.append(
            PoolForecast(
                pool,
                build_status(pool, state, now, held=planner.releases.count(pool.name)),
                build_plan(pool, state) or PoolPlan(summary="nothing to change"),
                tuple(own),
                duration,
                tuple(_find_limits(pool, own, snapshot)),
                _place_waves(pool, own, state, duration, build_timing(setup), at or now),
            )
        )
    return tuple(found)


def _place_waves(
    pool: Pool,
    steps: Collection[NodeForecast],
    state: PoolPlans,
    duration: DurationForecast | None,
    timing: Timing,
    at: datetime,
) -> Calendar | None:
    """Place the waves into the pool's windows, by the time that each is expected to take."""
    taken = state.durations
    needed = each = find_needed(pool, state.longest_seconds, timing)
    if taken:
        each = timing.recheck + timedelta(seconds=median(taken))
    elif duration is not None and duration.expected is not None:
        each = duration.expected / duration.waves
    # The first change tells how long the others take.
    return forecast_calendar(pool, steps, each, needed, needed if taken else each, at)


def _find_limits(
    pool: Pool, steps: Iterable[NodeForecast], snapshot: ClusterSnapshot
) -> Iterator[Finding]:
    isolates = get_mode(pool.spec.edition, pool.spec.schedule).isolated
    for step in steps:
        if isolates and step.pool == pool.name and not step.leaves:
            yield from judge_cgpu(snapshot.nodes[step.node])
        if step.kind is not None:
            pods = snapshot.pods.get(step.node, ())
            yield from judge_card_holders(snapshot.nodes[step.node], pods)


def _note_approvals(
    snapshot: ClusterSnapshot, plans_by_pool: Mapping[str, PoolPlans]
) -> ClusterSnapshot:
    """Return `snapshot` once the controller has written into statuses what specs approve."""
    pools = []
    for pool in snapshot.pools:
        before, plan = pool.status.plan, build_plan(pool, plans_by_pool[pool.name])
        if (plan and plan.approved) != (before and before.approved):
            status = pool.status.model_copy(update={"plan": plan})
            pool = pool.model_copy(update={"status": status})
        pools.append(pool)
    return snapshot if tuple(pools) == snapshot.pools else replace(snapshot, pools=tuple(pools))


def _list_steps(
    snapshot: ClusterSnapshot,
    planner: Planner,
    decisions: Iterable[NodeDecision],
    ctx: ReconcileContext,
) -> Iterator[NodeForecast]:
    """List the steps of all nodes that are not as a pool wants, or leave one."""
    pools = {pool.name: pool for pool in snapshot.pools}
    told = set()
    for decision in decisions:
        name, plan = decision.plan.node, decision.plan
        told.add((decision.pool, name))
        context, pool = build_node_context(snapshot, name), pools.get(decision.pool)
        owner = find_owner(context.seen.node, context.seen.records) or ""
        if pool is None or (name in planner.releases and decision.pool == owner):
            step = forecast_leaver(context, pool, plan, ctx)
        else:
            step = forecast_member(context, pool, plan, may_evict=ctx.may_evict)
        if step.is_change or plan.state is not NodeState.READY:
            yield step
    for name, pool_plans in planner.plans_by_pool.items():
        for plan in pool_plans.plans.values():
            # It claims the node, and another pool has it.
            if (name, plan.node) not in told:
                yield NodeForecast(name, plan)


def _join(first: Iterable[NodeForecast], then: Iterable[NodeForecast]) -> tuple[NodeForecast, ...]:
    """Join the steps of each node: those of `first`, and those after its quiet writes."""
    later = {(step.pool, step.node): step for step in then}
    joined = []
    for step in first:
        shown = later.get((step.pool, step.node))
        if shown is None or shown.plan == step.plan or shown.plan.state is NodeState.READY:
            joined.append(step)
            continue
        removed = tuple(sorted({*step.removed, *shown.removed}))
        labels = {**step.labels, **shown.labels}
        joined.append(replace(shown, owner=step.owner, labels=labels, removed=removed))
    return tuple(joined)


def _number(step: NodeForecast, waves: Mapping[str, int]) -> NodeForecast:
    wave = waves.get(step.node)
    if wave is None and step.plan.action is not None and step.plan.started is None:
        wave = 0
    return replace(step, wave=wave)


def _concerns(step: NodeForecast, pool: str, asked: Collection[str]) -> bool:
    """Tell whether the node is the pool's, or goes from it to one that nobody asked for."""
    return step.pool == pool or (step.owner == pool and step.pool not in asked)
