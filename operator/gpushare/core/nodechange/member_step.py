"""Derives which change a pool's node needs to get from its mode to the pool's."""

from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

from gpushare import names
from gpushare.api.nvidia_plugin import ConfigChangePolicy
from gpushare.api.pool import ModeName, Pool, RestartPolicy, Schedule
from gpushare.core.cause import Cause
from gpushare.core.nodechange.blockers import (
    find_blocking_pods,
    find_missing_config,
    find_reason_to_stay_away,
)
from gpushare.core.nodechange.configuration import find_doubtful_mode
from gpushare.core.nodechange.kernel_module import is_isolation_left
from gpushare.core.nodechange.label_restoration import find_enforced_labels
from gpushare.core.nodechange.step import Step, transition_of
from gpushare.core.ownership.claims import has_shown_card
from gpushare.core.ownership.drift import note_removal
from gpushare.core.records.change_record import Change
from gpushare.core.records.drift_record import Drift
from gpushare.core.rollout.change_kinds import ChangeKind
from gpushare.core.rollout.window_state import lift_if_started
from gpushare.core.snapshot.actions import Action, Halt, NodeState, PendingChange, Start, Verdict
from gpushare.editions.edition import REPAIR, TEARDOWN, Mode, Outcome, Transition
from gpushare.editions.registry import (
    TRANSITIONS,
    find_schedule,
    find_transition,
    get_mode,
    shows_another,
)
from gpushare.names import Reason


@dataclass(frozen=True)
class MemberStep(Step):
    """A step of a node that belongs to a pool."""

    pool: Pool

    @cached_property
    def failed_change(self) -> Change | None:
        """The change under way, if it has failed: the next change starts from it; else None."""
        change = self.seen.records.change
        has_failed = change is not None and change.is_under_way and change.failure is not None
        return change if has_failed else None

    @cached_property
    def halt(self) -> Halt | None:
        """The failure that the records have in the present attempt; a node that joins, which fails
        alone, halts no pool."""
        change, failure = self.seen.records.change, self.seen.records.failure
        joins = change is not None and change.is_under_way and change.initializing
        if joins or failure is None or failure.attempt != self.policy.attempt:
            return None
        return Halt(failure.describe(self.seen.node.name))

    @cached_property
    def window_refusal(self) -> Cause | None:
        """Why windows and freezes would not let the change under way begin now."""
        change = self.change
        kind = self.policy.kind_of(change.from_mode, change.to, transition_of(change).outcome)
        return lift_if_started(self.ctx.closed, self.pool, kind)

    @cached_property
    def reason_to_stay_away(self) -> Cause | None:
        """Why the node must not be changed to the wanted mode, or at all."""
        seen, wanted = self.seen, self.wanted
        away = find_reason_to_stay_away(seen, wanted, self.pool.name)
        if away is not None or wanted.is_resolved:
            return away
        return find_missing_config(wanted, seen.pods, self.ctx)

    @cached_property
    def current(self) -> ModeName:
        """The mode that is in force, or that was written by the change that failed."""
        if self.failed_change is not None:
            return self.failed_change.to
        reading, edition = self.seen.reading, self.pool.spec.edition
        if reading is None or reading.applied.edition is not edition:
            labelled_mode = find_schedule(edition, self.seen.node.labels)
            # The node joins in the mode of its label, unless it shows another mode.
            joins = labelled_mode == self.pool.spec.schedule
            joins = joins and not shows_another(self.seen.node, self.resolved)
            return self.resolved.schedule if joins else labelled_mode
        return find_doubtful_mode(reading, self.ctx) or reading.effective_mode

    @cached_property
    def enforced_labels(self) -> dict[str, str]:
        """The labels that the node must have now."""
        change = self.seen.records.change
        if change is not None and change.is_labelled:
            return super().enforced_labels
        return find_enforced_labels(self.seen, self.pool, self.current)

    @cached_property
    def removals(self) -> Drift | None:
        """The record of drift, with a removal of the change's record noted in it."""
        return note_removal(self.seen.node, self.seen.records, self.policy.claim, self.ctx.now)

    @cached_property
    def waits_for_change(self) -> bool:
        """Whether the recorded mode is in force, and the pool wants another."""
        applied = self.seen.records.applied
        if applied is None or applied.edition is not self.wanted.edition:
            return False
        return applied.schedule == self.current != self.wanted.schedule

    @cached_property
    def resolved(self) -> Mode:
        """The pool's mode; where a ConfigMap defines it, with its present content."""
        spec = self.pool.spec
        return self.ctx.plugin_daemonsets.resolve(get_mode(spec.edition, spec.schedule))

    @cached_property
    def wanted(self) -> Mode:
        """The mode that the node is to have: the pool's, but with the content that the node has
        loaded, unless the pool rolls edited content out, and that can be read."""
        reading, nvidia = self.seen.reading, self.pool.spec.nvidia
        if nvidia is None or reading is None or self.failed_change is not None:
            return self.resolved
        loaded, resolved = reading.applied.mode, self.resolved
        has_it = loaded.labels == resolved.labels and loaded.schedule == self.current
        rolls_out = resolved.is_resolved and nvidia.on_config_change is ConfigChangePolicy.ROLL_OUT
        return loaded if has_it and not rolls_out else resolved

    @cached_property
    def needed(self) -> Transition | None:
        """The transition that the labels need; None where writing them is enough."""
        reading = self.seen.reading
        edition, to = self.wanted.edition, self.wanted.schedule
        if self.current != to:
            # A module that is still loaded makes it the change from cgpu, whatever came between;
            # not the way back to the mode that was applied, or that the last change left.
            applied = self.seen.records.applied
            is_new = applied is None or to not in (applied.schedule, applied.from_mode)
            is_loaded = self.seen.records.module and is_new
            known = TRANSITIONS.get((edition, Schedule.CGPU, to)) if is_loaded else None
            if known is not None and known.outcome is Outcome.REQUIRES_MANUAL_ACTION:
                return known
            return find_transition(edition, self.current, to)
        if reading is None or not reading.applied.is_of(self.wanted):
            return None
        never = self.pool.spec.device_plugin.restart is RestartPolicy.NEVER
        restarted = reading.applied.plugins != reading.running
        return REPAIR if reading.applied.needs_restart and not (never or restarted) else None

    @cached_property
    def isolation_stays(self) -> bool:
        """Whether a loaded kernel module may isolate in the pool's mode, too."""
        return is_isolation_left(self.seen, self.wanted)

    @cached_property
    def tears_down(self) -> bool:
        """Whether isolation must go, and a change of labels alone would not remove it."""
        needed = self.needed
        return self.isolation_stays and (needed is None or needed.outcome is Outcome.APPLY)

    @cached_property
    def transition(self) -> Transition:
        """The transition that the change makes: a teardown, or the one that the labels need."""
        transition = TEARDOWN if self.tears_down else self.needed
        assert transition is not None
        return transition

    @cached_property
    def leaves(self) -> ModeName:
        """The mode that a change to the pool's mode leaves."""
        applied = self.seen.records.applied
        is_known = applied is not None and applied.edition is self.wanted.edition
        if self.tears_down and self.failed_change is None and applied is not None and is_known:
            return applied.schedule
        return self.current

    @property
    def way(self) -> str:
        """The mode left and the mode wanted, as messages show them."""
        return f"{self.leaves} -> {self.wanted.schedule}"

    @cached_property
    def kind(self) -> ChangeKind:
        """The kind of the change."""
        return self.policy.kind_of(self.leaves, self.wanted.schedule, self.transition.outcome)

    @cached_property
    def workloads(self) -> Cause | None:
        """Pods that the change would harm."""
        from_mode = get_mode(self.pool.spec.edition, self.leaves)
        return find_blocking_pods(self.transition, from_mode, self.wanted, self.seen.pods)

    @cached_property
    def initializes(self) -> bool:
        """Whether the node joins: no pool had it, and no GPU pod uses it that could lose cards."""
        if self.failed_change is not None:
            return self.failed_change.initializing
        node = self.seen.node
        ours = names.LABEL_POOL in node.labels and names.LABEL_POOL in node.owned
        uses = any(p.is_live and (p.requests or p.has_claimed_cards) for p in self.seen.pods)
        return self.seen.records.applied is None and not ours and not uses

    @property
    def has_shown_card(self) -> bool:
        """Whether a node without a verified mode has shown a sign of a card itself, so that its
        change does not rest on a user's word."""
        seen = self.seen
        is_new = seen.records.applied is None
        return is_new and has_shown_card(seen.node, seen.records, seen.resource_slices)

    @property
    def affected_pods(self) -> int:
        """How many pods hold the change up."""
        return len(self.workloads.pods) if self.workloads is not None else 0

    def pending(
        self,
        state: NodeState,
        reason: Reason,
        message: str,
        action: Action | None = None,
        *,
        pods: int = 0,
        requeue_after: timedelta | None = None,
        start: Start | None = None,
    ) -> Verdict:
        """Wait before the change to the pool's mode, which `pods` hold up."""
        message, pending = self.add_cordon(message, action), PendingChange(self.kind, pods)
        return Verdict(state, reason, message, action, start, requeue_after, pending)

    def add_cordon(self, message: str, action: Action | None) -> str:
        """Return `message` about a node that waits, with a cordon of ours that stays.

        An operator's cordon without the record of a change stays: the record was removed by hand,
        and a node that is changed half-way must not take pods.
        """
        stays = action is None and self.failed_change is None and self.seen.node.owns_cordon
        return f"{message}. The node stays cordoned meanwhile" if stays else message
