"""What pools say of themselves, decided as the controller decides it."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from gpushare.api.pool import Pool, UnreadablePool
from gpushare.core.analysis.finding import Code, Finding, Severity, find, look_up
from gpushare.core.planner.planner import Planner
from gpushare.core.planner.pool_state import PoolState
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.core.status.pool_status import build_status
from gpushare.core.status.unschedulable_pods import UnschedulablePod
from gpushare.names import Condition, Reason

_CONDITIONS: Mapping[tuple[str, str], Severity] = {
    (Condition.CONFLICTING, "True"): Severity.WARNING,
    (Condition.ISOLATION_CONSISTENT, "False"): Severity.WARNING,
    (Condition.ISOLATION_CONSISTENT, "Unknown"): Severity.INFO,
    (Condition.NODES_LABELLED, "False"): Severity.INFO,
}
_REASONS: Mapping[tuple[str, Reason], Severity] = {
    (Condition.ROLLOUT_COMPLETE, Reason.ROLLOUT_HALTED): Severity.ERROR,
    (Condition.READY, Reason.NO_NODES): Severity.INFO,
}
_REMEDIES = {
    Reason.STALE_ISOLATION: "delete those pods, or set rollout.staleWorkloads to Evict",
    Reason.ROLLOUT_HALTED: "mend what failed, then gpushare retry {pool}",
}
"""Where more can be said than which page tells of the reason."""
_EXTENDER = {
    Reason.SCHEDULER_UNAVAILABLE: Severity.ERROR,
    # Another look a minute later may find that the scheduler's word was only old.
    Reason.EXTENDER_STALE: Severity.WARNING,
}


def judge_pools(
    snapshot: ClusterSnapshot,
    unreadable: Sequence[UnreadablePool],
    planner: Planner,
    now: datetime,
) -> Iterator[Finding]:
    """Findings about all pools, for which `planner` has planned; those of nodes are their own."""
    found = [_judge_unreadable(pool) for pool in unreadable]
    for pool in sorted(snapshot.pools, key=lambda pool: pool.name):
        found += _judge_conditions(pool, planner.pool_states[pool.name], now)
    yield from found
    if snapshot.pools and all(finding.severity is Severity.INFO for finding in found):
        count = len(snapshot.pools)
        told = f"{count} of {count} readable, none in conflict or halted"
        yield find(Code.POOLS_AS_PLANNED, "pools", told)


def _judge_unreadable(pool: UnreadablePool) -> Finding:
    told = f"its spec can't be read, and its nodes are left as they are: {pool.error}"
    remedy = look_up(Reason.SPEC_INVALID)
    return Finding(Severity.ERROR, Reason.SPEC_INVALID, f"pool {pool.name}", told, remedy)


def _judge_conditions(pool: Pool, pool_state: PoolState, now: datetime) -> Iterator[Finding]:
    """The conditions that say more than that a node is not ready."""
    for condition in build_status(pool, pool_state, now).conditions:
        reason = Reason(condition.reason)
        severity = _CONDITIONS.get((condition.type, condition.status)) or _REASONS.get(
            (condition.type, reason)
        )
        if severity is not None:
            remedy = _REMEDIES.get(reason, look_up(reason)).format(pool=pool.name)
            yield Finding(severity, reason, f"pool {pool.name}", condition.message, remedy)


def judge_extender(waiting: Sequence[UnschedulablePod]) -> Iterator[Finding]:
    """Whether pods wait for the scheduler extender itself: that is told once, not pod by pod."""
    for reason, severity in _EXTENDER.items():
        pods = [each for each in waiting if each.reason == reason]
        if pods:
            first = f"{pods[0].pod.namespace}/{pods[0].pod.name}"
            told = f"pods wait for it ({len(pods)}), such as {first}: {pods[0].message}"
            yield Finding(severity, reason, "scheduler extender", told, look_up(reason))
