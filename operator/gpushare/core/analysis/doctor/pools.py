"""What pools say of themselves, decided as the controller decides it."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from gpushare.api.pool import Pool
from gpushare.api.unreadable_pool import UnreadablePool
from gpushare.core.analysis.finding import Code, Finding, Severity, find, look_up
from gpushare.core.analysis.inspect.pools import Waiting
from gpushare.core.planner.planner import Planner
from gpushare.core.planner.pool_state import Book
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.core.status.pool_status import build_status
from gpushare.names import Condition, Reason

_EXTENDER = {
    Reason.SCHEDULER_UNAVAILABLE: Severity.ERROR,
    # Another look a minute later may find that the scheduler's word was only old.
    Reason.EXTENDER_STALE: Severity.WARNING,
}


def judge_pools(
    snapshot: ClusterSnapshot, unreadable: Iterable[UnreadablePool], planner: Planner, now: datetime
) -> Iterator[Finding]:
    """Findings about all pools, for which `planner` has planned; those of nodes are their own."""
    lost = list(unreadable)
    for broken in lost:
        told = f"its spec can't be read, and its nodes are left as they are: {broken.error}"
        about, remedy = f"pool {broken.name}", look_up(Reason.SPEC_INVALID)
        yield Finding(Severity.ERROR, Reason.SPEC_INVALID, about, told, remedy)
    well = not lost
    for pool in sorted(snapshot.pools, key=lambda pool: pool.name):
        book = planner.books[pool.name]
        for finding in _judge_conditions(pool, book, now):
            well = well and finding.severity is Severity.INFO
            yield finding
    if well and snapshot.pools:
        count = len(snapshot.pools)
        told = f"{count} of {count} pools {_be(count)} readable, and neither in conflict nor halted"
        yield find(Code.POOLS_AS_PLANNED, "pools", told)


def _judge_conditions(pool: Pool, book: Book, now: datetime) -> Iterator[Finding]:
    """The conditions that say more than that a node is not ready."""
    about = f"pool {pool.name}"
    for condition in build_status(pool, book, now).conditions:
        reason, message = Reason(condition.reason), condition.message
        match condition.type, condition.status:
            case (Condition.CONFLICTING, "True"):
                yield Finding(Severity.WARNING, reason, about, message, look_up(reason))
            case (Condition.ISOLATION_CONSISTENT, "False"):
                remedy = "delete those pods, or set rollout.staleWorkloads to Evict"
                yield Finding(Severity.WARNING, reason, about, message, remedy)
            case (Condition.ISOLATION_CONSISTENT, "Unknown"):
                yield Finding(Severity.INFO, reason, about, message, look_up(reason))
            case (Condition.ROLLOUT_COMPLETE, "False") if reason is Reason.ROLLOUT_HALTED:
                remedy = "mend what failed, then gpushare retry " + pool.name
                yield Finding(Severity.ERROR, reason, about, message, remedy)
            case (Condition.NODES_LABELLED, "False"):
                yield Finding(Severity.INFO, reason, about, message, look_up(reason))
            case (Condition.READY, "True") if reason is Reason.NO_NODES:
                yield Finding(Severity.INFO, reason, about, message, look_up(reason))
            case _:
                pass


def judge_extender(waiting: Sequence[Waiting]) -> Iterator[Finding]:
    """Whether pods wait for the scheduler extender itself: that is told once, not pod by pod."""
    for reason, severity in _EXTENDER.items():
        pods = [each for each in waiting if each.reason == reason]
        if pods:
            first = f"{pods[0].pod.namespace}/{pods[0].pod.name}"
            told = f"{len(pods)} pods wait for it, such as {first}: {pods[0].message}"
            yield Finding(severity, reason, "scheduler extender", told, look_up(reason))


def _be(count: int) -> str:
    return "is" if count == 1 else "are"
