"""A pool's status, from what was planned for its members."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from gpushare.api.pool import ConditionStatus, NodeCounts, NodeSample, Pool, PoolStatus
from gpushare.core.actions import NodePlan, NodeState
from gpushare.names import Condition, Reason

MAX_SAMPLES = 20
MAX_MESSAGE = 512
_URGENCY = (NodeState.FAILED, NodeState.BLOCKED, NodeState.UPDATING, NodeState.WAITING)


def build_status(pool: Pool, plans: Sequence[NodePlan], now: datetime) -> PoolStatus:
    """The status that says what `plans` say; times stay where nothing changed.

    Equal to `pool.status` where there is nothing new, so that it need not be written.
    """
    counts = Counter(plan.state for plan in plans)
    return PoolStatus(
        observed_generation=pool.generation,
        conditions=(_build_ready(pool, plans, now),),
        nodes=NodeCounts(
            matched=len(plans),
            ready=counts[NodeState.READY],
            updating=counts[NodeState.UPDATING],
            waiting=counts[NodeState.WAITING],
            blocked=counts[NodeState.BLOCKED],
            failed=counts[NodeState.FAILED],
        ),
        samples=_build_samples(pool, plans, now),
    )


def _unready(plans: Sequence[NodePlan]) -> list[NodePlan]:
    """Those that are not ready, the most urgent first."""
    unready = [plan for plan in plans if plan.state is not NodeState.READY]
    return sorted(unready, key=lambda plan: (_URGENCY.index(plan.state), plan.node))


def _build_ready(pool: Pool, plans: Sequence[NodePlan], now: datetime) -> ConditionStatus:
    unready = _unready(plans)
    if not plans:
        reason, message = Reason.NO_NODES, "no node matches yet; nodes that come are taken in"
    elif not unready:
        reason, message = Reason.ALL_NODES_READY, f"all {len(plans)} nodes are as the spec says"
    else:
        first = unready[0]
        held_up = first.state in (NodeState.FAILED, NodeState.BLOCKED)
        reason = first.reason if held_up else Reason.UPDATING
        message = (
            f"{len(plans) - len(unready)} of {len(plans)} nodes are ready; "
            f"{first.node}: {first.message}"
        )
    status: Literal["True", "False"] = "False" if unready else "True"
    previous = next((c for c in pool.status.conditions if c.type == Condition.READY), None)
    return ConditionStatus(
        type=Condition.READY,
        status=status,
        observed_generation=pool.generation,
        last_transition_time=(
            previous.last_transition_time
            if previous is not None and previous.status == status
            else _to_second(now)
        ),
        reason=reason,
        message=message[:MAX_MESSAGE],
    )


def _build_samples(pool: Pool, plans: Sequence[NodePlan], now: datetime) -> tuple[NodeSample, ...]:
    since = {(sample.node, sample.reason): sample.since for sample in pool.status.samples}
    return tuple(
        NodeSample(
            node=plan.node,
            reason=plan.reason,
            since=since.get((plan.node, plan.reason), _to_second(now)),
            message=plan.message[:MAX_MESSAGE],
        )
        for plan in _unready(plans)[:MAX_SAMPLES]
    )


def _to_second(moment: datetime) -> datetime:
    return moment.replace(microsecond=0)
