"""Defines the result of one pass of the planner."""

from dataclasses import dataclass
from datetime import datetime

from gpushare.api.pool import Pool
from gpushare.core.snapshot.actions import NodePlan


@dataclass(frozen=True, slots=True)
class NodeDecision:
    """The plan of one node, and the name of the pool that it is for."""

    pool: str
    plan: NodePlan


@dataclass(frozen=True, slots=True)
class Plan:
    """The result of one pass, for the nodes that it decided about."""

    decisions: tuple[NodeDecision, ...]
    release: tuple[Pool, ...]
    """Pools that are being deleted and need our finalizer no more."""
    requeue_at: datetime | None
    """When to decide again even if no event comes; None if never."""
