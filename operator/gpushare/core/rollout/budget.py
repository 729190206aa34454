"""Whose turn it is: how many nodes of a pool may change at once, and which must succeed first."""

from dataclasses import dataclass

from gpushare import names
from gpushare.api.rollout import Rollout
from gpushare.names import Reason


@dataclass(frozen=True, slots=True)
class Turn:
    """Whether a node's change may begin, and if not, why."""

    may_begin: bool
    may_join: bool = True
    """A node that has just come takes no capacity away, and waits for fewer things."""
    reason: Reason = Reason.WAITING_FOR_BUDGET
    message: str = "as many nodes are out of service as may be; its turn comes after them"

    @property
    def is_halted(self) -> bool:
        """A change failed: nothing begins, and what can still be dropped is."""
        return self.reason is Reason.ROLLOUT_HALTED


OPEN = Turn(may_begin=True)
CLOSED = Turn(may_begin=False)
UNAPPROVED = Turn(
    may_begin=False,
    may_join=False,
    reason=Reason.WAITING_FOR_APPROVAL,
    message="rollout.approval is Manual, and nobody has agreed to this change yet; read "
    "status.plan, and set rollout.approvedPlan to its hash",
)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a pool's rollout is."""

    total: int
    """Its nodes."""
    unavailable: int
    """Nodes out of service, whoever did it, but for those that join."""
    changing: int
    """Those among them that are in their change."""
    verified: int
    """Nodes that a change brought to the pool's mode, verified."""
    halted_by: str = ""
    """What failed, in a sentence."""


def count_max_unavailable(rollout: Rollout, total: int) -> int:
    """How many of `total` nodes may be out of service at once: at least one."""
    limit = rollout.max_unavailable
    if isinstance(limit, int):
        return limit
    return max(1, total * int(limit.removesuffix("%")) // 100)


def plan_turn(rollout: Rollout, progress: Progress) -> Turn:
    """Whether one more node may begin."""
    if progress.halted_by:
        return Turn(
            may_begin=False,
            reason=Reason.ROLLOUT_HALTED,
            # What helps comes first: the end is what is cut where names are long.
            message="the rollout is halted until a change of the spec, or a new value of the "
            f"annotation {names.ANNOTATION_RETRY} on the pool: {progress.halted_by}",
        )
    if progress.unavailable >= count_max_unavailable(rollout, progress.total):
        return CLOSED
    if progress.verified < rollout.canary <= progress.verified + progress.changing:
        return Turn(
            may_begin=False,
            reason=Reason.WAITING_FOR_CANARY,
            message=f"the first {rollout.canary} must succeed before any other begins; "
            f"{progress.verified} did so far",
        )
    return OPEN
