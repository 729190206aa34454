"""What stands planned for the nodes of one pool, kept up to date node by node."""

from collections import Counter
from dataclasses import dataclass, field

from gpushare.core.actions import NodePlan, NodeState
from gpushare.core.capacity import NodeCapacity


@dataclass(slots=True)
class Book:
    """The plans of one pool's nodes, with the sums that its status tells.

    To enter or to strike out a node costs the same whatever the pool's size.
    """

    plans: dict[str, NodePlan] = field(default_factory=dict)
    """Nodes that the pool claims, also where another has them, and nodes that can't leave it."""
    counts: Counter[NodeState] = field(default_factory=Counter)
    unready: dict[str, NodePlan] = field(default_factory=dict)
    unlabelled: dict[str, NodePlan] = field(default_factory=dict)
    contested: dict[str, NodePlan] = field(default_factory=dict)
    capacities: dict[str, NodeCapacity] = field(default_factory=dict)
    in_line: set[str] = field(default_factory=set)
    """Nodes whose plan depends on whether others are out of service."""
    unavailable: set[str] = field(default_factory=set)
    """Nodes out of service: they use the budget up."""
    is_stale: bool = True
    """Something changed since the status was built from it."""

    def enter(self, plan: NodePlan) -> None:
        """What is planned for a node now."""
        old = self.plans.get(plan.node)
        if old == plan:
            return
        self.strike(plan.node)
        self.is_stale = True
        self.plans[plan.node] = plan
        self.counts[plan.state] += 1
        if plan.state is not NodeState.READY:
            self.unready[plan.node] = plan
        if not plan.labelled:
            self.unlabelled[plan.node] = plan
        if plan.rivals:
            self.contested[plan.node] = plan

    def strike(self, node: str) -> None:
        """Nothing is planned for a node any more."""
        plan = self.plans.pop(node, None)
        if plan is None:
            return
        self.is_stale = True
        self.counts[plan.state] -= 1
        for group in (self.unready, self.unlabelled, self.contested):
            group.pop(node, None)

    def measure(self, node: str, capacity: NodeCapacity | None) -> None:
        """What a node offers and gives out; None where it is the pool's no more."""
        if self.capacities.get(node) == capacity:
            return
        self.is_stale = True
        if capacity is None:
            del self.capacities[node]
        else:
            self.capacities[node] = capacity

    def queue(self, plan: NodePlan) -> None:
        """Remember whether this node must be looked at again when the budget changes."""
        if plan.in_line:
            self.in_line.add(plan.node)
        else:
            self.in_line.discard(plan.node)

    def cede(self, plan: NodePlan) -> None:
        """The pool claims the node, and another has it; `plan` says which."""
        self.enter(plan)
        self.measure(plan.node, None)
        self.in_line.discard(plan.node)
        self.unavailable.discard(plan.node)

    def forget(self, node: str) -> None:
        """The node has nothing to do with the pool any more."""
        self.strike(node)
        self.measure(node, None)
        self.in_line.discard(node)
        self.unavailable.discard(node)
