"""Builds a pool's status from the plans of its nodes: at most 16 KiB, and as much again of their
labels, whatever its size."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Literal

from gpushare import names
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import ConflictPolicy, DeletionPolicy, Pool, UnreadablePool
from gpushare.api.selector import PoolSize
from gpushare.api.status import (
    ConditionStatus,
    Isolation,
    NodeCounts,
    NodeSample,
    PoolCapacity,
    PoolStatus,
    Releasing,
    StaleSample,
)
from gpushare.core.capacity.node_labels import list_combinations
from gpushare.core.capacity.pool_capacity import sum_capacity
from gpushare.core.message import cut
from gpushare.core.ownership.drift import END_CONFLICT, describe_conflict
from gpushare.core.planner.pool_plans import PoolPlans
from gpushare.core.rollout.budget import TURNS
from gpushare.core.rollout.contest import record_changes
from gpushare.core.rollout.start_now import find_started
from gpushare.core.snapshot.actions import NodePlan, NodeState
from gpushare.core.snapshot.isolation import ContainerIsolation, NodeIsolation, sum_isolation
from gpushare.core.status.move_status import build_recommendation
from gpushare.core.status.plan_status import build_plan, count_bytes, fit, judge_rollout
from gpushare.core.status.window_status import build_window
from gpushare.names import Condition, Reason

MAX_SAMPLES = 20
MAX_MESSAGE_BYTES = 512
MAX_SAMPLE_BYTES = 256
MAX_SAMPLES_BYTES = 8 * 1024
MAX_STALE_BYTES = 3 * 1024
"""Limit of all samples of one kind together, in bytes; with long names fewer are shown."""
MAX_STATUS_BYTES = 16 * 1024
"""Limit of a status in bytes, without the nodes' labels, which have their own."""
CAPACITY_PERIOD = timedelta(seconds=2)
"""Pods come and go all the time: their sums are written no more often than this."""
CLOSED_PERIOD = timedelta(minutes=1)
"""While nothing may begin, so often it is noted that a pool being deleted has not stalled."""
_CUT = "…"
SHOWN = 3
NO_NODES = "No node matches spec.nodes. Nodes that match later are added automatically"
URGENCY = (
    NodeState.FAILED,
    NodeState.BLOCKED,
    NodeState.UPDATING,
    NodeState.WAITING,
    NodeState.READY,
)


def build_status(
    pool: Pool,
    pool_plans: PoolPlans,
    now: datetime,
    *,
    held: int = 0,
    pending: Iterable[Pod] = (),
    refusal: str | None = None,
) -> PoolStatus:
    """Build the status that shows `pool_plans`; times stay where nothing changed.

    `held` nodes must still be given back by a pool that is being deleted; `pending` pods select
    the pool and have no node; a `refusal` is why our finalizer is not on it. Equal to
    `pool.status` where there is nothing new, so that it need not be written.
    """
    total = len(pool_plans.plans)
    shown = _find_shown(pool_plans)
    ready = _judge_ready(pool, pool_plans, shown[0] if pool_plans.unready else None, held)
    if refusal is not None:
        message = (
            "No node is changed until the pool has its finalizer. To check the operator's rights, "
            f"run: kubectl gpushare doctor. The API server refused the finalizer: {refusal}"
        )
        ready = False, Reason.WRITE_REFUSED, message
    nodes = NodeCounts(
        matched=total,
        summary=_describe_size(total, pool.spec.nodes.size),
        ready=pool_plans.counts[NodeState.READY],
        updating=pool_plans.counts[NodeState.UPDATING],
        waiting=pool_plans.counts[NodeState.WAITING],
        blocked=pool_plans.counts[NodeState.BLOCKED],
        failed=pool_plans.counts[NodeState.FAILED],
    )
    # Sums of nodes that have just become ready belong beside their count: pods are sent by them.
    is_due = is_capacity_due(pool, now) or nodes != pool.status.nodes
    found = sum_isolation(pool_plans.isolations.values())
    isolation = _build_isolation(pool, found, is_due=is_due)
    status = PoolStatus(
        observed_generation=pool.generation,
        conditions=(
            _condition(pool, now, Condition.READY, *ready),
            _condition(pool, now, Condition.NODES_LABELLED, *_judge_labelled(pool_plans)),
            _condition(pool, now, Condition.ROLLOUT_COMPLETE, *judge_rollout(pool, pool_plans)),
            _condition(pool, now, Condition.CONFLICTING, *_judge_conflicting(pool, pool_plans)),
            _condition(
                pool, now, Condition.ISOLATION_CONSISTENT, *_judge_isolation(found, pool_plans)
            ),
        ),
        nodes=nodes,
        samples=_build_samples(pool, pool_plans, shown, now),
        capacity=_build_capacity(
            pool, pool_plans, pending, now, is_beside_news=isolation != pool.status.isolation
        )
        if is_due
        else pool.status.capacity,
        isolation=isolation,
        window=build_window(pool_plans.windows),
        started_now=find_started(
            pool,
            pool_plans.kinds.keys(),
            now,
            is_changing=any(
                pool_plans.plans[node].state is not NodeState.FAILED
                for node in pool_plans.under_way
            ),
        ),
        recommendation=build_recommendation(pool, pool_plans.move, now),
        releasing=_build_releasing(pool, pool_plans, held, now),
        spec_changes=record_changes(pool, now),
    )
    plan = build_plan(pool, pool_plans, MAX_STATUS_BYTES - count_bytes(status))
    listed = list_combinations(pool_plans.labels)
    return status.model_copy(update={"plan": plan, "node_labels": listed})


def build_unreadable_status(pool: UnreadablePool, now: datetime) -> PoolStatus:
    """Build the status of a pool whose spec can't be read: only Ready changes."""
    message = f"The spec cannot be read, and the pool's nodes are not changed: {pool.error}"
    ready = _condition(pool, now, Condition.READY, False, Reason.SPEC_INVALID, message)
    others = (c for c in pool.status.conditions if c.type != Condition.READY)
    return pool.status.model_copy(update={"conditions": (ready, *others)})


def _describe_size(total: int, size: PoolSize | None) -> str:
    if size is None:
        return str(total)
    return f"{total}/{size.min}-{size.max}" if size.max is not None else f"{total}/{size.min}+"


def is_capacity_due(pool: Pool, now: datetime) -> bool:
    """Tell whether the pool's sums may be written again."""
    capacity = pool.status.capacity
    # The time is kept in whole seconds, rounded down.
    return capacity is None or _to_second(now) - capacity.observed_at > CAPACITY_PERIOD


def _rank(plan: NodePlan) -> tuple[int, str]:
    return URGENCY.index(plan.state), plan.node


def _find_shown(pool_plans: PoolPlans) -> list[NodePlan]:
    """Choose nodes that are not ready or warn: one for each reason, then others; urgent first.

    What comes first stays where the status is full."""
    plans = sorted([*pool_plans.unready.values(), *pool_plans.warned.values()], key=_rank)
    firsts: dict[Reason, NodePlan] = {}
    for plan in plans:
        firsts.setdefault(plan.reason, plan)
    chosen = {plan.node for plan in firsts.values()}
    return [*firsts.values(), *(plan for plan in plans if plan.node not in chosen)][:MAX_SAMPLES]


def _judge_ready(
    pool: Pool, pool_plans: PoolPlans, first_plan: NodePlan | None, held: int
) -> tuple[bool, Reason, str]:
    total, ready = len(pool_plans.plans), pool_plans.counts[NodeState.READY]
    if pool.deleting:
        first = f". Node {first_plan.node}: {first_plan.message}" if first_plan is not None else ""
        message = f"The pool is being deleted. Nodes still to be released: {held}"
        if pool.spec.deletion_policy is not DeletionPolicy.RETAIN:
            patch = '{"spec":{"deletionPolicy":"Retain"}}'
            as_is = f"kubectl patch gsp {pool.name} --type=merge -p '{patch}'"
            message += f". To release them as they are, run `{as_is}`"
        message += first
        return False, Reason.RELEASING, message
    if pool.invalid_windows:
        return False, Reason.SPEC_INVALID, pool.invalid_windows
    if pool_plans.contest is not None:
        return False, Reason.SPEC_CONTESTED, pool_plans.contest.message
    if pool_plans.shortage is not None and first_plan is None:
        return False, Reason.BELOW_MINIMUM, _describe_shortage(total, pool, pool_plans.shortage)
    if not total:
        return True, Reason.NO_NODES, NO_NODES
    if first_plan is None:
        return True, Reason.ALL_NODES_READY, f"{total} of {total} nodes are ready"
    waits_for_others = first_plan.state is NodeState.UPDATING or first_plan.reason in TURNS
    reason = Reason.UPDATING if waits_for_others else first_plan.reason
    message = (
        f"{ready} of {total} nodes are ready. Node {first_plan.node}: "
        f"{_tell(first_plan, pool_plans)}"
    )
    return False, reason, message


def _describe_shortage(total: int, pool: Pool, others: Collection[str]) -> str:
    size = pool.spec.nodes.size
    has = f"The pool has {total} nodes, and spec.nodes.size.min is {size.min if size else 0}"
    if not others:
        return f"{has}. Add nodes that match spec.nodes, or lower the minimum"
    shown = ", ".join(sorted(others)[:SHOWN])
    return (
        f"{has}. Other nodes that match belong to pools that keep them: {shown}. Lower a minimum, "
        "set spec.nodes.size of those pools, or raise spec.priority of this one"
    )


def _judge_labelled(pool_plans: PoolPlans) -> tuple[bool, Reason, str]:
    total, without = len(pool_plans.plans), len(pool_plans.unlabelled)
    if not total:
        return True, Reason.NO_NODES, NO_NODES
    if not without:
        return True, Reason.ALL_NODES_LABELLED, f"{total} of {total} nodes carry the pool's labels"
    first = min(pool_plans.unlabelled)
    message = (
        f"{without} of {total} nodes do not carry all labels of the pool, such as node {first}"
    )
    return False, Reason.LABELS_MISSING, message


def _judge_conflicting(pool: Pool, pool_plans: PoolPlans) -> tuple[bool, Reason, str]:
    if not pool_plans.conflicting:
        return False, Reason.NO_CONFLICT, "No other field manager keeps changing the pool's labels"
    first = pool_plans.conflicting[min(pool_plans.conflicting)]
    retry = ""
    if pool.spec.conflicts is ConflictPolicy.REPORT:
        retry = ", then run `kubectl gpushare retry node/NODE` for each node in conflict"
    message = (
        f"{describe_conflict(first.facts.conflicts[0])}. {END_CONFLICT}{retry}. Nodes in conflict: "
        f"{len(pool_plans.conflicting)}, such as node {first.node}"
    )
    return True, Reason.LABEL_CONFLICT, message


def _judge_isolation(
    found: NodeIsolation, pool_plans: PoolPlans
) -> tuple[bool | None, Reason, str]:
    """Tell whether every container has the isolation that its node's mode gives.

    Counts are left to status.isolation, at a slower pace: pods come and go all the time.
    """
    if found.stale:
        first = found.samples[0]
        has = "is" if first.isolated else "is not"
        message = (
            f"Containers keep the isolation of a former mode. Container {first.container} of Pod "
            f"{first.pod.namespace}/{first.pod.name} {has} isolated: it was admitted under "
            f"{first.admitted}, and node {first.node} is {first.mode}. Delete such pods, or set "
            "rollout.staleWorkloads to Evict"
        )
        return False, Reason.STALE_ISOLATION, message
    if found.unknown:
        node = min(name for name, each in pool_plans.isolations.items() if each.unknown)
        message = (
            f"The isolation of some containers is unknown, such as on node {node}. Recreate the "
            f"GPU pods that `kubectl gpushare explain node {node}` shows as unknown. This does not "
            f"help if {names.ENV_CGPU_DISABLE} comes from a ConfigMap, Secret or field, in mode "
            "mps, nor while the node's plugin must be restarted or a kernel module may be loaded"
        )
        return None, Reason.ISOLATION_UNKNOWN, message
    message = "Every container that shares a card has the isolation of its node's mode"
    return True, Reason.ISOLATION_AS_LABELLED, message


def _build_isolation(pool: Pool, found: NodeIsolation, *, is_due: bool) -> Isolation | None:
    """Build the isolation; counts alone, which change all the time, are written as capacity is."""
    previous = pool.status.isolation
    if not found.containers and previous is None:
        return None
    current = Isolation(
        containers=found.containers,
        isolated=found.isolated,
        stale=found.stale,
        opted_out=found.opted_out,
        unknown=found.unknown,
        samples=fit(map(_build_stale_sample, found.samples), MAX_STALE_BYTES),
    )
    is_news = current.samples != (previous.samples if previous is not None else ())
    return current if is_due or is_news else previous


def _build_stale_sample(stale: ContainerIsolation) -> StaleSample:
    return StaleSample(
        node=stale.node,
        pod=f"{stale.pod.namespace}/{stale.pod.name}",
        container=stale.container,
        admitted=str(stale.admitted),
        isolated=stale.isolated is True,
    )


def _tell(plan: NodePlan, pool_plans: PoolPlans) -> str:
    """Return the plan's message; of one that waits for the budget, with the nodes that use it."""
    others = sorted(pool_plans.unavailable - {plan.node})
    if plan.reason is not Reason.WAITING_FOR_BUDGET or not others:
        return plan.message
    return f"{plan.message} ({', '.join(others[:SHOWN])})"


def _condition(
    pool: Pool | UnreadablePool,
    now: datetime,
    kind: Condition,
    holds: bool | None,
    reason: Reason,
    message: str,
) -> ConditionStatus:
    status: Literal["True", "False", "Unknown"] = (
        "Unknown" if holds is None else "True" if holds else "False"
    )
    since = {(c.type, c.status): c.last_transition_time for c in pool.status.conditions}
    return ConditionStatus(
        type=kind,
        status=status,
        observed_generation=pool.generation,
        last_transition_time=since.get((kind, status), _to_second(now)),
        reason=reason,
        message=cut(message, MAX_MESSAGE_BYTES, _CUT),
    )


def _build_samples(
    pool: Pool, pool_plans: PoolPlans, plans: Sequence[NodePlan], now: datetime
) -> tuple[NodeSample, ...]:
    since = {(sample.node, sample.reason): sample.since for sample in pool.status.samples}
    samples = (
        NodeSample(
            node=plan.node,
            reason=plan.reason,
            since=since.get((plan.node, plan.reason), _to_second(now)),
            message=cut(_tell(plan, pool_plans), MAX_SAMPLE_BYTES, _CUT),
            deadline=_to_second(plan.facts.deadline) if plan.facts.deadline is not None else None,
        )
        for plan in plans
    )
    fitting = zip(plans, fit(samples, MAX_SAMPLES_BYTES), strict=False)
    return tuple(sample for _, sample in sorted(fitting, key=lambda pair: _rank(pair[0])))


def _build_capacity(
    pool: Pool,
    pool_plans: PoolPlans,
    pending: Iterable[Pod],
    now: datetime,
    *,
    is_beside_news: bool,
) -> PoolCapacity:
    """Sum the capacity; `is_beside_news`: others that keep its pace are written now."""
    previous = pool.status.capacity
    capacity = sum_capacity(pool_plans.capacities.values(), pending, now)
    if is_beside_news or previous is None:
        return capacity
    if capacity == previous.model_copy(update={"observed_at": capacity.observed_at}):
        return previous
    return capacity


def _build_releasing(
    pool: Pool, pool_plans: PoolPlans, held: int, now: datetime
) -> Releasing | None:
    if not pool.deleting:
        return None
    previous, is_closed = pool.status.releasing, pool_plans.refusal is not None
    is_recent = previous is not None and now - previous.since < CLOSED_PERIOD
    if previous is not None and held >= previous.nodes and (is_recent or not is_closed):
        return previous.model_copy(update={"nodes": held})
    return Releasing(nodes=held, since=_to_second(now))


def _to_second(moment: datetime) -> datetime:
    return moment.replace(microsecond=0)
