"""Explains one pool: its conditions as of now, its nodes by what they wait for, and the pods that
wait for it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Pool
from gpushare.api.status import ConditionStatus, PoolStatus
from gpushare.core.planner.planner import Planner
from gpushare.core.snapshot.actions import NodePlan, NodeState
from gpushare.core.status.pool_status import URGENCY, build_status
from gpushare.core.status.unschedulable_pods import group_by_pool
from gpushare.names import Condition, Reason

_HEALTHY: Mapping[str, str] = {Condition.CONFLICTING: "False"}
"""Healthy statuses of conditions; that of all others is True."""


@dataclass(frozen=True, slots=True)
class ConditionLine:
    """A condition as of now, beside the one that the controller wrote last."""

    now: ConditionStatus
    told: ConditionStatus | None

    @property
    def is_healthy(self) -> bool:
        return self.now.status == _HEALTHY.get(self.now.type, "True")


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes that are at the same point for the same reason."""

    state: NodeState
    reason: Reason
    plans: tuple[NodePlan, ...]
    """Plans of the group's nodes, sorted by name."""


@dataclass(frozen=True, slots=True)
class PoolExplanation:
    """Everything that explains a pool."""

    pool: Pool
    conditions: tuple[ConditionLine, ...]
    status: PoolStatus
    """The status that the controller would write now."""
    groups: tuple[NodeGroup, ...]
    """The most urgent first."""
    out_of_service: tuple[str, ...]
    """Nodes that use the rollout's budget up."""
    releasing: int
    """Nodes that must still be given back by a pool that is being deleted."""

    @property
    def is_unheard(self) -> bool:
        """Whether no controller has ever written the pool's status."""
        return not self.pool.status.conditions

    @property
    def hears_nothing(self) -> bool:
        """Whether no controller has acted on the pool's current spec."""
        return self.is_unheard or self.pool.status.observed_generation < self.pool.generation


def explain_pool(
    pool: Pool, planner: Planner, unbound: Sequence[Pod], now: datetime
) -> PoolExplanation:
    """Explain the `pool`, for which `planner` has planned; `unbound` are pods without a node."""
    pool_plans = planner.plans_by_pool[pool.name]
    pending = group_by_pool(unbound).get(pool.name, ())
    releasing = planner.releases.count(pool.name)
    status = build_status(pool, pool_plans, now, held=releasing, pending=pending)
    told = {condition.type: condition for condition in pool.status.conditions}
    return PoolExplanation(
        pool=pool,
        conditions=tuple(ConditionLine(each, told.get(each.type)) for each in status.conditions),
        status=status,
        groups=tuple(_group(pool_plans.plans.values())),
        out_of_service=tuple(sorted(pool_plans.unavailable)),
        releasing=releasing,
    )


def _group(plans: Iterable[NodePlan]) -> Iterator[NodeGroup]:
    def find_point(plan: NodePlan) -> tuple[int, str]:
        return URGENCY.index(plan.state), plan.reason

    ranked = sorted(plans, key=lambda plan: (find_point(plan), plan.node))
    for _, group in groupby(ranked, key=find_point):
        alike = tuple(group)
        yield NodeGroup(alike[0].state, alike[0].reason, alike)
