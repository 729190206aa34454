"""The Job that a node's teardown needs next."""

from dataclasses import dataclass
from datetime import datetime

from gpushare.core.actions import CreateJob
from gpushare.core.setup import Setup
from gpushare.core.world import World


@dataclass(frozen=True, slots=True)
class DueJob:
    """A Job, and the pool for which it is made."""

    job: CreateJob
    pool: str


class NoJobDueError(ValueError):
    """The node's teardown needs none now; the message says where the node is."""


def find_due_job(world: World, node: str, now: datetime) -> DueJob:
    """What the controller would make for `node`, were teardowns by Jobs switched on.

    Also where it has made it: `world` has no Jobs. Raises `NoJobDueError`.
    """
    planner = Setup(may_tear_down=True).build_planner()
    for decision in planner.update(world, None, now).decisions:
        if decision.plan.node == node and isinstance(decision.plan.action, CreateJob):
            return DueJob(decision.plan.action, decision.pool)
    plans = (book.plans.get(node) for book in planner.books.values())
    said = [f"{plan.reason}: {plan.message}" for plan in plans if plan is not None]
    told = "; ".join(said) or "no pool has it"
    raise NoJobDueError(f"node {node} needs no teardown's Job now ({told})")
