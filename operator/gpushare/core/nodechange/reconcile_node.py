"""Computes the next step for a node that belongs to a pool."""

from dataclasses import replace

from gpushare.api.pool import Pool
from gpushare.api.rollout import StaleWorkloadPolicy
from gpushare.core.nodechange.configuration import find_brief_end
from gpushare.core.nodechange.kernel_module import plan_module_note
from gpushare.core.nodechange.labels_in_force import find_unknown_mode_wait
from gpushare.core.nodechange.member_step import MemberStep
from gpushare.core.nodechange.phases.failed import describe_failure
from gpushare.core.nodechange.phases.teardown import agree_on_policy
from gpushare.core.nodechange.stale_pods import evict_stale_pods, wait_for_stale_pods
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
    node, phase, verdict = seen.node.name, found.phase.name, found.verdict
    if verdict.action is not None:
        return NodePlan(node, verdict, _observe_facts(step, found, acts=True), str(found))
    if (noted := _note_module(step, verdict)) is not None:
        facts = _observe_facts(step, found, acts=True)
        return NodePlan(node, noted, facts, f"{phase}: module-noted")
    facts = _observe_facts(step, found, acts=False)
    # On a node at rest the pods of a former mode are next.
    evicts = pool.spec.rollout.stale_workloads is StaleWorkloadPolicy.EVICT
    if evicts and verdict.state is NodeState.READY and facts.halt is None:
        if (waits := wait_for_stale_pods(step)) is not None:
            return NodePlan(
                node, waits, replace(facts, uses_budget=True), f"{phase}: stale-pods-end"
            )
        if (starts := evict_stale_pods(step)) is not None:
            return NodePlan(node, starts, facts, f"{phase}: evict-stale-pods")
    return NodePlan(node, verdict, facts, str(found))


def _note_module(step: MemberStep, verdict: Verdict) -> Verdict | None:
    """Note the kernel module on the node, whatever the node waits for: by then the installer may
    have left, or both disk and kernel may differ."""
    if not step.seen.node.carries_ours or step.reason_to_stay_away is not None:
        return None
    spec = step.pool.spec
    note = plan_module_note(step.seen, get_mode(spec.edition, spec.schedule))
    return replace(verdict, action=note) if note is not None else None


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
    return replace(
        found.facts,
        labelled=owned and wanted.items() <= seen.node.labels.items(),
        # Also if the change gives way, or another one is to follow the one that failed.
        under_way=change is not None and change.is_under_way,
        verified=not has_failed and found.verdict.state is NodeState.READY and is_verified,
        halt=Halt(describe_failure(seen.node.name, failure)) if failure and has_failed else None,
        requeue_after=min((wait for wait in waits if wait is not None), default=None),
    )
