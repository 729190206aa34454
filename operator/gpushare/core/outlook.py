"""What is left to do for a pool, to be read before it is done: `status.plan`, and how far it is."""

import heapq
from collections import Counter
from collections.abc import Iterable

from gpushare.api.pool import Pool
from gpushare.api.status import PlanStep, PoolPlan
from gpushare.core.actions import NodePlan, NodeState
from gpushare.core.book import Book
from gpushare.core.kinds import Kind, hash_kinds
from gpushare.core.transitions import Outcome
from gpushare.core.turn import find_approval, is_approved
from gpushare.names import Reason

MAX_STEPS = 20
MAX_STEP_BYTES = 4096
"""Of all steps; where node names are long, fewer are shown."""
_TURNS = frozenset(
    {
        Reason.WAITING_FOR_BUDGET,
        Reason.WAITING_FOR_CANARY,
        Reason.WAITING_FOR_APPROVAL,
        Reason.ROLLOUT_HALTED,
    }
)


def build_plan(pool: Pool, book: Book) -> PoolPlan | None:
    """The changes that have not begun; None where there are none and nobody agreed to any."""
    approval = find_approval(pool, book.kinds.keys())
    if not book.kinds and approval is None:
        return None
    return PoolPlan(
        hash=hash_kinds(book.kinds),
        summary=_summarise(book),
        steps=_build_steps(book.pending.values()),
        approved=approval,
    )


def judge_rollout(pool: Pool, book: Book) -> tuple[bool, Reason, str]:
    """Whether no isolation change is under way or left to do, and if not, what it waits for."""
    changing, left = book.counts[NodeState.UPDATING], sum(book.kinds.values())
    halted = book.halting[min(book.halting)].halts if book.halting else ""
    if halted and (left or changing or book.counts[NodeState.FAILED]):
        message = (
            f"{halted}; {left} nodes are left to change. It goes on after a change of the spec, "
            "or a new value of the annotation gpushare.io/retry on the pool"
        )
        return False, Reason.ROLLOUT_HALTED, message
    unapproved = [kind for kind in book.kinds if not is_approved(pool, kind)]
    if unapproved:
        listed = "; ".join(sorted(map(str, unapproved)))
        message = (
            f"not agreed to yet: {listed}. Read status.plan, and set rollout.approvedPlan to "
            f"{hash_kinds(book.kinds)}"
        )
        return False, Reason.WAITING_FOR_APPROVAL, message
    if not (changing or left):
        return True, Reason.NOTHING_LEFT, "no isolation change is under way or left to do"
    return False, Reason.UPDATING, f"{changing} nodes are in their change, {left} are left"


def _summarise(book: Book) -> str:
    if not book.kinds:
        return "nothing is left to change"
    held_up = Counter(
        plan.kind for plan in book.pending.values() if plan.reason is Reason.WORKLOADS_PRESENT
    )
    return "; ".join(
        _summarise_kind(kind, book.kinds[kind], held_up[kind]) for kind in sorted(book.kinds)
    )


def _summarise_kind(kind: Kind, nodes: int, held_up: int) -> str:
    needs = {
        Outcome.APPLY: "the plugins follow the labels",
        Outcome.APPLY_AND_RESTART: "the device plugin restarts",
        Outcome.REQUIRES_TEARDOWN: "needs a teardown and a reboot, and is not done by itself",
        Outcome.REQUIRES_PERSON: "needs a person, and is not done by itself",
    }[kind.outcome]
    waits = f"; {held_up} wait for pods to finish" if held_up else ""
    return f"{kind.change} on {nodes} node{'s' if nodes > 1 else ''}: {needs}{waits}"


def _build_steps(plans: Iterable[NodePlan]) -> tuple[PlanStep, ...]:
    """The first of them, in the order in which they will be changed."""
    steps: list[PlanStep] = []
    left = MAX_STEP_BYTES
    for plan in heapq.nsmallest(MAX_STEPS, plans, key=lambda plan: plan.node):
        assert plan.kind is not None
        begins = plan.state is NodeState.UPDATING
        step = PlanStep(
            node=plan.node,
            change=plan.kind.change,
            outcome=plan.kind.outcome,
            restarts_plugin=plan.kind.restarts_plugin,
            reboots=plan.kind.reboots,
            pods=plan.pods,
            # Not by its action: that goes while it is carried out.
            blocker="" if plan.reason in _TURNS or begins else plan.reason,
        )
        left -= len(step.model_dump_json(by_alias=True))
        if left < 0:
            break
        steps.append(step)
    return tuple(steps)
