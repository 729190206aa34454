"""A node, and its planning for one pool."""

from dataclasses import dataclass, replace

from gpushare.api.pool import Pool
from gpushare.core.capacity.node_capacity import NodeCapacity, observe_node_capacity
from gpushare.core.capacity.taints import read_tolerations
from gpushare.core.nodechange.reconcile_node import plan_node
from gpushare.core.nodechange.releasing import plan_release
from gpushare.core.snapshot.actions import StepResult
from gpushare.core.snapshot.cluster import NodeContext
from gpushare.core.snapshot.node import ReconcileContext
from gpushare.names import Reason

_OFFERS_NOTHING = frozenset({Reason.INTERNAL_ERROR, Reason.COMPETING_STACKS, Reason.OTHER_STACK})


@dataclass(frozen=True, slots=True)
class Task:
    """A node that is a member of the pool, or is to leave it."""

    context: NodeContext
    is_member: bool

    def plan(self, pool: Pool | None, ctx: ReconcileContext) -> StepResult | None:
        """Plan what the node needs next; None where it has left a pool, which may be gone."""
        seen = self.context.seen
        if self.is_member:
            assert pool is not None
            return plan_node(seen, pool, ctx)
        plan = plan_release(seen, pool, ctx)
        if plan is None or pool is None or pool.deleting:
            return plan
        # What is given back needs nobody's agreement: it is no part of the plan for the members.
        return replace(plan, kind=None)

    def measure(self, plan: StepResult, pool: Pool | None) -> NodeCapacity:
        """Measure what a member offers: nothing is known after an internal error, and what another
        stack gives out too is not the pool's to give."""
        if plan.reason in _OFFERS_NOTHING:
            return NodeCapacity()
        seen = self.context.seen
        added = read_tolerations(pool) if seen.node.taints else ()
        return observe_node_capacity(seen.node, seen.pods, seen.unhealthy_cards, added)
