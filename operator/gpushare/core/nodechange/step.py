"""One node, with all that the rules of its phase look at."""

from dataclasses import dataclass
from functools import cached_property

from gpushare.api.pool import Pool
from gpushare.core.nodechange.ongoing_change import find_late_pods, owned_labels
from gpushare.core.records.change_record import Change, ChangePhase
from gpushare.core.snapshot.actions import (
    Action,
    ApplyNode,
    Blocker,
    NodeState,
    StepResult,
    build_apply,
)
from gpushare.core.snapshot.change_policy import Policy
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext
from gpushare.names import Reason


@dataclass(frozen=True)
class Step:
    """A node, its pool's policy, and the moment; what is derived is worked out once, when asked."""

    seen: NodeSnapshot
    policy: Policy
    ctx: ReconcileContext
    pool: Pool | None = None
    """None where no pool claims the node any more."""

    @cached_property
    def change(self) -> Change:
        """The change that is under way."""
        change = self.seen.records.change
        assert change is not None
        return change

    @cached_property
    def is_first_change(self) -> bool:
        """The node is only cordoned: nothing was labelled, also by no change that failed before."""
        return self.change.phase is ChangePhase.CORDONED and self.change.labelled_at is None

    @cached_property
    def late_pods(self) -> Blocker | None:
        """Pods that came although the node is cordoned, and that the change would harm."""
        return find_late_pods(self.seen, self.change)

    def updating(self, reason: Reason, message: str, action: Action | None = None) -> StepResult:
        """The change goes on."""
        return self.seen.plan(NodeState.UPDATING, reason, message, action)

    def blocked(self, blocker: Blocker) -> StepResult:
        """Nothing is done until somebody removes what blocks it."""
        return self.seen.plan(NodeState.BLOCKED, blocker.reason, blocker.message)

    def write_change(self, change: Change, message: str) -> ApplyNode:
        """A write of the record alone, on a node that stays cordoned."""
        records = self.seen.records.model_copy(update={"change": change})
        return build_apply(
            self.seen.node, owned_labels(self.seen.node), records, cordon=True, message=message
        )
