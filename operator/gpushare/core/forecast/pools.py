"""What the controller will do for pools that are there, or would be after an apply."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from gpushare.api.pool import Pool
from gpushare.api.rollout import ApprovalPolicy
from gpushare.api.status import PoolPlan, PoolStatus
from gpushare.core.actions import NodeState
from gpushare.core.book import Book
from gpushare.core.doctor.finding import Finding
from gpushare.core.doctor.limits import judge_cgpu_nodes
from gpushare.core.forecast.estimate import Estimate, Pace, estimate
from gpushare.core.forecast.steps import NodeForecast, forecast_leaver, forecast_member
from gpushare.core.forecast.waves import order_waves
from gpushare.core.kinds import hash_kinds
from gpushare.core.membership import find_owner
from gpushare.core.modes import MODES
from gpushare.core.observed import Pass
from gpushare.core.outlook import build_plan
from gpushare.core.plan import Decision, Planner
from gpushare.core.settling import settle
from gpushare.core.setup import Setup
from gpushare.core.status import build_status
from gpushare.core.world import World, judge
from gpushare.names import Reason


@dataclass(frozen=True, slots=True)
class PoolForecast:
    """What will be done for one pool."""

    pool: Pool
    status: PoolStatus
    """As the controller would write it now."""
    plan: PoolPlan
    steps: tuple[NodeForecast, ...]
    """Nodes that are not as the pool says, or leave it; by wave and name."""
    estimate: Estimate | None
    limits: tuple[Finding, ...] = ()
    """What its mode can't do on the nodes of its steps."""

    @property
    def is_empty(self) -> bool:
        """Nothing is to be done to any node."""
        return not any(step.is_change for step in self.steps)

    @property
    def waits_for_approval(self) -> bool:
        """Nothing of it begins before somebody agrees."""
        return any(step.plan.reason is Reason.WAITING_FOR_APPROVAL for step in self.steps)


def forecast_pools(
    world: World, asked: Collection[str], setup: Setup, now: datetime
) -> tuple[PoolForecast, ...]:
    """What the controller will do for the pools `asked`, decided by its own planner.

    Waves are told as if everything was agreed to that must be.
    """
    planner = setup.build_planner()
    decisions = planner.update(world, None, now).decisions
    if (noted := _note_approvals(world, planner.books)) is not world:
        world, decisions = noted, planner.update(noted, None, now).decisions
    at = setup.build_pass(world, now)
    first = tuple(_list_steps(world, planner, decisions, at))
    world, settled = settle(planner, world, decisions, asked, now)
    steps = _join(first, _list_steps(world, planner, settled, at))
    told = {
        pool.name: (_build_status(pool, planner, now), _build_plan(pool, planner.books[pool.name]))
        for pool in world.pools
        if pool.name in asked
    }
    agreed = _agree_to_all(world, planner.books)
    waves = order_waves(planner, agreed, planner.update(agreed, None, now).decisions, now)
    found = []
    for pool in sorted(world.pools, key=lambda pool: pool.name):
        if pool.name in told:
            own = [_number(step, waves) for step in steps if _concerns(step, pool.name, asked)]
            own.sort(key=lambda step: (step.wave is None, step.wave, step.node))
            estimated = estimate(pool, own, world, Pace(setup.second_look, setup.timing))
            limits = tuple(_find_limits(pool, own, world))
            found.append(PoolForecast(pool, *told[pool.name], tuple(own), estimated, limits))
    return tuple(found)


def _find_limits(pool: Pool, steps: Iterable[NodeForecast], world: World) -> Iterator[Finding]:
    if MODES[pool.spec.edition, pool.spec.schedule].isolated:
        enters = (step for step in steps if step.pool == pool.name and not step.leaves)
        yield from judge_cgpu_nodes(world.nodes[step.node] for step in enters)


# Approval.


def _note_approvals(world: World, books: Mapping[str, Book]) -> World:
    """`world` once the controller has written into statuses what specs agree to."""
    pools = []
    for pool in world.pools:
        before, plan = pool.status.plan, build_plan(pool, books[pool.name])
        approved = plan.approved if plan is not None else None
        same = approved == (before.approved if before is not None else None)
        pools.append(pool if same else _with_plan(pool, plan))
    if all(new is old for new, old in zip(pools, world.pools, strict=True)):
        return world
    return replace(world, pools=tuple(pools))


def _agree_to_all(world: World, books: Mapping[str, Book]) -> World:
    """`world` once somebody has agreed to all that is left to do."""
    pools = []
    for pool in world.pools:
        kinds = books[pool.name].kinds
        if pool.spec.rollout.approval is ApprovalPolicy.MANUAL and kinds:
            rollout = pool.spec.rollout.model_copy(update={"approved_plan": hash_kinds(kinds)})
            spec = pool.spec.model_copy(update={"rollout": rollout})
            meant = pool.model_copy(update={"spec": spec})
            pool = _with_plan(meant, build_plan(meant, books[pool.name]))
        pools.append(pool)
    return replace(world, pools=tuple(pools))


def _with_plan(pool: Pool, plan: PoolPlan | None) -> Pool:
    status = pool.status.model_copy(update={"plan": plan})
    return pool.model_copy(update={"status": status})


# What is told.


def _build_status(pool: Pool, planner: Planner, now: datetime) -> PoolStatus:
    held = planner.holdings.count(pool.name)
    return build_status(pool, planner.books[pool.name], now, held=held)


def _build_plan(pool: Pool, book: Book) -> PoolPlan:
    return build_plan(pool, book) or PoolPlan(summary="nothing is left to change")


def _list_steps(
    world: World, planner: Planner, decisions: Iterable[Decision], at: Pass
) -> Iterator[NodeForecast]:
    """Of all nodes that are not as a pool says, or leave one."""
    pools = {pool.name: pool for pool in world.pools}
    told = set()
    for decision in decisions:
        name, plan = decision.plan.node, decision.plan
        told.add((decision.pool, name))
        judged, pool = judge(world, name), pools.get(decision.pool)
        owner = find_owner(judged.seen.node, judged.seen.records) or ""
        if pool is None or (name in planner.holdings and decision.pool == owner):
            step = forecast_leaver(judged, pool, plan, at)
        else:
            step = forecast_member(judged, pool, plan, may_evict=at.may_evict)
        if step.is_change or plan.state is not NodeState.READY:
            yield step
    for name, book in planner.books.items():
        for plan in book.plans.values():
            # It claims the node, and another pool has it.
            if (name, plan.node) not in told:
                yield NodeForecast(name, plan)


def _join(first: Iterable[NodeForecast], then: Iterable[NodeForecast]) -> tuple[NodeForecast, ...]:
    """All steps of a node: those of `first`, and what shows once its quiet writes are done."""
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
    if wave is None and step.plan.action is not None and not step.plan.in_line:
        wave = 0
    return replace(step, wave=wave)


def _concerns(step: NodeForecast, pool: str, asked: Collection[str]) -> bool:
    """Whether the node is the pool's, or goes from it to one that nobody asked for."""
    return step.pool == pool or (step.owner == pool and step.pool not in asked)
