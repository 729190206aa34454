"""Decides which nodes of a pool may change: approval, halt, windows, `maxUnavailable`, canary.

`core.planner.planner` counts the unavailable nodes, and asks this module for each start.
"""

from dataclasses import dataclass

from gpushare import names
from gpushare.api.pool import Pool
from gpushare.api.rollout import Rollout
from gpushare.core.cause import Cause
from gpushare.core.rollout.approval import is_approved
from gpushare.core.rollout.change_kinds import ChangeKind
from gpushare.core.rollout.window_state import WindowState
from gpushare.names import Reason

TURNS = frozenset({Reason.WAITING_FOR_BUDGET, Reason.WAITING_FOR_CANARY, Reason.WAITING_FOR_JOINS})
"""Reasons of nodes that wait for nothing but their turn, behind other nodes."""


@dataclass(frozen=True, slots=True)
class RolloutProgress:
    """The progress of a pool's rollout, in numbers of nodes."""

    total: int
    """The pool's nodes; of a pool that is being deleted, those that must still be given back."""
    unavailable: int
    """Nodes that anyone took out of service, without those that join."""
    changing: int
    """Unavailable nodes that are in their change."""
    verified: int
    """Nodes that a change brought to the pool's mode, and whose mode was verified."""
    halted_by: str = ""
    """The failure that halts the rollout, as a sentence; empty without a halt."""
    resumes: bool = False
    """Whether the halt ends automatically, so that a retry does not help."""
    joins_halted_by: str = ""
    """The failure for which no more nodes may join, as a sentence; empty where they may."""


def find_start_refusal(
    pool: Pool | None,
    progress: RolloutProgress,
    kind: ChangeKind | None = None,
    *,
    initializes: bool,
    is_given_back: bool = False,
    windows: WindowState | None = None,
) -> Cause | None:
    """Find why one more node of `pool` may not start its change; None where it may.

    A change of a `kind` needs approval, unless the node `is_given_back`; one of kind None needs
    none. A node that `initializes` takes no capacity away: apart from approval it waits only for
    `windows`, and after too many failed joins. A node that joins and is given back waits for
    `windows` only: nothing else must hold a deletion up.
    """
    closed = None
    if pool is not None and windows is not None:
        closed = windows.find_refusal(pool, kind, initializes=initializes)
    if pool is not None and kind is not None and not (is_given_back or is_approved(pool, kind)):
        return Cause(
            Reason.WAITING_FOR_APPROVAL,
            "Waiting for approval: rollout.approval is Manual. To review the plan and approve it, "
            f"run: kubectl gpushare plan pool {pool.name}",
        )
    if initializes:
        is_halted = pool is not None and progress.joins_halted_by and not is_given_back
        if closed is None and pool is not None and is_halted:
            message = explain_joins_halt(pool.name, progress.joins_halted_by)
            return Cause(Reason.JOINS_HALTED, message)
        return closed
    if pool is None or pool.deleting:
        rollout = pool.spec.rollout if pool is not None else Rollout()
        return closed or (None if _has_room(rollout, progress) else _budget_used_up(pool, rollout))
    if progress.halted_by:
        message = explain_halt(pool.name, progress.halted_by, resumes=progress.resumes)
        return Cause(Reason.ROLLOUT_HALTED, message)
    if closed is not None:
        return closed
    rollout = pool.spec.rollout
    if not _has_room(rollout, progress):
        return _budget_used_up(pool, rollout)
    if progress.verified < rollout.canary <= progress.verified + progress.changing:
        return Cause(
            Reason.WAITING_FOR_CANARY,
            f"Waiting for the canary: {progress.verified} of {rollout.canary} nodes have "
            f"succeeded. Run `kubectl gpushare explain pool {pool.name}`",
        )
    return None


def explain_halt(pool: str, halted_by: str, *, resumes: bool) -> str:
    """Explain how to resume a halted rollout, then its cause: a long message is cut at the end."""
    if resumes:
        return f"The rollout is halted, but no retry is needed. {halted_by}"
    return (
        "The rollout is halted. Fix the cause, then change the spec or run "
        f"`kubectl gpushare retry pool/{pool}`. {halted_by}"
    )


def explain_joins_halt(pool: str, halted_by: str) -> str:
    """Explain how to let nodes join again, then what failed."""
    return (
        "No more nodes join, because the last three failed. Fix the cause, then change the spec or "
        f"run `kubectl gpushare retry pool/{pool}`. {halted_by}"
    )


def refuse_join(pool: str, most: int) -> Cause:
    """Return why a node of `pool` must wait to join: all of the `most` places are taken.

    The message has no count of nodes: each join that ends would change it for all waiting nodes.
    """
    return Cause(
        Reason.WAITING_FOR_JOINS,
        f"Waiting for other nodes that join: at most {most} are changed at once over all pools "
        "(chart value controller.maxJoins), and in a pool those that are blocked or failed count "
        f"too. Run `kubectl gpushare explain pool {pool}`, and `kubectl get gsp` for other pools",
    )


def _budget_used_up(pool: Pool | None, rollout: Rollout) -> Cause:
    """Return that the budget is used up, with the command that lists the nodes that use it.

    The message neither counts nor names nodes: each node that returns would change it for all
    waiting nodes.
    """
    label = names.LABEL_POOL if pool is None else f"{names.LABEL_POOL}={pool.name}"
    return Cause(
        Reason.WAITING_FOR_BUDGET,
        f"Waiting for budget: rollout.maxUnavailable ({rollout.max_unavailable}) is used up by "
        f"nodes that are changing, cordoned or NotReady. Run `kubectl get nodes -l {label}`",
    )


def _has_room(rollout: Rollout, progress: RolloutProgress) -> bool:
    return progress.unavailable < count_max_unavailable(rollout, progress.total)


def count_max_unavailable(rollout: Rollout, total: int) -> int:
    """Return how many of `total` nodes may be unavailable at once; of a percentage at least one."""
    limit = rollout.max_unavailable
    if isinstance(limit, int):
        return limit
    return max(1, total * int(limit.removesuffix("%")) // 100)
