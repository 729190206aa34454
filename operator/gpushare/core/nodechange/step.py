"""Gathers what the rules of a phase read about a node, and writes its records."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from gpushare.api.rollout import WorkloadPolicy
from gpushare.core.cause import Cause
from gpushare.core.nodechange.blockers import find_blocking_pods, find_evictable_pods
from gpushare.core.nodechange.label_restoration import find_changed_labels, owned_labels
from gpushare.core.ownership.drift import DriftJudgement, judge_drift
from gpushare.core.records.change_record import Change
from gpushare.core.records.node_records import NodeRecords
from gpushare.core.snapshot.actions import (
    Action,
    ApplyNode,
    EvictPods,
    NodeState,
    Verdict,
    build_apply,
)
from gpushare.core.snapshot.change_policy import Policy
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext
from gpushare.editions.edition import REPAIR, TEARDOWN, Mode, Transition
from gpushare.editions.registry import find_transition, get_mode
from gpushare.names import Reason

EVICTION_DISABLED = (
    "is Evict, but this installation does not allow it. Set the chart's value eviction.enabled"
)
"""Message text that follows the name of the pool's field."""
RESTART_FORBIDDEN = (
    "It must be restarted, but devicePlugin.restart is Never. Set devicePlugin.restart to "
    "OnIsolationChange"
)


@dataclass(frozen=True)
class Step:
    """A node with its pool's policy and the context of the pass; derived values are cached."""

    seen: NodeSnapshot
    policy: Policy
    ctx: ReconcileContext

    @cached_property
    def change(self) -> Change:
        """The change that is under way."""
        change = self.seen.records.change
        assert change is not None
        return change

    @property
    def from_mode(self) -> Mode:
        """The mode that the change leaves."""
        return get_mode(self.change.edition, self.change.from_mode)

    @property
    def to(self) -> Mode:
        """The mode that the change brings."""
        return self.change.mode

    @cached_property
    def late_pods(self) -> Cause | None:
        """Pods that came to the node after its cordon, and that the change would harm."""
        return find_late_pods(self.seen, self.change)

    @cached_property
    def enforced_labels(self) -> dict[str, str]:
        """The labels that the node must have now."""
        return find_changed_labels(self.seen, self.change)

    @cached_property
    def drift(self) -> DriftJudgement:
        """What other field managers did to the enforced labels."""
        seen, claim = self.seen, self.policy.claim
        return judge_drift(seen.node, seen.records, self.enforced_labels, claim, self.ctx.now)

    def find_restart_limit(self, reserve: int = 0) -> datetime | None:
        """Return when the limit of restarts per hour admits a restart of the node's plugin, with
        `reserve` further ones left; None where it admits one now."""
        limit = self.ctx.timing.restarts_per_hour - reserve
        return self.seen.records.restarts.find_free(self.seen.node.retry, self.ctx.now, limit)

    def updating(self, reason: Reason, message: str, action: Action | None = None) -> Verdict:
        """Plan the next step of the change, in state Updating."""
        return Verdict(NodeState.UPDATING, reason, message, action)

    def blocked(self, blocker: Cause, action: Action | None = None) -> Verdict:
        """Wait in state Blocked until a user removes what blocks the node."""
        return Verdict(NodeState.BLOCKED, blocker.reason, blocker.message, action)

    def wait_for_pods(self, blocker: Cause) -> Verdict:
        """Wait without a deadline for the pods of `blocker`, or evict them if the pool wants that.

        Until they are gone the node stays cordoned and uses up the budget.
        """
        evicts = self.policy.workloads is WorkloadPolicy.EVICT
        if evicts and not self.ctx.may_evict:
            return self.eviction_disabled(blocker)
        transition = transition_of(self.change)
        pods = find_evictable_pods(transition, blocker.pods) if evicts else ()
        until = "Until then the node stays cordoned and counts against maxUnavailable"
        action = EvictPods(self.seen.node.name, pods) if pods else None
        return Verdict(NodeState.BLOCKED, blocker.reason, f"{blocker.message}. {until}", action)

    def eviction_disabled(self, blocker: Cause) -> Verdict:
        """Report that the pool wants pods evicted, but the installation does not allow it."""
        message = f"{blocker.message}. rollout.workloads {EVICTION_DISABLED}"
        return Verdict(NodeState.BLOCKED, Reason.EVICTION_DISABLED, message)

    def write_change(self, message: str, **update: object) -> ApplyNode:
        """Build the write of these fields of the change, which keeps all labels and the cordon."""
        change = self.change.model_copy(update=update)
        records = self.seen.records.model_copy(update={"change": change})
        return write_records(self.seen, records, message, cordon=True)


def write_records(
    seen: NodeSnapshot, records: NodeRecords, message: str, *, cordon: bool | None = None
) -> ApplyNode:
    """Build the write of the node's records that leaves all labels as they are.

    Without `cordon` the operator's cordon stays as it is, too.
    """
    return build_apply(
        seen.node,
        owned_labels(seen.node),
        records,
        cordon=seen.node.owns_cordon if cordon is None else cordon,
        lifts_cordon=cordon is False and seen.has_lost_cordon,
        message=message,
    )


def transition_of(change: Change) -> Transition:
    """Return the transition that `change` makes.

    To the mode that the node already has, that is only a restart of the plugin, unless the plugin
    follows its label.
    """
    if change.teardown is not None:
        return TEARDOWN
    if change.from_mode == change.to and not change.mode.follows_label:
        return REPAIR
    return find_transition(change.edition, change.from_mode, change.to)


def find_late_pods(seen: NodeSnapshot, change: Change) -> Cause | None:
    """Find pods that came to the node after its cordon, and that `change` would harm."""
    from_mode, to = get_mode(change.edition, change.from_mode), change.mode
    return find_blocking_pods(transition_of(change), from_mode, to, seen.pods)
