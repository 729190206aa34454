"""What one member of a pool needs next."""

from dataclasses import replace
from datetime import timedelta

from gpushare import names
from gpushare.api.k8s.job import JobState
from gpushare.api.pool import Pool, RestartPolicy, Schedule
from gpushare.api.rollout import StaleWorkloadPolicy, WorkloadPolicy
from gpushare.core.nodechange.blockers import (
    find_blocking_pods,
    find_left_over_plugin,
    find_mig,
    find_missing_daemonset,
    find_other_edition,
    find_pods_of_another_pool,
)
from gpushare.core.nodechange.change_phases import (
    plan_cordon,
    plan_eviction_disabled,
    plan_give_way,
    plan_step,
)
from gpushare.core.nodechange.completion import is_completion
from gpushare.core.nodechange.failure import describe_failure, read_reason
from gpushare.core.nodechange.kernel_module import is_isolation_left, plan_module_noted
from gpushare.core.nodechange.labels_at_rest import plan_labels
from gpushare.core.nodechange.last_applied import find_unknown_mode_wait, plan_noted
from gpushare.core.nodechange.ongoing_change import transition_of
from gpushare.core.nodechange.revert_in_wait import (
    describe_conflicts,
    find_enforced_labels,
    plan_conflict,
    plan_revert_in_wait,
)
from gpushare.core.nodechange.stale_pods import plan_stale
from gpushare.core.nodechange.teardown import agree_on_policy, find_refusal
from gpushare.core.ownership.drift import Verdict, judge_drift
from gpushare.core.records.change_record import Change, ChangePhase, Failure, Teardown
from gpushare.core.records.node_records import NodeRecords
from gpushare.core.snapshot.actions import Blocker, NodeState, Start, StepResult
from gpushare.core.snapshot.change_policy import Policy, build_policy
from gpushare.core.snapshot.effective_mode import find_effective_mode, running_plugins
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext
from gpushare.editions.edition import REPAIR, TEARDOWN, Mode, Outcome, Transition
from gpushare.editions.registry import MODES, desired_labels, find_transition
from gpushare.names import Reason


def plan_node(seen: NodeSnapshot, pool: Pool, ctx: ReconcileContext) -> StepResult:
    """What `seen.node`, a member of `pool`, needs next."""
    wanted = desired_labels(pool.name, pool.spec)
    policy = agree_on_policy(seen, pool, build_policy(pool, seen.node, ctx.timing))
    plan = _plan_next(seen, pool, policy, ctx)
    if seen.node.carries_ours and _find_reason_to_stay_away(seen, pool) is None:
        plan = plan_module_noted(seen, plan, MODES[pool.spec.edition, pool.spec.schedule])
    # Where nothing is written, nothing is ever ours.
    held = pool.observes or wanted.keys() <= seen.node.owned
    if held and wanted.items() <= seen.node.labels.items():
        plan = replace(plan, labelled=True)
    if (wait := find_unknown_mode_wait(seen, ctx)) is not None and plan.action is None:
        wakes = [wait.total_seconds(), plan.requeue_after_seconds or wait.total_seconds()]
        plan = replace(plan, requeue_after_seconds=min(wakes))
    change = seen.records.change
    if change is not None and change.is_under_way:
        # Also where it gives way, or another change is to follow the one that failed.
        plan = replace(plan, under_way=True)
    failure, applied = _find_failure(seen.records), seen.records.applied
    if failure is not None and failure.attempt == policy.attempt:
        # Whatever is done to the node meanwhile: completed late, rolled back, fought over.
        return replace(plan, halts=plan.halts or describe_failure(seen.node.name, failure))
    is_verified = applied is not None and applied.from_mode is not None
    plan = replace(plan, verified=plan.state is NodeState.READY and is_verified)
    evicts = pool.spec.rollout.stale_workloads is StaleWorkloadPolicy.EVICT
    return plan_stale(seen, plan, ctx) if evicts else plan


def _find_failure(records: NodeRecords) -> Failure | None:
    """What failed on the node last; one that joins fails alone, and holds nobody up."""
    change, applied = records.change, records.applied
    if change is not None and change.is_under_way:
        if change.initializing:
            return None
        if (failure := change.failure or change.rolls_back) is not None:
            return failure
    return applied.failure if applied is not None else None


def _plan_next(seen: NodeSnapshot, pool: Pool, policy: Policy, ctx: ReconcileContext) -> StepResult:
    change = seen.records.change
    if change is not None and change.is_under_way:
        plan = _plan_under_way(seen, pool, change, policy, ctx)
        if is_completion(plan) or not _is_superseded(change, pool, policy):
            return plan
        assert change.failure is not None
        if running := [job for job in seen.jobs.values() if job.state is JobState.RUNNING]:
            # It may remove the module from below the pods that come next.
            message = f"{change.failure.message}. Job {min(map(str, running))} must end first"
            return seen.plan(NodeState.FAILED, read_reason(change.failure), message)
        # The spec changed after it failed: begin anew, from the mode that was written.
        verdict = Verdict(record=seen.records.drift)
        again = _plan_mode(seen, pool, policy, verdict, change.to, ctx)
        if again.action is not None:
            return again
        message = f"{change.failure.message}. {again.reason}: {again.message}"
        # The change that failed may still come to its end, by itself.
        wakes = (again.requeue_after_seconds, plan.requeue_after_seconds)
        return replace(
            again,
            state=NodeState.FAILED,
            reason=read_reason(change.failure),
            message=message,
            requeue_after_seconds=min((wake for wake in wakes if wake is not None), default=None),
        )
    if blocker := _find_reason_to_stay_away(seen, pool):
        return seen.plan(NodeState.BLOCKED, blocker.reason, blocker.message)
    # A time further off was written by a clock that is ahead, or by hand.
    if (
        change is not None
        and change.not_before is not None
        and timedelta() < (left := change.not_before - ctx.now) <= ctx.timing.backoff
    ):
        same = (change.pool, change.edition, change.to) == (
            pool.name, pool.spec.edition, pool.spec.schedule
        )  # fmt: skip
        kind = policy.kind_of(change.from_mode, change.to, transition_of(change).outcome)
        return StepResult(
            seen.node.name,
            NodeState.WAITING,
            Reason.WAITING_AFTER_LATE_BINDING,
            "gave way to a pod that was bound during the cordon, or to a person; tried again at "
            f"{change.not_before.isoformat(timespec='seconds')}",
            requeue_after_seconds=left.total_seconds(),
            kind=kind if same else None,
        )
    from_mode = find_effective_mode(pool.spec.edition, seen.node, seen.pods, seen.records.applied)
    held = find_enforced_labels(seen, pool, from_mode)
    verdict = judge_drift(seen.node, seen.records, held, policy.claim, ctx.now)
    if verdict.fought_over & names.MODE_LABELS:
        return plan_conflict(seen, held, verdict, ctx)
    if verdict.wait is not None:
        return seen.plan_pause(verdict, ctx.now)
    applied = seen.records.applied
    waits = applied is not None and applied.schedule == from_mode != pool.spec.schedule
    if waits and (reverted := plan_revert_in_wait(seen, held, verdict, ctx)) is not None:
        return reverted
    if waits and (noted := plan_noted(seen, held, ctx)) is not None:
        return noted
    plan = _plan_mode(seen, pool, policy, verdict, from_mode, ctx)
    if verdict.conflicts:
        plan = describe_conflicts(plan, seen.plan_conflict(verdict))
    if verdict.puts_back and plan.start is not None:
        plan = replace(plan, start=replace(plan.start, reason=Reason.DRIFT_REVERTED))
    if seen.node.owns_cordon and plan.action is None:
        # Its record was removed by hand: half-way changed, it must not take pods.
        return replace(plan, message=f"{plan.message}. The cordon is ours, and stays until then")
    return plan


def _plan_under_way(
    seen: NodeSnapshot,
    pool: Pool,
    change: Change,
    policy: Policy,
    ctx: ReconcileContext,
) -> StepResult:
    """A change that began is finished, unless it can still be dropped without a trace."""
    first_time = change.phase is ChangePhase.CORDONED and change.labelled_at is None
    if first_time and ctx.is_halted and not change.initializing:
        why = "the rollout is halted, and nothing but the cordon was done"
        action = plan_give_way(seen, why=why, now=ctx.now)
        return seen.plan(NodeState.UPDATING, Reason.ROLLOUT_HALTED, why, action)
    forbidden = change.restart and not policy.may_restart
    wanted = (pool.spec.schedule, pool.name) == (change.to, change.pool) and not forbidden
    if change.rolls_back is not None:
        wanted = change.rolls_back.attempt == policy.attempt and not forbidden
    if change.teardown is not None:
        wanted = wanted and find_refusal(seen.node, policy, ctx) is None
    if not wanted and change.phase is ChangePhase.CORDONED:
        action = plan_give_way(seen, why="the pool wants something else now", now=ctx.now)
        return seen.plan(NodeState.UPDATING, Reason.UPDATING, "the pool changed", action)
    return plan_step(seen, policy, ctx)


def _is_superseded(change: Change, pool: Pool, policy: Policy) -> bool:
    """Whether a change that failed is not what the pool wants any more."""
    if change.failure is None or pool.spec.schedule is change.to:
        return False
    return change.rolls_back is None or change.failure.attempt != policy.attempt


def _find_reason_to_stay_away(seen: NodeSnapshot, pool: Pool) -> Blocker | None:
    """Why the node must be left exactly as it is."""
    return (
        find_mig(seen.node)
        or find_other_edition(seen.node, pool.spec.edition)
        or find_pods_of_another_pool(seen.node, pool.name, seen.pods)
    )


def _plan_mode(
    seen: NodeSnapshot,
    pool: Pool,
    policy: Policy,
    verdict: Verdict,
    from_mode: str,
    ctx: ReconcileContext,
) -> StepResult:
    """What leads from mode `from_mode`, which is in force, to the pool's."""
    mode = MODES[pool.spec.edition, pool.spec.schedule]
    applied = seen.records.applied
    failed = seen.records.change
    if failed is not None and not failed.is_under_way:
        failed = None
    transition = _needed_transition(seen, pool, mode, from_mode)
    isolation_stays = is_isolation_left(seen, mode)
    if transition is None or transition is REPAIR:
        plan = plan_labels(seen, pool, mode, verdict, ctx)
        # Also a node that needs its teardown keeps the labels and records of its mode.
        is_kept = plan.action is not None and (applied is None or applied.is_of(mode))
        if is_kept or (transition is None and not isolation_stays):
            return plan
    if isolation_stays and (transition is None or transition.outcome is Outcome.APPLY):
        if applied is not None and failed is None and applied.edition is mode.edition:
            from_mode = applied.schedule
        transition = TEARDOWN
    assert transition is not None
    restart = transition.outcome is Outcome.APPLY_AND_RESTART
    if restart and not policy.may_restart:
        if failed is None:
            return plan_labels(seen, pool, mode, verdict, ctx, restart_pending=True)
        message = (
            f"{from_mode} -> {mode.schedule} needs a restart, and devicePlugin.restart is Never"
        )
        return seen.plan(NodeState.BLOCKED, Reason.PLUGIN_RESTART_NEEDED, message)
    kind = policy.kind_of(from_mode, mode.schedule, transition.outcome)
    refusal = _find_refusal(seen, transition, policy, ctx)
    if refusal is not None:
        message = f"{kind.change}: {refusal.message}"
        plan = seen.plan(NodeState.BLOCKED, refusal.reason, message)
        return replace(plan, kind=kind)
    plan = _plan_change(seen, pool, policy, transition, Schedule(from_mode), failed, ctx)
    return replace(plan, kind=kind)


def _find_refusal(
    seen: NodeSnapshot, transition: Transition, policy: Policy, ctx: ReconcileContext
) -> Blocker | None:
    """Why the change is not begun at all, or not before somebody agrees."""
    if transition.refusal is None:
        return None
    if transition.outcome is not Outcome.REQUIRES_TEARDOWN:
        return Blocker(transition.refusal, transition.instructions)
    refusal = find_refusal(seen.node, policy, ctx)
    return refusal and replace(refusal, message=f"{refusal.message}; {transition.message}")


def _plan_change(
    seen: NodeSnapshot,
    pool: Pool,
    policy: Policy,
    transition: Transition,
    from_mode: Schedule,
    failed: Change | None,
    ctx: ReconcileContext,
) -> StepResult:
    """The beginning of a change, or what it waits for; it may follow one that `failed`."""
    applied = seen.records.applied
    left, mode = MODES[pool.spec.edition, from_mode], MODES[pool.spec.edition, pool.spec.schedule]
    rolled_back = applied.failure if applied is not None and applied.left(mode) else None
    if rolled_back is not None and rolled_back.attempt == policy.attempt and failed is None:
        message = f"rolled back to {from_mode}: {rolled_back.message}"
        return seen.plan(NodeState.FAILED, Reason.ROLLED_BACK, message)
    blocker = (
        _find_reason_to_stay_away(seen, pool)
        or find_missing_daemonset(mode, seen.pods, ctx)
        or find_left_over_plugin(
            seen.node, mode, desired_labels(pool.name, pool.spec), seen.pods, ctx
        )
    )
    if blocker is not None:
        return seen.plan(NodeState.BLOCKED, blocker.reason, blocker.message)
    workloads = find_blocking_pods(transition, left, mode, seen.pods)
    affected = len(workloads.pods) if workloads is not None else 0
    if workloads is not None and not policy.stays_cordoned:
        plan = seen.plan(NodeState.BLOCKED, workloads.reason, workloads.message)
        return replace(plan, pods=affected)
    if workloads is not None and policy.workloads is WorkloadPolicy.EVICT and not ctx.may_evict:
        return replace(plan_eviction_disabled(seen, workloads), pods=affected)
    initializing = failed.initializing if failed else applied is None and is_initializing(seen)
    if not seen.node.ready:
        way = f"{from_mode} -> {mode.schedule}"
        message = f"{way} waits: the node is not ready, its plugin would not return"
        return seen.plan(NodeState.WAITING, Reason.NODE_NOT_READY, message)
    change = Change(
        pool=pool.name,
        claim=policy.claim.spec,
        edition=pool.spec.edition,
        from_mode=from_mode,
        to=mode.schedule,
        phase=ChangePhase.CORDONED,
        since=ctx.now,
        restart=transition.outcome is Outcome.APPLY_AND_RESTART,
        initializing=initializing,
        labelled_at=failed.labelled_at if failed else None,
        before=failed.before if failed else (),
        admitted=failed.admitted if failed else None,
        boot_id=failed.boot_id if failed else None,
        teardown=Teardown() if transition.outcome is Outcome.REQUIRES_TEARDOWN else None,
    )
    message = f"{from_mode} -> {mode.schedule}"
    cordon = plan_cordon(seen, change)
    return StepResult(
        seen.node.name,
        NodeState.WAITING,
        Reason.WAITING_FOR_BUDGET,
        message,
        start=Start(Reason.CORDONED, message, cordon, uses_budget=not initializing),
        initializes=initializing,
        pods=affected,
    )


def _needed_transition(
    seen: NodeSnapshot, pool: Pool, mode: Mode, from_mode: str
) -> Transition | None:
    """What the change from `from_mode` to `mode` needs; None where writing labels is enough."""
    applied = seen.records.applied
    if from_mode != mode.schedule:
        return find_transition(mode.edition, from_mode, mode.schedule)
    if applied is None or not applied.is_of(mode):
        return None
    never = pool.spec.device_plugin.restart is RestartPolicy.NEVER
    restarted = applied.plugins != running_plugins(seen.pods, mode)
    return REPAIR if applied.needs_restart and not (never or restarted) else None


def is_initializing(seen: NodeSnapshot) -> bool:
    """A node that no pool had before and no GPU pod uses: changing it takes nothing away."""
    ours = names.LABEL_POOL in seen.node.labels and names.LABEL_POOL in seen.node.owned
    return not ours and not any(pod.is_live and pod.requests for pod in seen.pods)
