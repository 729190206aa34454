"""What a node's teardown needs next: a Job, or a person's hand."""

from dataclasses import dataclass, replace
from datetime import datetime

from gpushare import names
from gpushare.core.analysis.setup import Setup
from gpushare.core.nodechange.teardown import asks_for_commands
from gpushare.core.planner.planner import Planner
from gpushare.core.snapshot.actions import CreateJob
from gpushare.core.snapshot.cluster import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class DueJob:
    """A Job, and the pool for which it is made."""

    job: CreateJob
    pool: str


class NotDueError(ValueError):
    """The node's teardown is not so far; the message says where the node is."""


def find_due_job(snapshot: ClusterSnapshot, setup: Setup, node: str, now: datetime) -> DueJob:
    """What the controller would make for `node`, were teardowns by Jobs switched on.

    Also where it has made it: `snapshot` has no Jobs. Raises `NotDueError`.
    """
    planner = replace(setup, may_tear_down=True).build_planner()
    for decision in planner.update(snapshot, None, now).decisions:
        if decision.plan.node == node and isinstance(decision.plan.action, CreateJob):
            return DueJob(decision.plan.action, decision.pool)
    raise NotDueError(f"node {node} needs no teardown's Job now ({_tell(planner, node)})")


def expect_commands_due(snapshot: ClusterSnapshot, setup: Setup, node: str, now: datetime) -> None:
    """Raise `NotDueError` unless a person is to remove the module from `node` now.

    Elsewhere that would take isolation from pods, or the installer would put the module back.
    """
    planner = setup.build_planner()
    planner.update(snapshot, None, now)
    plans = (book.plans.get(node) for book in planner.books.values())
    if not any(plan is not None and asks_for_commands(plan) for plan in plans):
        start = f"{names.ANNOTATION_TEARDOWN}={names.TEARDOWN_START}"
        raise NotDueError(
            f"nothing is to be typed on node {node} now ({_tell(planner, node)}); first its pool "
            f"must want share, with isolationTeardown.policy Manual, and somebody annotate it "
            f"{start}: once it is emptied, cordoned and labelled it says ModuleRemoval"
        )


def _tell(planner: Planner, node: str) -> str:
    plans = (book.plans.get(node) for book in planner.books.values())
    said = [f"{plan.reason}: {plan.message}" for plan in plans if plan is not None]
    return "; ".join(said) or "no pool has it"
