"""Computes the next step for a node that belongs to a pool."""

from dataclasses import replace
from sys import intern

from gpushare.api.k8s.interning import share
from gpushare.api.pool import Pool
from gpushare.core.nodechange.configuration import find_brief_end
from gpushare.core.nodechange.labels_in_force import find_unknown_mode_wait
from gpushare.core.nodechange.member_step import MemberStep
from gpushare.core.nodechange.phases.teardown import agree_on_policy
from gpushare.core.nodechange.state_machine import Found, find_rule
from gpushare.core.snapshot.actions import NodeFacts, NodePlan, NodeState
from gpushare.core.snapshot.change_policy import build_policy
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext
from gpushare.editions.registry import desired_labels
from gpushare.names import Reason


def plan_node(seen: NodeSnapshot, pool: Pool, ctx: ReconcileContext) -> NodePlan:
    """Plan what `seen.node`, a member of `pool`, needs next."""
    policy = agree_on_policy(seen, pool, build_policy(pool, seen.node, ctx.timing))
    step = MemberStep(seen, policy, ctx, pool)
    found = find_rule(step)
    return NodePlan(seen.node.name, found.verdict, _observe_facts(step, found), intern(str(found)))


def _observe_facts(step: MemberStep, found: Found) -> NodeFacts:
    """Complete the facts about the node that the rule found."""
    seen, pool, ctx, verdict = step.seen, step.pool, step.ctx, found.verdict
    change, wanted = seen.records.change, desired_labels(pool.name, pool.spec)
    # Where nothing is written, nothing is ever ours.
    owned = pool.observes or wanted.keys() <= seen.node.owned
    waits = [verdict.requeue_after, found.facts.requeue_after]
    if verdict.action is None:
        # A write changes what is waited for.
        waits.append(find_unknown_mode_wait(seen, ctx))
    if seen.reading is not None:
        waits.append(find_brief_end(seen.reading, ctx))
    is_evicting = verdict.reason is Reason.STALE_ISOLATION and verdict.state is NodeState.UPDATING
    facts = replace(
        found.facts,
        labelled=owned and wanted.items() <= seen.node.labels.items(),
        # Also if the change gives way, or another one is to follow the one that failed.
        under_way=change is not None and change.is_under_way,
        halt=step.halt,
        # Of an eviction that has begun no record says that it uses the budget.
        uses_budget=is_evicting,
        requeue_after=min((wait for wait in waits if wait is not None), default=None),
    )
    is_common = not (facts.conflicts or facts.halt or facts.deadline or facts.requeue_after)
    return share(facts) if is_common else facts
