"""The rules of plans that are not carried out.

The pool only observes, is paused or contested, the API server refuses the write, another write is
under way, or another pool has the node.
"""

from dataclasses import dataclass, replace
from datetime import timedelta

from gpushare import names
from gpushare.api.pool import Pool
from gpushare.core.cause import Cause
from gpushare.core.nodechange.rule import Phase, Rule, find_first
from gpushare.core.snapshot.actions import Action, ApplyNode, NodePlan, NodeState, Start, Verdict
from gpushare.core.snapshot.cluster import NodeContext
from gpushare.core.snapshot.node import ReconcileContext
from gpushare.core.snapshot.plugin_reading import describe_unknown
from gpushare.editions.registry import settled_labels
from gpushare.names import Reason


@dataclass(frozen=True, slots=True)
class Proposal:
    """A node's plan before it is asked whether it may be carried out."""

    plan: NodePlan
    context: NodeContext
    pool: Pool | None
    """None for a node that leaves a pool that is gone."""
    ctx: ReconcileContext

    @property
    def contest(self) -> Cause | None:
        """Why nothing may begin while writers contest the pool's spec."""
        closed = self.ctx.closed
        return closed if closed and closed.reason is Reason.SPEC_CONTESTED else None

    @property
    def does_something(self) -> bool:
        """Whether something would be done, now or once a start is admitted."""
        return self.plan.verdict.action is not None or self.plan.verdict.start is not None

    def withhold(
        self,
        state: NodeState,
        reason: Reason,
        message: str,
        *,
        action: Action | None = None,
        start: Start | None = None,
        requeue_after: timedelta | None = None,
    ) -> Verdict:
        """Return the verdict of a node that still needs its change, or has still failed."""
        own = self.plan.verdict
        return Verdict(state, reason, message, action, start, requeue_after, own.pending, own.halt)

    @property
    def finishes(self) -> bool:
        """Whether the action is a step of a change that has begun, which is always finished.

        A change that follows a failed one is new.
        """
        change = self.context.seen.records.change
        under_way = change is not None and change.is_under_way
        return under_way and self.plan.verdict.start is None


def observe(proposal: Proposal) -> Verdict | None:
    """Only report the next step, also of a begun change, if the pool observes and isn't deleted."""
    pool = proposal.pool
    if pool is None or pool.acts or not (pool.observes and proposal.does_something):
        return None
    return _report(proposal, pool, Reason.WOULD_CHANGE)


def wait_for_contest(proposal: Proposal) -> Verdict | None:
    """Wait until the pool's spec is not contested any more; what failed stays failed."""
    pool, contest, verdict = proposal.pool, proposal.contest, proposal.plan.verdict
    if contest is None or pool is None:
        return None
    if not proposal.does_something:
        if verdict.pending is None or verdict.state is NodeState.FAILED:
            return None
        # No user is asked to prepare a change for a value that may be gone in a moment.
        is_blocked = verdict.state is NodeState.BLOCKED
        state = NodeState.WAITING if is_blocked else verdict.state
        requeue_after = verdict.requeue_after
        return proposal.withhold(
            state, contest.reason, contest.message, requeue_after=requeue_after
        )
    if proposal.finishes:
        return None
    # A start is refused later, as by a freeze; a write without a start has to wait here.
    until, now = proposal.ctx.closed_until, proposal.ctx.now
    waits = (verdict.requeue_after, until - now if until is not None else None)
    is_shown = verdict.state not in (NodeState.BLOCKED, NodeState.FAILED)
    return proposal.withhold(
        verdict.state,
        contest.reason if is_shown else verdict.reason,
        contest.message if is_shown else verdict.message,
        start=verdict.start,
        requeue_after=min((wait for wait in waits if wait is not None), default=None),
    )


def pause(proposal: Proposal) -> Verdict | None:
    """Report the next step if the pool is paused, unless it is part of a change that has begun."""
    pool = proposal.pool
    if pool is None or pool.acts or not proposal.does_something or proposal.finishes:
        return None
    return _report(proposal, pool, Reason.PAUSED)


def report_refused_write(proposal: Proposal) -> Verdict | None:
    """Report that the API server refuses the write, which is tried again."""
    refusal, verdict = proposal.context.refusal, proposal.plan.verdict
    if refusal is None or verdict.action is None:
        return None
    # The write that is under way is not observed yet.
    action = None if proposal.context.is_busy else verdict.action
    return proposal.withhold(
        NodeState.BLOCKED,
        refusal.reason,
        refusal.message,
        action=action,
        start=verdict.start,
        requeue_after=verdict.requeue_after,
    )


def wait_for_write(proposal: Proposal) -> Verdict | None:
    """Do nothing while a write to the node is under way; the node is decided again after it."""
    verdict = proposal.plan.verdict
    if not proposal.context.is_busy or verdict.action is None:
        return None
    start, requeue_after = verdict.start, verdict.requeue_after
    return proposal.withhold(
        verdict.state, verdict.reason, verdict.message, start=start, requeue_after=requeue_after
    )


_BUSY = Rule("busy", wait_for_write)
HOLDS: Phase[Proposal] = Phase(
    "Before anything is done",
    "Asked in each phase, also where nothing is to be done now.",
    (
        Rule("observes", observe),
        Rule("contested", wait_for_contest),
        Rule("paused", pause),
        Rule("write-refused", report_refused_write),
        _BUSY,
    ),
)


def hold(proposal: Proposal) -> NodePlan:
    """Return the plan, or what holds it up: the first rule of `HOLDS` that applies."""
    plan, held = proposal.plan, find_first(HOLDS.rules, proposal)
    if held is None:
        return plan
    rule, verdict = held
    # A write under way is that of the plan's own rule.
    return replace(plan, verdict=verdict, rule=plan.rule if rule is _BUSY else rule.name)


def _report(proposal: Proposal, pool: Pool, reason: Reason) -> Verdict:
    """Report the next step of a node whose pool does not act."""
    verdict, seen = proposal.plan.verdict, proposal.context.seen
    step = verdict.start or verdict
    would = step.message
    if isinstance(step.action, ApplyNode):
        would += f". {_list_labels(proposal.context, pool)}"
    why = f"spec.reconcile is {pool.spec.reconcile}, not Enforce: nothing is changed"
    message, reading = f"{why}. Next step: {would}", seen.reading
    if reading is not None and reading.is_unknown:
        unknown = describe_unknown(proposal.ctx.name_of(reading.applied.mode.plugin))
        reason, message = Reason.MODE_UNKNOWN, f"{unknown}. {message}"
    requeue_after = verdict.requeue_after
    return proposal.withhold(NodeState.WAITING, reason, message, requeue_after=requeue_after)


def _list_labels(context: NodeContext, pool: Pool) -> str:
    """List the labels that would be written or removed in the end, for a message."""
    node, labels = context.seen.node, settled_labels(pool.name, pool.spec)
    written = [f"{k}={v}" for k, v in sorted(labels.items()) if node.labels.get(k) != v]
    # A server-side apply removes the operator's labels that it leaves out.
    removed = sorted(names.NODE_LABELS & node.owned & node.labels.keys() - labels.keys())
    listed = f"Labels to write: {', '.join(written) or 'none'}"
    return f"{listed}; to remove: {', '.join(removed)}" if removed else listed


def plan_lost_claim(node: str, winner: Pool, loser: Pool) -> NodePlan:
    if winner.spec.priority > loser.spec.priority:
        why = f"its priority is higher ({winner.spec.priority} > {loser.spec.priority})"
    elif winner.spec.priority < loser.spec.priority:
        why = "it is one of the spec.nodes.size.min nodes of that pool"
    else:
        why = "at equal priority the first or older pool keeps a node"
    message = (
        f"The node belongs to pool {winner.name}: {why}. Change a priority, or exclude the node in "
        "one of the pools"
    )
    return NodePlan(node, Verdict(NodeState.BLOCKED, Reason.OWNED_BY_OTHER_POOL, message))


def plan_cardless(node: str, why: str) -> NodePlan:
    return NodePlan(node, Verdict(NodeState.BLOCKED, Reason.NO_GPU_ON_NODE, why))
