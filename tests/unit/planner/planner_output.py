"""Everything that a planner has decided, as values that a test can compare."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from gpushare.api.k8s.node import Node
from gpushare.api.pool import Pool
from gpushare.core.planner.planner import Planner
from gpushare.core.snapshot.actions import NodePlan
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.core.snapshot.node import Timing
from gpushare.names import Reason
from tests.kit.values.node_plans import INSTALLER
from tests.kit.values.objects import NOW, a_plugin_pod, a_pool, a_snapshot


@dataclass(frozen=True)
class Planned:
    """What was decided in one full pass."""

    members: Mapping[str, tuple[NodePlan, ...]]
    """By pool, every node that its status speaks of."""
    decided: Mapping[str, NodePlan]
    """By node, what is to be done now."""
    release: tuple[Pool, ...]


def plan_snapshot(
    snapshot: ClusterSnapshot,
    now: datetime = NOW,
    timing: Timing = Timing(),  # noqa: B008
) -> Planned:
    """One pass over everything, from nothing."""
    planner = Planner(timing)
    plan = planner.update(snapshot, None, now)
    return Planned(
        members={
            name: tuple(plan for _, plan in sorted(pool_plans.plans.items()))
            for name, pool_plans in planner.plans_by_pool.items()
        },
        decided={decision.plan.node: decision.plan for decision in plan.decisions},
        release=plan.release,
    )


class Rollout:
    """A pool with some nodes, planned event by event."""

    def __init__(self, *nodes: Node, pool: Pool | None = None, **rollout: Any):
        self.planner = Planner(Timing())
        self.pool = pool or a_pool(rollout=rollout)
        self.nodes = {node.name: node for node in nodes}
        self.started: set[str] = set()
        self.update(None)

    @property
    def snapshot(self) -> ClusterSnapshot:
        pods = [
            pod
            for name, node in self.nodes.items()
            if node.allocatable
            for pod in (a_plugin_pod(f"plugin-{name}", node=name), replace(INSTALLER, node=name))
        ]
        nodes = tuple(self.nodes.values())
        return a_snapshot(pools=(self.pool,), nodes=nodes, pods=tuple(pods))

    def update(self, changed: set[str] | None, now: datetime = NOW) -> None:
        decisions = self.planner.update(self.snapshot, changed, now).decisions
        self.started = {d.plan.node for d in decisions if d.plan.uses_budget and d.plan.action}

    def set(self, *nodes: Node, now: datetime = NOW) -> None:
        self.nodes |= {node.name: node for node in nodes}
        self.update({node.name for node in nodes}, now)

    def remove(self, name: str) -> None:
        del self.nodes[name]
        self.update({name})

    @property
    def reasons(self) -> Mapping[str, Reason]:
        plans = self.planner.plans_by_pool[self.pool.name].plans
        return {name: plan.reason for name, plan in sorted(plans.items())}
