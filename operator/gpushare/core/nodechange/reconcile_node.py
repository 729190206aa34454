"""Computes the next step for a node that belongs to a pool."""

from dataclasses import replace

from gpushare.api.pool import Pool
from gpushare.api.rollout import StaleWorkloadPolicy
from gpushare.core.deviceplugin.findings import list_few
from gpushare.core.nodechange.blockers import find_evictable_pods
from gpushare.core.nodechange.configuration import find_brief_end
from gpushare.core.nodechange.kernel_module import plan_module_noted
from gpushare.core.nodechange.labels_in_force import find_unknown_mode_wait
from gpushare.core.nodechange.member_step import MemberStep
from gpushare.core.nodechange.phases.failed import describe_failure
from gpushare.core.nodechange.phases.teardown import agree_on_policy
from gpushare.core.nodechange.state_machine import find_rule
from gpushare.core.nodechange.step import EVICTION_DISABLED
from gpushare.core.snapshot.actions import EvictPods, NodeState, Start, StepResult
from gpushare.core.snapshot.change_policy import build_policy
from gpushare.core.snapshot.isolation import find_stale_pods
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext
from gpushare.editions.edition import REPAIR
from gpushare.editions.registry import desired_labels, get_mode
from gpushare.names import Reason


def plan_node(seen: NodeSnapshot, pool: Pool, ctx: ReconcileContext) -> StepResult:
    """Plan what `seen.node`, a member of `pool`, needs next."""
    wanted = desired_labels(pool.name, pool.spec)
    policy = agree_on_policy(seen, pool, build_policy(pool, seen.node, ctx.timing))
    step = MemberStep(seen, policy, ctx, pool)
    _, _, plan = find_rule(step)
    if seen.node.carries_ours and step.reason_to_stay_away is None:
        plan = plan_module_noted(seen, plan, get_mode(pool.spec.edition, pool.spec.schedule))
    waits = [find_unknown_mode_wait(seen, ctx)] if plan.action is None else []
    if seen.reading is not None:
        waits.append(find_brief_end(seen.reading, ctx))
    wakes = [plan.requeue_after_seconds, *(w.total_seconds() for w in waits if w is not None)]
    change = seen.records.change
    joins = change is not None and change.is_under_way and change.initializing
    # A node that joins fails alone, and does not halt the pool.
    failure = None if joins else seen.records.failure
    halts, applied = failure is not None and failure.attempt == policy.attempt, seen.records.applied
    # Where nothing is written, nothing is ever ours.
    owned = pool.observes or wanted.keys() <= seen.node.owned
    is_verified = applied is not None and applied.from_mode is not None
    plan = replace(
        plan,
        labelled=owned and wanted.items() <= seen.node.labels.items(),
        requeue_after_seconds=min((wake for wake in wakes if wake is not None), default=None),
        # Also if the change gives way, or another one is to follow the one that failed.
        under_way=change is not None and change.is_under_way,
        verified=not halts and plan.state is NodeState.READY and is_verified,
    )
    if failure is not None and halts:
        # Whatever the node's plan is meanwhile: completed late, rolled back, or contested.
        if plan.resumes or not plan.halts:
            halt = describe_failure(seen.node.name, failure)
            plan = replace(plan, halts=halt, resumes=False)
        return plan
    evicts = pool.spec.rollout.stale_workloads is StaleWorkloadPolicy.EVICT
    return plan_stale(seen, plan, ctx) if evicts else plan


def plan_stale(seen: NodeSnapshot, plan: StepResult, ctx: ReconcileContext) -> StepResult:
    """Return `plan`, or for a node that is Ready with no action left, its stale pods' eviction.

    A stale pod keeps the isolation of a former mode. The node waits for its turn and uses up the
    budget until its stale pods are gone. Pods whose isolation is unknown stay.
    """
    if plan.state is not NodeState.READY or plan.action is not None:
        return plan
    stale = find_stale_pods(seen)
    # As for a plugin's restart: what runs keeps what it has, and only that is asked to go.
    pods = find_evictable_pods(REPAIR, stale)
    if not pods and not any(pod.deleting for pod in stale):
        return plan
    listed = list_few(sorted(f"{pod.namespace}/{pod.name}" for pod in stale))
    kept = f"{len(stale)} pods keep the isolation of a former mode"
    message = f"{kept} and are evicted: {listed}"
    if not pods:
        return replace(
            plan,
            state=NodeState.UPDATING,
            reason=Reason.STALE_ISOLATION,
            message=message,
            uses_budget=True,
        )
    if not ctx.may_evict:
        refusal = f"{kept}. rollout.staleWorkloads {EVICTION_DISABLED}: {listed}"
        return replace(
            plan, state=NodeState.BLOCKED, reason=Reason.EVICTION_DISABLED, message=refusal
        )
    start = Start(Reason.STALE_ISOLATION, message, EvictPods(seen.node.name, pods))
    return replace(
        plan,
        state=NodeState.WAITING,
        reason=Reason.WAITING_FOR_BUDGET,
        message=message,
        start=start,
    )
