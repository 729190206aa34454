"""Explains plans that are not carried out.

The pool only observes or is contested, the API server refuses, or another pool has the node.
"""

from dataclasses import replace

from gpushare import names
from gpushare.api.pool import Pool
from gpushare.core.cause import Cause
from gpushare.core.snapshot.actions import ApplyNode, NodeState, StepResult
from gpushare.core.snapshot.cluster import NodeContext
from gpushare.core.snapshot.node import ReconcileContext
from gpushare.core.snapshot.plugin_reading import describe_unknown
from gpushare.editions.registry import settled_labels
from gpushare.names import Reason


def suppress(
    plan: StepResult, context: NodeContext, pool: Pool, ctx: ReconcileContext
) -> StepResult:
    """Return `plan`, but as a mere description if `pool` does not act or is contested."""
    change, closed = context.seen.records.change, ctx.closed
    contest = closed if closed and closed.reason is Reason.SPEC_CONTESTED else None
    begun = plan.begin()
    is_failed = plan.state is NodeState.FAILED
    if begun.action is None and contest and plan.kind and pool.acts and not is_failed:
        # No user is asked to prepare a change for a value that may be gone in a moment.
        is_blocked = plan.state is NodeState.BLOCKED
        return keep_waiting(replace(plan, state=NodeState.WAITING) if is_blocked else plan, contest)
    if begun.action is None or (pool.acts and contest is None):
        return plan
    would = begun.message
    if isinstance(begun.action, ApplyNode):
        would += f". {_list_labels(context, pool)}"
    why = f"spec.reconcile is {pool.spec.reconcile}, not Enforce: nothing is changed"
    message = f"{why}. Next step: {would}"
    if pool.observes:
        reason = Reason.WOULD_CHANGE
    elif change is not None and change.is_under_way and plan.start is None:
        # A change is finished even while the pool is paused; one that follows a failed one is new.
        return plan
    elif contest is not None:
        # A start is refused later, as by a freeze; a write without a start has to wait here.
        wakes = [wake for wake in (plan.requeue_after_seconds, _find_end(ctx)) if wake is not None]
        return replace(
            keep_waiting(plan, contest), action=None, requeue_after_seconds=min(wakes, default=None)
        )
    else:
        reason = Reason.PAUSED
    reading = context.seen.reading
    if reading is not None and reading.is_unknown:
        unknown = describe_unknown(ctx.name_of(reading.applied.mode.plugin))
        reason, message = Reason.MODE_UNKNOWN, f"{unknown}. {message}"
    return replace(
        plan,
        state=NodeState.WAITING,
        reason=reason,
        message=message,
        action=None,
        start=None,
        uses_budget=False,
    )


def _find_end(ctx: ReconcileContext) -> float | None:
    """Return the seconds until what closes the pool ends by itself; None where no end is known."""
    return (ctx.closed_until - ctx.now).total_seconds() if ctx.closed_until is not None else None


def _list_labels(context: NodeContext, pool: Pool) -> str:
    """List the labels that would be written or removed in the end, for a message."""
    node, labels = context.seen.node, settled_labels(pool.name, pool.spec)
    written = [f"{k}={v}" for k, v in sorted(labels.items()) if node.labels.get(k) != v]
    # A server-side apply removes the operator's labels that it leaves out.
    removed = sorted(names.NODE_LABELS & node.owned & node.labels.keys() - labels.keys())
    listed = f"Labels to write: {', '.join(written) or 'none'}"
    return f"{listed}; to remove: {', '.join(removed)}" if removed else listed


def explain_refusal(plan: StepResult, context: NodeContext) -> StepResult:
    """Return `plan`, blocked if the API server refuses it, without action if the node is busy."""
    if context.refusal is not None and plan.action is not None:
        plan = replace(
            plan,
            state=NodeState.BLOCKED,
            reason=context.refusal.reason,
            message=context.refusal.message,
        )
    # The write that is under way is not observed yet: the node is decided about again after it.
    return replace(plan, action=None) if context.is_busy and plan.action is not None else plan


def plan_lost_claim(node: str, winner: Pool, loser: Pool) -> StepResult:
    if winner.spec.priority > loser.spec.priority:
        why = f"its priority is higher ({winner.spec.priority} > {loser.spec.priority})"
    else:
        why = "at equal priority the first or older pool keeps a node"
    return StepResult(
        node,
        NodeState.BLOCKED,
        Reason.OWNED_BY_OTHER_POOL,
        f"The node belongs to pool {winner.name}: {why}. Change a priority, or exclude the node in "
        "one of the pools",
    )


def plan_cardless(node: str, why: str) -> StepResult:
    return StepResult(node, NodeState.BLOCKED, Reason.NO_GPU_ON_NODE, why)


def keep_waiting(plan: StepResult, refusal: Cause) -> StepResult:
    """Return the plan of a node whose start is not admitted, with `refusal` as its reason.

    A node that is Blocked keeps its reason, and a Failed one its state and reason.
    """
    if plan.state is NodeState.BLOCKED:
        # The API server refuses even what is to be recorded until the start.
        return plan
    if plan.state is NodeState.FAILED:
        return replace(plan, message=refusal.message)
    return replace(plan, reason=refusal.reason, message=refusal.message)
