"""Finds the pools that concern a node, and plans the node for one of them."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from gpushare.api.pool import Pool
from gpushare.core.capacity.node_capacity import NodeCapacity, observe_node_capacity
from gpushare.core.capacity.taints import read_tolerations
from gpushare.core.nodechange.reconcile_node import plan_node
from gpushare.core.nodechange.releasing import plan_release
from gpushare.core.ownership.claims import (
    decide_claim,
    find_cardless_pools,
    find_owner,
    list_acting,
)
from gpushare.core.ownership.releases import Releases
from gpushare.core.planner.holds import plan_cardless, plan_lost_claim
from gpushare.core.snapshot.actions import NodePlan
from gpushare.core.snapshot.cluster import NodeContext
from gpushare.core.snapshot.node import ReconcileContext
from gpushare.names import Reason

_LEFT_ALONE = frozenset({Reason.COMPETING_STACKS, Reason.OTHER_STACK, Reason.MIG_NODE})
_OFFERS_NOTHING = frozenset({Reason.INTERNAL_ERROR, Reason.COMPETING_STACKS, Reason.OTHER_STACK})


@dataclass(frozen=True, slots=True)
class Task:
    """A node that is a member of the pool, or is to leave it."""

    context: NodeContext
    is_member: bool

    def plan(self, pool: Pool | None, ctx: ReconcileContext) -> NodePlan | None:
        """Plan what the node needs next; None where it has left its pool, which may be deleted."""
        seen = self.context.seen
        if self.is_member:
            assert pool is not None
            return plan_node(seen, pool, ctx)
        return plan_release(seen, pool, ctx)

    def measure(self, plan: NodePlan, pool: Pool | None) -> NodeCapacity:
        """Measure the capacity of a member.

        It is empty after an internal error, which leaves it unknown, and where another stack
        allocates the node's cards.
        """
        if plan.reason in _OFFERS_NOTHING:
            return NodeCapacity()
        seen = self.context.seen
        added = read_tolerations(pool) if seen.node.taints else ()
        return observe_node_capacity(seen.node, seen.pods, seen.unhealthy_cards, added)

    def find_labels(self, plan: NodePlan) -> Mapping[str, str] | None:
        """Return the member's labels, which pods of the pool select; None where it takes none.

        A node that another stack or MIG devices keep from the pool takes none. A node that is only
        out of service counts, since it will be back.
        """
        return None if plan.reason in _LEFT_ALONE else self.context.seen.node.labels


def list_tasks(
    context: NodeContext, candidates: Sequence[Pool], unreadable: Set[str], releases: Releases
) -> Iterator[tuple[str, Task | NodePlan]]:
    """Yield the name of each pool that concerns a node with its task, or its plan if that is clear.

    `candidates` are all pools that may claim the node, `unreadable` the names of pools whose spec
    can't be read. Nodes that must still be released are entered into `releases`.
    """
    seen, remembered = context.seen, context.remembered_pools
    if remembered & unreadable:
        releases.enter(context.name, remembered)
        return
    node, records = seen.node, seen.records
    owner = find_owner(node, records)
    cardless: Mapping[str, str] = {}
    if not context.unreadable:
        cardless = find_cardless_pools(node, records, seen.resource_slices, candidates)
        candidates = [pool for pool in candidates if pool.name not in cardless]
    acting = list_acting(candidates, cardless, owner)
    if claim := decide_claim(node, owner, acting, context.assigned):
        yield claim.winner.name, Task(context, is_member=True)
        for loser in claim.losers:
            yield loser.name, plan_lost_claim(context.name, claim.winner, loser)
    elif (remembered or node.carries_ours) and not (cardless and records.applied is not None):
        releases.enter(context.name, remembered)
        cardless = {name: why for name, why in cardless.items() if name != (owner or "")}
        yield owner or "", Task(context, is_member=False)
    for name, why in cardless.items():
        yield name, plan_cardless(context.name, why)
    for pool in candidates:
        if (
            pool.observes
            and pool.name != owner
            and (claim := decide_claim(node, owner, [*acting, pool], context.assigned_observing))
        ):
            if claim.winner is pool:
                yield pool.name, Task(context, is_member=True)
            elif pool in claim.losers:
                yield pool.name, plan_lost_claim(context.name, claim.winner, pool)
