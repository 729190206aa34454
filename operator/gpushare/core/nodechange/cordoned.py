"""The rules of a node that is cordoned, and whose labels are not written yet."""

from dataclasses import replace

from gpushare.api.rollout import WorkloadPolicy
from gpushare.core.nodechange.blockers import find_evictable_pods
from gpushare.core.nodechange.change_phases import plan_eviction_disabled, plan_give_way
from gpushare.core.nodechange.failure import plan_overdue_recheck
from gpushare.core.nodechange.ongoing_change import plan_wait_cordoned, transition_of
from gpushare.core.nodechange.step import Step
from gpushare.core.nodechange.teardown import find_refusal
from gpushare.core.snapshot.actions import EvictPods, RecheckPods, StepResult
from gpushare.names import Reason


def abort_for_halt(step: Step) -> StepResult | None:
    """Another node of the pool failed, and nothing but the cordon was done: uncordoned."""
    if not (step.is_first_change and step.ctx.is_halted) or step.change.initializing:
        return None
    why = "the rollout is halted, and nothing but the cordon was done"
    action = plan_give_way(step.seen, why=why, now=step.ctx.now)
    return step.updating(Reason.ROLLOUT_HALTED, why, action)


def abort_for_pool(step: Step) -> StepResult | None:
    """The pool wants another mode, or no restart or teardown, by now: uncordoned."""
    change, policy, pool = step.change, step.policy, step.pool
    assert pool is not None
    forbidden = change.restart and not policy.may_restart
    wanted = (pool.spec.schedule, pool.name) == (change.to, change.pool) and not forbidden
    if change.rolls_back is not None:
        wanted = change.rolls_back.attempt == policy.attempt and not forbidden
    if change.teardown is not None:
        wanted = wanted and find_refusal(step.seen.node, policy, step.ctx) is None
    if wanted:
        return None
    action = plan_give_way(step.seen, why="the pool wants something else now", now=step.ctx.now)
    return step.updating(Reason.UPDATING, "the pool changed", action)


def abort_for_user(step: Step) -> StepResult | None:
    """A user uncordoned the node: their wish counts, and it is tried again 30 s later."""
    if step.seen.is_out_of_service:
        return None
    now = step.ctx.now
    action = plan_give_way(
        step.seen,
        why="a person uncordoned the node",
        not_before=now + step.ctx.timing.backoff,
        now=now,
    )
    return step.updating(Reason.CORDONED, "giving way", action)


def abort_for_node(step: Step) -> StepResult | None:
    """The node is not ready: its plugin would not return, so it is uncordoned."""
    if step.seen.node.ready:
        return None
    action = plan_give_way(step.seen, why="the node is not ready", now=step.ctx.now)
    return step.updating(Reason.NODE_NOT_READY, "giving way", action)


def wait_for_pods(step: Step) -> StepResult | None:
    """Pods hold the change up, and the pool waits for them under the cordon, or evicts them."""
    blocker = step.late_pods
    if not step.policy.stays_cordoned or blocker is None:
        return None
    plan = plan_wait_cordoned(step.seen, blocker)
    if step.policy.workloads is not WorkloadPolicy.EVICT:
        return plan
    if not step.ctx.may_evict:
        return plan_eviction_disabled(step.seen, blocker)
    pods = find_evictable_pods(transition_of(step.change), blocker.pods)
    return replace(plan, action=EvictPods(step.seen.node.name, pods)) if pods else plan


def recheck_pods(step: Step) -> StepResult:
    """The pods are read twice from the API server, 2 s apart; then the labels are written."""
    message = f"cordoned; looking for pods that were bound meanwhile ({step.change.to})"
    look = RecheckPods(
        step.seen.node.name,
        stays=step.policy.stays_cordoned,
        may_restart=step.policy.may_restart,
    )
    plan = step.updating(Reason.CORDONED, message, look)
    return plan_overdue_recheck(step.seen, step.change, plan, step.policy, step.ctx)
