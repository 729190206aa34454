"""What would become of nodes if pools were there that are not: the planner's own word."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.core.analysis.effective_settings import Setup, guess_unit
from gpushare.core.planner.planner import Planner
from gpushare.core.planner.simulation import settle
from gpushare.core.snapshot.actions import StepResult
from gpushare.core.snapshot.cluster import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class Simulated:
    """What would become of one node."""

    node: str
    pool: str
    plan: StepResult
    """Where it would stand then, and why."""
    labels: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    """Labels that would be others, each with what it is and would be; None is absent."""
    restarts: bool = False
    """Its device plugin would be restarted."""
    reboots: bool = False

    @property
    def changes_mode(self) -> bool:
        """It needs more than labels: a restart, a teardown, or a person."""
        return self.plan.kind is not None or self.plan.action is not None

    @property
    def changed_labels(self) -> dict[str, tuple[str | None, str | None]]:
        """`labels`, but for our own that were not there: those are what adoption is."""
        return {
            key: (of, to)
            for key, (of, to) in self.labels.items()
            if of is not None or not key.startswith(f"{names.GROUP}/")
        }

    @property
    def is_empty(self) -> bool:
        """Nothing would happen to it but that it becomes a member."""
        return not (self.changes_mode or self.changed_labels)


def simulate(
    snapshot: ClusterSnapshot, pools: Collection[str], now: datetime
) -> tuple[Simulated, ...]:
    """What would become of the members of these `pools` of `snapshot`, by node."""
    planner = Setup(guess_unit(snapshot)).build_planner()
    decisions = planner.update(snapshot, None, now).decisions
    settled, _ = settle(planner, snapshot, decisions, pools, now)
    plans = {node: (pool, p) for pool in sorted(pools) for node, p in _members(planner, pool)}
    return tuple(
        _describe(pool, plan, snapshot.nodes[node], settled.nodes[node])
        for node, (pool, plan) in sorted(plans.items())
    )


def _members(planner: Planner, pool: str) -> list[tuple[str, StepResult]]:
    book = planner.books[pool]
    return [(node, plan) for node, plan in book.plans.items() if node in book.capacities]


def _describe(pool: str, plan: StepResult, before: Node, after: Node) -> Simulated:
    keys = {k for k in names.NODE_LABELS if before.labels.get(k) != after.labels.get(k)}
    return Simulated(
        node=before.name,
        pool=pool,
        plan=plan,
        labels={key: (before.labels.get(key), after.labels.get(key)) for key in sorted(keys)},
        restarts=plan.kind is not None and plan.kind.restarts_plugin,
        reboots=plan.kind is not None and plan.kind.reboots,
    )
