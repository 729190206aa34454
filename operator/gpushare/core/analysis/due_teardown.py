"""Whether a person is to remove the kernel module from a node now."""

from datetime import datetime

from gpushare import names
from gpushare.core.analysis.inspect.pools import plan_snapshot
from gpushare.core.analysis.setup import Setup
from gpushare.core.nodechange.teardown import asks_for_commands
from gpushare.core.snapshot.cluster import ClusterSnapshot


class NotDueError(ValueError):
    """The node's teardown is not so far; the message says where the node is."""


def expect_commands_due(snapshot: ClusterSnapshot, setup: Setup, node: str, now: datetime) -> None:
    """Raise `NotDueError` unless a person is to remove the module from `node` now.

    Elsewhere that would take isolation from pods, or the installer would put the module back.
    """
    books = plan_snapshot(snapshot, setup, now).books
    plans = [book.plans[node] for book in books.values() if node in book.plans]
    if not any(map(asks_for_commands, plans)):
        told = "; ".join(f"{plan.reason}: {plan.message}" for plan in plans)
        start = f"{names.ANNOTATION_TEARDOWN}={names.TEARDOWN_START}"
        raise NotDueError(
            f"nothing is to be typed on node {node} now ({told or 'no pool has it'}); first its "
            "pool must want share, with isolationTeardown.policy Manual, and somebody annotate it "
            f"{start}: once it is emptied, cordoned and labelled it says ModuleRemoval"
        )
