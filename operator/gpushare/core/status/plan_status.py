"""Builds `status.plan`, to be read before anything is done, and judges how far the rollout is."""

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TypeVar

from pydantic import BaseModel

from gpushare.api.pool import Pool
from gpushare.api.status import PlanStep, PoolPlan
from gpushare.core.planner.pool_plans import PoolPlans
from gpushare.core.rollout.approval import find_approval, is_approved
from gpushare.core.rollout.budget import TURNS, explain_halt, explain_joins_halt
from gpushare.core.rollout.change_kinds import ChangeKind, hash_kinds
from gpushare.core.snapshot.actions import NodePlan, NodeState
from gpushare.editions.edition import Outcome
from gpushare.names import Reason

MAX_STEPS = 20
MAX_STEP_BYTES = 4096
"""Limit of all steps together, in bytes; with long node names fewer are shown."""
MAX_KINDS = 4
"""Limit of kinds in the summary: nodes may carry any number of unknown modes."""
Model = TypeVar("Model", bound=BaseModel)
_OF_ROLLOUT = TURNS | {
    Reason.JOINS_HALTED,
    Reason.WAITING_FOR_APPROVAL,
    Reason.ROLLOUT_HALTED,
    Reason.SPEC_CONTESTED,
}
"""Reasons that the rollout gives, and not the node itself."""


def build_plan(
    pool: Pool, pool_plans: PoolPlans, room: int = 2 * MAX_STEP_BYTES
) -> PoolPlan | None:
    """List the changes that have not begun; None where there are none and none is approved.

    In at most `room` bytes: steps are left out where they do not fit.
    """
    approval = find_approval(pool, pool_plans.kinds.keys())
    if not pool_plans.kinds and approval is None:
        return None
    plan = PoolPlan(
        hash=hash_kinds(pool_plans.kinds), summary=_summarise(pool_plans), approved=approval
    )
    left = min(MAX_STEP_BYTES, room - count_bytes(plan))
    return plan.model_copy(update={"steps": fit(_build_steps(pool_plans.pending.values()), left)})


def count_bytes(model: BaseModel) -> int:
    """Count the bytes that it takes in a status."""
    return len(model.model_dump_json(by_alias=True).encode())


def fit(models: Iterable[Model], room: int) -> tuple[Model, ...]:
    """Take the first of these, as many as fit in `room` bytes."""
    fitting = []
    for model in models:
        room -= count_bytes(model) + len(",")
        if room < 0:
            break
        fitting.append(model)
    return tuple(fitting)


def judge_rollout(pool: Pool, pool_plans: PoolPlans) -> tuple[bool, Reason, str]:
    """Tell whether no isolation change is under way or left to do, or what it waits for."""
    changing, left = len(pool_plans.under_way), sum(pool_plans.kinds.values())
    if pool_plans.contest is not None:
        message = f"{pool_plans.contest.message}. Nodes left to change: {left}"
        return False, Reason.SPEC_CONTESTED, message
    halt = pool_plans.halt
    if halt is not None and (left or changing or pool_plans.counts[NodeState.FAILED]):
        explained = explain_halt(pool.name, halt.message, resumes=halt.resumes)
        message = f"{explained}. Nodes left to change: {left}"
        return False, Reason.ROLLOUT_HALTED, message
    if Reason.JOINS_HALTED in pool_plans.queued_reasons:
        explained = explain_joins_halt(pool.name, pool_plans.sums.joins.halted_by)
        return False, Reason.JOINS_HALTED, f"{explained}. Nodes left to change: {left}"
    unapproved = [kind for kind in pool_plans.kinds if not is_approved(pool, kind)]
    if unapproved:
        listed = "; ".join(sorted(map(str, unapproved)))
        approve = f"kubectl gpushare approve {pool.name} --hash {hash_kinds(pool_plans.kinds)}"
        message = (
            f"Waiting for approval. Review it with `kubectl gpushare plan pool {pool.name}`, then "
            f"run `{approve}`. Changes: {listed}"
        )
        return False, Reason.WAITING_FOR_APPROVAL, message
    held = pool_plans.refusal
    if held is not None and pool_plans.queued_reasons == {held.reason} and not changing:
        return False, held.reason, f"{held.message}. Nodes left to change: {left}"
    if not (changing or left):
        return True, Reason.NOTHING_LEFT, "No isolation change is under way or left to do"
    message = f"{changing} of {changing + left} nodes left to change are being changed"
    if changing:
        return False, Reason.UPDATING, message
    first = pool_plans.pending[min(pool_plans.pending)]
    reason = Reason.UPDATING if first.reason in _OF_ROLLOUT else first.reason
    return False, reason, f"{message}. Node {first.node}: {first.message}"


def _summarise(pool_plans: PoolPlans) -> str:
    if not pool_plans.kinds:
        return "nothing is left to change"
    held_up = Counter(
        plan.kind for plan in pool_plans.pending.values() if plan.reason is Reason.WORKLOADS_PRESENT
    )
    kinds = sorted(pool_plans.kinds, key=lambda kind: (not kind.is_done, str(kind)))
    told = [
        _summarise_kind(kind, pool_plans.kinds[kind], held_up[kind]) for kind in kinds[:MAX_KINDS]
    ]
    if len(kinds) > MAX_KINDS:
        told.append(f"and {len(kinds) - MAX_KINDS} more kinds of change")
    return "; ".join(told)


def _summarise_kind(kind: ChangeKind, nodes: int, held_up: int) -> str:
    needs = {
        Outcome.APPLY: "the plugins follow the labels",
        Outcome.APPLY_AND_RESTART: "the device plugin restarts",
        Outcome.REQUIRES_TEARDOWN: f"the kernel module is removed, with a reboot ({kind.teardown})",
        Outcome.REQUIRES_MANUAL_ACTION: "needs manual steps, and is not done automatically",
    }[kind.outcome]
    waits = f"; {held_up} wait{'s' if held_up == 1 else ''} for pods to finish" if held_up else ""
    return f"{kind.change} on {nodes} node{'s' if nodes > 1 else ''}: {needs}{waits}"


def _build_steps(plans: Iterable[NodePlan]) -> Iterator[PlanStep]:
    """Build the first steps, in the order in which they will be made."""
    for plan in heapq.nsmallest(MAX_STEPS, plans, key=lambda plan: plan.node):
        pending = plan.verdict.pending
        assert pending is not None
        begins = plan.state is NodeState.UPDATING
        yield PlanStep(
            node=plan.node,
            change=pending.kind.change,
            outcome=pending.kind.outcome,
            restarts_plugin=pending.kind.restarts_plugin,
            reboots=pending.kind.reboots,
            pods=pending.pods,
            # Not by its action: that goes while it is carried out.
            blocker="" if plan.reason in _OF_ROLLOUT or begins else plan.reason,
        )
