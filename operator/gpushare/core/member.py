"""What one member of a pool needs next."""

from dataclasses import replace
from datetime import timedelta

from gpushare import names
from gpushare.api.job import JobState
from gpushare.api.pool import Pool, RestartPolicy, Schedule
from gpushare.api.rollout import StaleWorkloadPolicy, WorkloadPolicy
from gpushare.core.actions import NodePlan, NodeState
from gpushare.core.applied import find_doubt, plan_noted
from gpushare.core.blockers import (
    Blocker,
    find_blocking_pods,
    find_left_over_plugin,
    find_mig,
    find_missing_daemonset,
    find_other_edition,
    find_pods_of_another_pool,
)
from gpushare.core.change import transition_of
from gpushare.core.completion import is_completion
from gpushare.core.drift import Verdict, judge_drift
from gpushare.core.failure import describe_failure, read_reason
from gpushare.core.held import find_held, plan_contested, plan_put_back, tell_rivals
from gpushare.core.inforce import find_in_force, running_plugins
from gpushare.core.labels import plan_labels
from gpushare.core.modes import MODES, Mode, desired_labels
from gpushare.core.module import is_isolation_left, plan_module_noted
from gpushare.core.observed import Observed, Pass
from gpushare.core.policy import Policy, build_policy
from gpushare.core.records import Change, Failure, NodeRecords, Step, Teardown
from gpushare.core.rollout import (
    plan_cordon,
    plan_eviction_disabled,
    plan_give_way,
    plan_step,
)
from gpushare.core.stale import plan_stale
from gpushare.core.teardown import agree_on_policy, find_refusal
from gpushare.core.transitions import REPAIR, TEARDOWN, Outcome, Transition, find_transition
from gpushare.core.turn import CLOSED, Turn
from gpushare.names import Reason


def plan_member(seen: Observed, pool: Pool, at: Pass, turn: Turn = CLOSED) -> NodePlan:
    """What `seen.node`, a member of `pool`, needs next; `turn` says whether a change may begin."""
    wanted = desired_labels(pool.name, pool.spec)
    policy = agree_on_policy(seen, pool, build_policy(pool, seen.node, at.timing))
    plan = _plan_next(seen, pool, policy, at, turn)
    if seen.node.carries_ours and _find_reason_to_stay_away(seen, pool) is None:
        plan = plan_module_noted(seen, plan, MODES[pool.spec.edition, pool.spec.schedule])
    # Where nothing is written, nothing is ever ours.
    held = pool.observes or wanted.keys() <= seen.node.owned
    if held and wanted.items() <= seen.node.labels.items():
        plan = replace(plan, labelled=True)
    if (doubt := find_doubt(seen, at)) is not None and plan.action is None:
        wakes = [doubt.total_seconds(), plan.wake_after_seconds or doubt.total_seconds()]
        plan = replace(plan, wake_after_seconds=min(wakes))
    change = seen.records.change
    if change is not None and change.is_under_way:
        # Also where it gives way, or another change is to follow the one that failed.
        plan = replace(plan, under_way=True)
    failure, applied = _find_failure(seen.records), seen.records.applied
    if failure is not None and failure.attempt == policy.attempt:
        # Whatever is done to the node meanwhile: completed late, rolled back, fought over.
        return replace(plan, halts=plan.halts or describe_failure(seen.node.name, failure))
    is_proven = applied is not None and applied.of is not None
    plan = replace(plan, proven=plan.state is NodeState.READY and is_proven)
    evicts = pool.spec.rollout.stale_workloads is StaleWorkloadPolicy.EVICT
    return plan_stale(seen, plan, at, turn) if evicts else plan


def _find_failure(records: NodeRecords) -> Failure | None:
    """What failed on the node last; one that joins fails alone, and holds nobody up."""
    change, applied = records.change, records.applied
    if change is not None and change.is_under_way:
        if change.joining:
            return None
        if (failure := change.failure or change.undoes) is not None:
            return failure
    return applied.failure if applied is not None else None


def _plan_next(seen: Observed, pool: Pool, policy: Policy, at: Pass, turn: Turn) -> NodePlan:
    change = seen.records.change
    if change is not None and change.is_under_way:
        plan = _plan_under_way(seen, pool, change, policy, at, turn)
        if is_completion(plan) or not _is_superseded(change, pool, policy):
            return plan
        assert change.failure is not None
        if running := [job for job in seen.jobs.values() if job.state is JobState.RUNNING]:
            # It may remove the module from below the pods that come next.
            message = f"{change.failure.message}. Job {min(map(str, running))} must end first"
            return seen.plan(NodeState.FAILED, read_reason(change.failure), message)
        # The spec changed after it failed: begin anew, from the mode that was written.
        verdict = Verdict(record=seen.records.drift)
        again = _plan_mode(seen, pool, policy, verdict, change.to, at, turn)
        if again.action is not None:
            return again
        message = f"{change.failure.message}. {again.reason}: {again.message}"
        # The change that failed may still come to its end, by itself.
        wakes = (again.wake_after_seconds, plan.wake_after_seconds)
        return replace(
            again,
            state=NodeState.FAILED,
            reason=read_reason(change.failure),
            message=message,
            wake_after_seconds=min((wake for wake in wakes if wake is not None), default=None),
        )
    if blocker := _find_reason_to_stay_away(seen, pool):
        return seen.plan(NodeState.BLOCKED, blocker.reason, blocker.message)
    # A time further off was written by a clock that is ahead, or by hand.
    if (
        change is not None
        and change.not_before is not None
        and timedelta() < (left := change.not_before - at.now) <= at.timing.backoff
    ):
        same = (change.pool, change.edition, change.to) == (
            pool.name, pool.spec.edition, pool.spec.schedule
        )  # fmt: skip
        kind = policy.kind_of(change.of, change.to, transition_of(change).outcome)
        return NodePlan(
            seen.node.name,
            NodeState.WAITING,
            Reason.WAITING_AFTER_LATE_BINDING,
            "gave way to a pod that was bound during the cordon, or to a person; tried again at "
            f"{change.not_before.isoformat(timespec='seconds')}",
            wake_after_seconds=left.total_seconds(),
            kind=kind if same else None,
        )
    of = find_in_force(pool.spec.edition, seen.node, seen.pods, seen.records.applied)
    held = find_held(seen, pool, of)
    verdict = judge_drift(seen.node, seen.records, held, policy.claim, at.now)
    if verdict.fought_over & names.MODE_LABELS:
        return plan_contested(seen, held, verdict, at)
    if verdict.wait is not None:
        return seen.plan_pause(verdict, at.now)
    applied = seen.records.applied
    waits = applied is not None and applied.schedule == of != pool.spec.schedule
    if waits and (put_back := plan_put_back(seen, held, verdict, at)) is not None:
        return put_back
    if waits and (noted := plan_noted(seen, held, at)) is not None:
        return noted
    plan = _plan_mode(seen, pool, policy, verdict, of, at, turn)
    if verdict.rivals:
        plan = tell_rivals(plan, seen.plan_contested(verdict))
    if verdict.puts_back and plan.reason is Reason.CORDONED:
        plan = replace(plan, reason=Reason.DRIFT_REPAIRED)
    if seen.node.owns_cordon and plan.action is None:
        # Its record was removed by hand: half-way changed, it must not take pods.
        return replace(plan, message=f"{plan.message}. The cordon is ours, and stays until then")
    return plan


def _plan_under_way(
    seen: Observed, pool: Pool, change: Change, policy: Policy, at: Pass, turn: Turn
) -> NodePlan:
    """A change that began is finished, unless it can still be dropped without a trace."""
    first_time = change.step is Step.CORDONED and change.labelled_at is None
    if first_time and turn.is_halted and not change.joining:
        why = "the rollout is halted, and nothing but the cordon was done"
        action = plan_give_way(seen, why=why, now=at.now)
        return seen.plan(NodeState.UPDATING, Reason.ROLLOUT_HALTED, why, action)
    forbidden = change.restart and not policy.may_restart
    wanted = (pool.spec.schedule, pool.name) == (change.to, change.pool) and not forbidden
    if change.undoes is not None:
        wanted = change.undoes.attempt == policy.attempt and not forbidden
    if change.teardown is not None:
        wanted = wanted and find_refusal(seen.node, policy, at) is None
    if not wanted and change.step is Step.CORDONED:
        action = plan_give_way(seen, why="the pool wants something else now", now=at.now)
        return seen.plan(NodeState.UPDATING, Reason.UPDATING, "the pool changed", action)
    return plan_step(seen, policy, at)


def _is_superseded(change: Change, pool: Pool, policy: Policy) -> bool:
    """Whether a change that failed is not what the pool wants any more."""
    if change.failure is None or pool.spec.schedule is change.to:
        return False
    return change.undoes is None or change.failure.attempt != policy.attempt


def _find_reason_to_stay_away(seen: Observed, pool: Pool) -> Blocker | None:
    """Why the node must be left exactly as it is."""
    return (
        find_mig(seen.node)
        or find_other_edition(seen.node, pool.spec.edition)
        or find_pods_of_another_pool(seen.node, pool.name, seen.pods)
    )


def _plan_mode(
    seen: Observed,
    pool: Pool,
    policy: Policy,
    verdict: Verdict,
    of: str,
    at: Pass,
    turn: Turn,
) -> NodePlan:
    """What leads from mode `of`, which is in force, to the pool's."""
    mode = MODES[pool.spec.edition, pool.spec.schedule]
    applied = seen.records.applied
    failed = seen.records.change
    if failed is not None and not failed.is_under_way:
        failed = None
    transition = _needed_transition(seen, pool, mode, of)
    isolation_stays = is_isolation_left(seen, mode)
    if transition is None or transition is REPAIR:
        plan = plan_labels(seen, pool, mode, verdict, at)
        # Also a node that needs its teardown keeps the labels and records of its mode.
        is_kept = plan.action is not None and (applied is None or applied.is_of(mode))
        if is_kept or (transition is None and not isolation_stays):
            return plan
    if isolation_stays and (transition is None or transition.outcome is Outcome.APPLY):
        if applied is not None and failed is None and applied.edition is mode.edition:
            of = applied.schedule
        transition = TEARDOWN
    assert transition is not None
    restart = transition.outcome is Outcome.APPLY_AND_RESTART
    if restart and not policy.may_restart:
        if failed is None:
            return plan_labels(seen, pool, mode, verdict, at, awaits_restart=True)
        message = f"{of} -> {mode.schedule} needs a restart, and devicePlugin.restart is Never"
        return seen.plan(NodeState.BLOCKED, Reason.PLUGIN_RESTART_NEEDED, message)
    kind = policy.kind_of(of, mode.schedule, transition.outcome)
    refusal = _find_refusal(seen, transition, policy, at)
    if refusal is not None:
        message = f"{kind.change}: {refusal.message}"
        plan = seen.plan(NodeState.BLOCKED, refusal.reason, message)
        return replace(plan, kind=kind)
    plan = _plan_change(seen, pool, policy, transition, Schedule(of), failed, at, turn)
    return replace(plan, kind=kind)


def _find_refusal(
    seen: Observed, transition: Transition, policy: Policy, at: Pass
) -> Blocker | None:
    """Why the change is not begun at all, or not before somebody agrees."""
    if transition.refusal is None:
        return None
    if transition.outcome is not Outcome.REQUIRES_TEARDOWN:
        return Blocker(transition.refusal, transition.instructions)
    refusal = find_refusal(seen.node, policy, at)
    return refusal and replace(refusal, message=f"{refusal.message}; {transition.message}")


def _plan_change(
    seen: Observed,
    pool: Pool,
    policy: Policy,
    transition: Transition,
    of: Schedule,
    failed: Change | None,
    at: Pass,
    turn: Turn,
) -> NodePlan:
    """The beginning of a change, or what it waits for; it may follow one that `failed`."""
    applied = seen.records.applied
    left, mode = MODES[pool.spec.edition, of], MODES[pool.spec.edition, pool.spec.schedule]
    rolled_back = applied.failure if applied is not None and applied.left(mode) else None
    if rolled_back is not None and rolled_back.attempt == policy.attempt and failed is None:
        message = f"rolled back to {of}: {rolled_back.message}"
        return seen.plan(NodeState.FAILED, Reason.ROLLED_BACK, message)
    blocker = (
        _find_reason_to_stay_away(seen, pool)
        or find_missing_daemonset(mode, seen.pods, at)
        or find_left_over_plugin(
            seen.node, mode, desired_labels(pool.name, pool.spec), seen.pods, at
        )
    )
    if blocker is not None:
        return seen.plan(NodeState.BLOCKED, blocker.reason, blocker.message)
    workloads = find_blocking_pods(transition, left, mode, seen.pods)
    affected = len(workloads.pods) if workloads is not None else 0
    if workloads is not None and not policy.stays_cordoned:
        plan = seen.plan(NodeState.BLOCKED, workloads.reason, workloads.message)
        return replace(plan, pods=affected)
    if workloads is not None and policy.workloads is WorkloadPolicy.EVICT and not at.may_evict:
        return replace(plan_eviction_disabled(seen, workloads), pods=affected)
    joining = failed.joining if failed else applied is None and is_joining(seen)
    if not seen.node.ready:
        message = (
            f"{of} -> {mode.schedule} waits: the node is not ready, its plugin would not return"
        )
        return seen.plan(NodeState.WAITING, Reason.NODE_NOT_READY, message)
    if not (turn.may_join if joining else turn.may_begin):
        plan = seen.plan(NodeState.WAITING, turn.reason, turn.message)
        return replace(plan, in_line=True, pods=affected, joins=joining)
    change = Change(
        pool=pool.name,
        claim=policy.claim.spec,
        edition=pool.spec.edition,
        of=of,
        to=mode.schedule,
        step=Step.CORDONED,
        since=at.now,
        restart=transition.outcome is Outcome.APPLY_AND_RESTART,
        joining=joining,
        labelled_at=failed.labelled_at if failed else None,
        before=failed.before if failed else (),
        admitted=failed.admitted if failed else None,
        boot_id=failed.boot_id if failed else None,
        teardown=Teardown() if transition.outcome is Outcome.REQUIRES_TEARDOWN else None,
    )
    return NodePlan(
        seen.node.name,
        NodeState.UPDATING,
        Reason.CORDONED,
        f"{of} -> {mode.schedule}",
        plan_cordon(seen, change),
        takes_slot=not joining,
        in_line=True,
        joins=joining,
        pods=affected,
    )


def _needed_transition(seen: Observed, pool: Pool, mode: Mode, of: str) -> Transition | None:
    """What the change from `of` to `mode` needs; None where writing labels is enough."""
    applied = seen.records.applied
    if of != mode.schedule:
        return find_transition(mode.edition, of, mode.schedule)
    if applied is None or not applied.is_of(mode):
        return None
    never = pool.spec.device_plugin.restart is RestartPolicy.NEVER
    restarted = applied.plugins != running_plugins(seen.pods, mode)
    return REPAIR if applied.needs_restart and not (never or restarted) else None


def is_joining(seen: Observed) -> bool:
    """A node that no pool had before and no GPU pod uses: changing it takes nothing away."""
    ours = names.LABEL_POOL in seen.node.labels and names.LABEL_POOL in seen.node.owned
    return not ours and not any(pod.is_live and pod.requests for pod in seen.pods)
