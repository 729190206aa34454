"""Everything that a planner has decided, as values that a test can compare."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from gpushare.api.pool import Pool
from gpushare.core.actions import NodePlan
from gpushare.core.capacity import NodeCapacity
from gpushare.core.observed import Timing
from gpushare.core.plan import Planner
from gpushare.core.world import World
from tests.kit.values import NOW


@dataclass(frozen=True)
class Planned:
    """What was decided in one full pass."""

    members: Mapping[str, tuple[NodePlan, ...]]
    """By pool, every node that its status speaks of."""
    decided: Mapping[str, NodePlan]
    """By node, what is to be done now."""
    release: tuple[Pool, ...]
    capacities: Mapping[str, Mapping[str, NodeCapacity]]


def plan_world(world: World, now: datetime = NOW, timing: Timing = Timing()) -> Planned:  # noqa: B008
    """One pass over everything, from nothing."""
    planner = Planner(timing)
    plan = planner.update(world, None, now)
    return Planned(
        members=read_books(planner),
        decided={decision.plan.node: decision.plan for decision in plan.decisions},
        release=plan.release,
        capacities={name: book.capacities for name, book in planner.books.items()},
    )


def read_books(planner: Planner) -> dict[str, tuple[NodePlan, ...]]:
    """What stands planned, by pool, sorted by node."""
    return {
        name: tuple(plan for _, plan in sorted(book.plans.items()))
        for name, book in planner.books.items()
    }
