"""Finds what is wrong with pools, by the controller's own decisions."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from gpushare.analysis.finding import Finding, FindingCode, Severity, look_up, report
from gpushare.api.pool import Pool, UnreadablePool
from gpushare.core.planner.planner import Planner
from gpushare.core.planner.pool_plans import PoolPlans
from gpushare.core.snapshot.cluster import ClusterSnapshot
from gpushare.core.status.pool_status import build_status, build_unreadable_status
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
    (Condition.ROLLOUT_COMPLETE, Reason.JOINS_HALTED): Severity.ERROR,
    (Condition.ROLLOUT_COMPLETE, Reason.SPEC_CONTESTED): Severity.WARNING,
    (Condition.READY, Reason.NO_NODES): Severity.INFO,
    (Condition.READY, Reason.SPEC_INVALID): Severity.ERROR,
}
_EXTENDER = {
    Reason.SCHEDULER_UNAVAILABLE: Severity.ERROR,
    # A minute later the scheduler's message may prove to have been outdated.
    Reason.EXTENDER_STALE: Severity.WARNING,
}


def judge_pools(
    snapshot: ClusterSnapshot,
    unreadable: Sequence[UnreadablePool],
    planner: Planner,
    now: datetime,
) -> Iterator[Finding]:
    """Find what is wrong with all pools for which `planner` has planned; nodes are not checked."""
    found = [_judge_unreadable(pool, now) for pool in unreadable]
    for pool in sorted(snapshot.pools, key=lambda pool: pool.name):
        found += _judge_conditions(pool, planner.plans_by_pool[pool.name], now)
    yield from found
    if snapshot.pools and all(finding.severity is Severity.INFO for finding in found):
        count = len(snapshot.pools)
        told = f"Pools readable, not in conflict and not halted: {count} of {count}"
        yield report(FindingCode.POOLS_AS_PLANNED, "pools", told)


def _judge_unreadable(pool: UnreadablePool, now: datetime) -> Finding:
    ready, *_ = build_unreadable_status(pool, now).conditions
    remedy = look_up(Reason.SPEC_INVALID)
    return Finding(Severity.ERROR, Reason.SPEC_INVALID, f"pool {pool.name}", ready.message, remedy)


def _judge_conditions(pool: Pool, pool_plans: PoolPlans, now: datetime) -> Iterator[Finding]:
    """Find conditions that say more than that a node is not ready."""
    for condition in build_status(pool, pool_plans, now).conditions:
        reason = Reason(condition.reason)
        severity = _CONDITIONS.get((condition.type, condition.status)) or _REASONS.get(
            (condition.type, reason)
        )
        if severity is not None:
            about = f"pool {pool.name}"
            yield Finding(severity, reason, about, condition.message, look_up(reason))


def judge_extender(waiting: Sequence[UnschedulablePod]) -> Iterator[Finding]:
    """Check whether pods wait for the scheduler extender itself: one finding for all of them."""
    for reason, severity in _EXTENDER.items():
        pods = [each for each in waiting if each.reason == reason]
        if pods:
            first = f"{pods[0].pod.namespace}/{pods[0].pod.name}"
            told = f"Pods wait for the extender ({len(pods)}). Pod {first}: {pods[0].message}"
            yield Finding(severity, reason, "scheduler extender", told, look_up(reason))
