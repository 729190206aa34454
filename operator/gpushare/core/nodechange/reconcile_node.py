"""Computes the next step for a node that belongs to a pool."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from sys import intern

from gpushare.api.k8s.interning import share
from gpushare.api.pool import Pool
from gpushare.api.rollout import StaleWorkloadPolicy
from gpushare.core.nodechange.configuration import find_brief_end
from gpushare.core.nodechange.kernel_module import plan_module_note
from gpushare.core.nodechange.labels_in_force import find_unknown_mode_wait
from gpushare.core.nodechange.member_step import MemberStep
from gpushare.core.nodechange.phases.failed import describe_failure
from gpushare.core.nodechange.phases.teardown import agree_on_policy
from gpushare.core.nodechange.stale_pods import plan_stale_pods
from gpushare.core.nodechange.state_machine import Found, find_rule
from gpushare.core.snapshot.actions import Halt, NodeFacts, NodePlan, NodeState, Verdict
from gpushare.core.snapshot.change_policy import build_policy
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext
from gpushare.editions.registry import desired_labels, get_mode


def plan_node(seen: NodeSnapshot, pool: Pool, ctx: ReconcileContext) -> NodePlan:
    """Plan what `seen.node`, a member of `pool`, needs next."""
    policy = agree_on_policy(seen, pool, build_policy(pool, seen.node, ctx.timing))
    step = MemberStep(seen, policy, ctx, pool)
    found = find_rule(step)
    facts = _observe_facts(step, found, acts=found.verdict.action is not None)
    for name, decide in AT_REST if found.verdict.action is None else ():
        if (judged := decide(AtRest(step, found, facts))) is not None:
            return NodePlan(seen.node.name, *judged, intern(f"{found.phase.name}: {name}"))
    return NodePlan(seen.node.name, found.verdict, facts, intern(str(found)))


@dataclass(frozen=True, slots=True)
class AtRest:
    """A member whose rule has no action now, with the facts about it."""

    step: MemberStep
    found: Found
    facts: NodeFacts


def note_module(node: AtRest) -> tuple[Verdict, NodeFacts] | None:
    """Note that the kernel module may be loaded, or is gone, whatever the node waits for."""
    step, verdict = node.step, node.found.verdict
    if not step.seen.node.carries_ours or step.reason_to_stay_away is not None:
        return None
    spec = step.pool.spec
    # Not later: by then the installer may have left, or both disk and kernel may differ.
    note = plan_module_note(step.seen, get_mode(spec.edition, spec.schedule))
    if note is None:
        return None
    return replace(verdict, action=note), _observe_facts(step, node.found, acts=True)


def evict_stale_pods(node: AtRest) -> tuple[Verdict, NodeFacts] | None:
    """Evict pods with the isolation of a former mode, within the budget, and wait for their end."""
    evicts = node.step.pool.spec.rollout.stale_workloads is StaleWorkloadPolicy.EVICT
    is_done = node.found.verdict.state is NodeState.READY and node.facts.halt is None
    verdict = plan_stale_pods(node.step) if evicts and is_done else None
    if verdict is None:
        return None
    # Of an eviction that has begun no record says that it uses the budget.
    return verdict, replace(node.facts, uses_budget=verdict.state is NodeState.UPDATING)


AT_REST: tuple[tuple[str, Callable[[AtRest], tuple[Verdict, NodeFacts] | None]], ...] = (
    ("module-noted", note_module),
    ("evict-stale-pods", evict_stale_pods),
)
"""Rules of a node whose phase has no action now."""


def _observe_facts(step: MemberStep, found: Found, *, acts: bool) -> NodeFacts:
    """Complete the facts about the node's change; `acts`: a write changes what is waited for."""
    seen, pool, ctx = step.seen, step.pool, step.ctx
    change, applied = seen.records.change, seen.records.applied
    wanted = desired_labels(pool.name, pool.spec)
    # Where nothing is written, nothing is ever ours.
    owned = pool.observes or wanted.keys() <= seen.node.owned
    # A node that joins fails alone, and does not halt the pool.
    joins = change is not None and change.is_under_way and change.initializing
    failure = None if joins else seen.records.failure
    has_failed = failure is not None and failure.attempt == step.policy.attempt
    is_verified = applied is not None and applied.from_mode is not None
    waits = [found.verdict.requeue_after, found.facts.requeue_after]
    if not acts:
        waits.append(find_unknown_mode_wait(seen, ctx))
    if seen.reading is not None:
        waits.append(find_brief_end(seen.reading, ctx))
    facts = NodeFacts(
        conflicts=found.facts.conflicts,
        deadline=found.facts.deadline,
        labelled=owned and wanted.items() <= seen.node.labels.items(),
        # Also if the change gives way, or another one is to follow the one that failed.
        under_way=change is not None and change.is_under_way,
        verified=not has_failed and found.verdict.state is NodeState.READY and is_verified,
        halt=Halt(describe_failure(seen.node.name, failure)) if failure and has_failed else None,
        requeue_after=min((wait for wait in waits if wait is not None), default=None),
    )
    is_common = not (facts.conflicts or facts.halt or facts.deadline or facts.requeue_after)
    return share(facts) if is_common else facts
