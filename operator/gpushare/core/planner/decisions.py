"""What the planner decided, and when it must decide again."""

from dataclasses import dataclass
from datetime import datetime

from gpushare.api.pool import Pool
from gpushare.core.snapshot.actions import StepResult


@dataclass(frozen=True, slots=True)
class NodeDecision:
    """What is to be done to one node, for which pool."""

    pool: str
    plan: StepResult


@dataclass(frozen=True, slots=True)
class Plan:
    """What a pass decided, for the nodes that it looked at."""

    decisions: tuple[NodeDecision, ...]
    release: tuple[Pool, ...]
    """Pools that are being deleted and need our finalizer no more."""
    requeue_at: datetime | None
    """When to decide again even if nothing happens."""
