"""The rules on the way to the pool's mode: labels alone, or the start of a change."""

from dataclasses import dataclass, replace
from functools import cached_property

from gpushare import names
from gpushare.api.pool import Pool, RestartPolicy, Schedule
from gpushare.api.rollout import WorkloadPolicy
from gpushare.core.nodechange.at_rest import MemberStep
from gpushare.core.nodechange.blockers import (
    find_blocking_pods,
    find_left_over_plugin,
    find_missing_daemonset,
)
from gpushare.core.nodechange.kernel_module import is_isolation_left, note_module
from gpushare.core.nodechange.last_applied import plan_labels
from gpushare.core.nodechange.step import owned_labels
from gpushare.core.nodechange.teardown import find_refusal
from gpushare.core.ownership.drift import Verdict
from gpushare.core.records.change_record import Change, ChangePhase, Teardown
from gpushare.core.rollout.change_kinds import Kind
from gpushare.core.snapshot.actions import (
    ApplyNode,
    Blocker,
    NodeState,
    Start,
    StepResult,
    build_apply,
)
from gpushare.core.snapshot.effective_mode import running_plugins
from gpushare.core.snapshot.node import NodeSnapshot
from gpushare.editions.edition import REPAIR, TEARDOWN, Mode, Outcome, Transition
from gpushare.editions.registry import MODES, desired_labels, find_transition
from gpushare.names import Reason


@dataclass(frozen=True)
class StartStep:
    """A node, the mode that is in force, and what leads from there to the pool's."""

    member: MemberStep
    current: str
    """The mode in force, or that was written by a change that failed."""
    verdict: Verdict
    failed: Change | None = None
    """The change that failed, which this one follows."""

    @property
    def seen(self) -> NodeSnapshot:
        return self.member.seen

    @property
    def pool(self) -> Pool:
        return self.member.pool

    @cached_property
    def mode(self) -> Mode:
        """The pool's."""
        return MODES[self.pool.spec.edition, self.pool.spec.schedule]

    @cached_property
    def needed(self) -> Transition | None:
        """What the labels ask for; None where writing them is enough."""
        applied = self.seen.records.applied
        if self.current != self.mode.schedule:
            return find_transition(self.mode.edition, self.current, self.mode.schedule)
        if applied is None or not applied.is_of(self.mode):
            return None
        never = self.pool.spec.device_plugin.restart is RestartPolicy.NEVER
        restarted = applied.plugins != running_plugins(self.seen.pods, self.mode)
        return REPAIR if applied.needs_restart and not (never or restarted) else None

    @cached_property
    def isolation_stays(self) -> bool:
        """A kernel module may be loaded that isolates in the pool's mode, too."""
        return is_isolation_left(self.seen, self.mode)

    @cached_property
    def tears_down(self) -> bool:
        """Isolation must go, and the labels alone would not take it away."""
        needed = self.needed
        return self.isolation_stays and (needed is None or needed.outcome is Outcome.APPLY)

    @cached_property
    def transition(self) -> Transition:
        """What the change needs."""
        transition = TEARDOWN if self.tears_down else self.needed
        assert transition is not None
        return transition

    @cached_property
    def from_mode(self) -> str:
        """The mode that is left."""
        applied = self.seen.records.applied
        is_known = applied is not None and applied.edition is self.mode.edition
        if self.tears_down and self.failed is None and applied is not None and is_known:
            return applied.schedule
        return self.current

    @cached_property
    def kind(self) -> Kind:
        """The kind of the change."""
        return self.member.policy.kind_of(
            self.from_mode, self.mode.schedule, self.transition.outcome
        )

    @cached_property
    def workloads(self) -> Blocker | None:
        """Pods that the change would harm."""
        left = MODES[self.pool.spec.edition, Schedule(self.from_mode)]
        return find_blocking_pods(self.transition, left, self.mode, self.seen.pods)

    @cached_property
    def initializes(self) -> bool:
        """No pool had the node before, and no GPU pod uses it: changing it takes nothing away."""
        if self.failed is not None:
            return self.failed.initializing
        node = self.seen.node
        ours = names.LABEL_POOL in node.labels and names.LABEL_POOL in node.owned
        uses = any(pod.is_live and pod.requests for pod in self.seen.pods)
        return self.seen.records.applied is None and not ours and not uses

    def plan(self, state: NodeState, reason: Reason, message: str) -> StepResult:
        """A change of this kind waits."""
        affected = len(self.workloads.pods) if self.workloads is not None else 0
        return replace(self.seen.plan(state, reason, message), kind=self.kind, pods=affected)


def write_labels(step: StartStep) -> StepResult | None:
    """The pool's mode is in force: labels and records are written where any is missing."""
    if step.needed is not None and step.needed is not REPAIR:
        return None
    plan = plan_labels(step.seen, step.pool, step.mode, step.verdict, step.member.ctx)
    # Also a node that needs its teardown keeps the labels and records of its mode.
    applied = step.seen.records.applied
    is_kept = plan.action is not None and (applied is None or applied.is_of(step.mode))
    return plan if is_kept or (step.needed is None and not step.isolation_stays) else None


def leave_restart_to_user(step: StartStep) -> StepResult | None:
    """The plugin must be restarted, and devicePlugin.restart is Never: a user does it."""
    if step.transition.outcome is not Outcome.APPLY_AND_RESTART or step.member.policy.may_restart:
        return None
    if step.failed is None:
        return plan_labels(
            step.seen, step.pool, step.mode, step.verdict, step.member.ctx, restart_pending=True
        )
    message = (
        f"{step.from_mode} -> {step.mode.schedule} needs a restart, and devicePlugin.restart is "
        "Never"
    )
    return step.seen.plan(NodeState.BLOCKED, Reason.PLUGIN_RESTART_NEEDED, message)


def refuse(step: StartStep) -> StepResult | None:
    """The edition has no such transition, or it is a teardown that nobody has asked for."""
    refusal = _find_refusal(step)
    if refusal is None:
        return None
    message = f"{step.kind.change}: {refusal.message}"
    return replace(step.seen.plan(NodeState.BLOCKED, refusal.reason, message), kind=step.kind)


def _find_refusal(step: StartStep) -> Blocker | None:
    transition = step.transition
    if transition.refusal is None:
        return None
    if transition.outcome is not Outcome.REQUIRES_TEARDOWN:
        return Blocker(transition.refusal, transition.instructions)
    refusal = find_refusal(step.seen.node, step.member.policy, step.member.ctx)
    return refusal and replace(refusal, message=f"{refusal.message}; {transition.message}")


def stay_rolled_back(step: StartStep) -> StepResult | None:
    """This very change failed and was rolled back: a new spec or a retry annotation is needed."""
    applied, policy = step.seen.records.applied, step.member.policy
    failure = applied.failure if applied is not None and applied.left(step.mode) else None
    if failure is None or failure.attempt != policy.attempt or step.failed is not None:
        return None
    message = f"rolled back to {step.from_mode}: {failure.message}"
    plan = step.seen.plan(NodeState.FAILED, Reason.ROLLED_BACK, message)
    return replace(plan, kind=step.kind)


def wait_for_components(step: StartStep) -> StepResult | None:
    """A DaemonSet is missing that the mode needs, or one is there that would compete with it."""
    seen, ctx = step.seen, step.member.ctx
    labels = desired_labels(step.pool.name, step.pool.spec)
    blocker = (
        step.member.reason_to_stay_away
        or find_missing_daemonset(step.mode, seen.pods, ctx)
        or find_left_over_plugin(seen.node, step.mode, labels, seen.pods, ctx)
    )
    if blocker is None:
        return None
    return replace(step.member.blocked(blocker), kind=step.kind)


def wait_for_workloads(step: StartStep) -> StepResult | None:
    """Pods hold the change up, and the pool waits for them before the cordon."""
    if step.workloads is None or step.member.policy.stays_cordoned:
        return None
    return step.plan(NodeState.BLOCKED, step.workloads.reason, step.workloads.message)


def report_eviction_disabled(step: StartStep) -> StepResult | None:
    """The pool wants pods evicted, and the installation does not allow it."""
    evicts = step.member.policy.workloads is WorkloadPolicy.EVICT
    if step.workloads is None or not evicts or step.member.ctx.may_evict:
        return None
    told = step.member.eviction_disabled(step.workloads)
    return step.plan(told.state, told.reason, told.message)


def wait_for_node(step: StartStep) -> StepResult | None:
    """The node is not ready: its plugin would not return."""
    if step.seen.node.ready:
        return None
    way = f"{step.from_mode} -> {step.mode.schedule}"
    message = f"{way} waits: the node is not ready, its plugin would not return"
    plan = step.seen.plan(NodeState.WAITING, Reason.NODE_NOT_READY, message)
    return replace(plan, kind=step.kind)


def start(step: StartStep) -> StepResult:
    """It starts with the cordon, once the rollout admits it."""
    failed, policy = step.failed, step.member.policy
    change = Change(
        pool=step.pool.name,
        claim=policy.claim.spec,
        edition=step.pool.spec.edition,
        from_mode=Schedule(step.from_mode),
        to=step.mode.schedule,
        phase=ChangePhase.CORDONED,
        since=step.member.ctx.now,
        restart=step.transition.outcome is Outcome.APPLY_AND_RESTART,
        initializing=step.initializes,
        labelled_at=failed.labelled_at if failed else None,
        before=failed.before if failed else (),
        admitted=failed.admitted if failed else None,
        boot_id=failed.boot_id if failed else None,
        teardown=Teardown() if step.transition.outcome is Outcome.REQUIRES_TEARDOWN else None,
    )
    message = f"{step.from_mode} -> {step.mode.schedule}"
    begins = Start(
        Reason.CORDONED,
        message,
        _write_cordon(step.seen, change),
        uses_budget=not step.initializes,
    )
    plan = step.plan(NodeState.WAITING, Reason.WAITING_FOR_BUDGET, message)
    return replace(plan, start=begins, initializes=step.initializes)


def _write_cordon(seen: NodeSnapshot, change: Change) -> ApplyNode:
    """The cordon and the record of the change, in one write."""
    records = seen.records.model_copy(update={"change": change})
    return build_apply(
        seen.node,
        owned_labels(seen.node),
        note_module(seen, records, MODES[change.edition, change.from_mode]),
        cordon=True,
        message=f"cordoned for {change.from_mode} -> {change.to}",
    )
