"""Simulates what would happen to nodes if pools existed, by the planner itself."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from gpushare import names
from gpushare.analysis.effective_settings import guess_unit
from gpushare.analysis.quiet_writes import write_quietly
from gpushare.core.decision_settings import build_planner
from gpushare.core.snapshot.actions import NodePlan
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.settings import Settings


@dataclass(frozen=True, slots=True)
class Simulated:
    """The changes that one node would get."""

    node: str
    pool: str
    plan: NodePlan
    """The node's plan once the pool exists."""
    labels: Mapping[str, tuple[str | None, str | None]]
    """Labels that would change, each with its old and new value; None is absent."""

    @property
    def restarts(self) -> bool:
        """Whether the node's device plugin would be restarted."""
        return self.plan.kind is not None and self.plan.kind.restarts_plugin

    @property
    def reboots(self) -> bool:
        return self.plan.kind is not None and self.plan.kind.reboots

    @property
    def changes_mode(self) -> bool:
        """Whether the node needs more than labels: a restart, a teardown, or a user."""
        return self.plan.kind is not None or self.plan.action is not None

    @property
    def changed_labels(self) -> dict[str, tuple[str | None, str | None]]:
        """`labels`, without the operator's own new ones, which every adoption adds."""
        return {
            key: (of, to)
            for key, (of, to) in self.labels.items()
            if of is not None or not key.startswith(f"{names.GROUP}/")
        }

    @property
    def is_empty(self) -> bool:
        """Whether the node would only become a member of the pool."""
        return not (self.changes_mode or self.changed_labels)


def simulate(
    snapshot: ClusterSnapshot, pools: Collection[str], now: datetime
) -> tuple[Simulated, ...]:
    """Simulate what would happen to the members of these `pools` of `snapshot`, by node."""
    planner = build_planner(Settings(memory_unit=guess_unit(snapshot)))
    decisions = planner.update(snapshot, None, now).decisions
    settled, _ = write_quietly(planner, snapshot, decisions, pools, now)
    simulated = []
    for pool in sorted(pools):
        pool_plans = planner.plans_by_pool[pool]
        for node, plan in pool_plans.plans.items():
            if node in pool_plans.capacities:
                labels = _compare_labels(snapshot.nodes[node].labels, settled.nodes[node].labels)
                simulated.append(Simulated(node, pool, plan, labels))
    return tuple(sorted(simulated, key=lambda each: each.node))


def _compare_labels(
    before: Mapping[str, str], after: Mapping[str, str]
) -> dict[str, tuple[str | None, str | None]]:
    return {
        key: (before.get(key), after.get(key))
        for key in sorted(names.NODE_LABELS)
        if before.get(key) != after.get(key)
    }
