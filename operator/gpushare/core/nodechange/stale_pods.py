"""Pods that keep an isolation which their node no longer gives, asked to go."""

from dataclasses import replace

from gpushare.core.nodechange.blockers import find_evictable_pods
from gpushare.core.snapshot.actions import EvictPods, NodeState, Start, StepResult
from gpushare.core.snapshot.isolation import find_stale_pods
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext
from gpushare.editions.edition import REPAIR
from gpushare.names import Reason


def plan_stale(seen: NodeSnapshot, plan: StepResult, ctx: ReconcileContext) -> StepResult:
    """`plan` of a member, or where that is done with, the eviction of its stale pods.

    A node whose pods go is out of service for those that need them: it takes its turn, and until
    they are gone it uses up the budget. Pods of which nothing is known stay.
    """
    if plan.state is not NodeState.READY or plan.action is not None:
        return plan
    stale = find_stale_pods(seen)
    # As for a plugin's restart: what runs keeps what it has, and only that is asked to go.
    pods = find_evictable_pods(REPAIR, stale)
    if not pods and not any(pod.deleting for pod in stale):
        return plan
    message = f"{len(stale)} pods that keep the isolation of a former mode are evicted"
    if not pods:
        return replace(
            plan,
            state=NodeState.UPDATING,
            reason=Reason.STALE_ISOLATION,
            message=message,
            uses_budget=True,
        )
    if not ctx.may_evict:
        refusal = (
            "pods keep the isolation of a former mode; rollout.staleWorkloads is Evict, which this "
            "installation does not allow (the chart's value eviction.enabled)"
        )
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
