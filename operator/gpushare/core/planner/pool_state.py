"""Keeps the plans for the nodes of one pool, and their sums, up to date node by node."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from gpushare.core.capacity.node_capacity import NodeCapacity
from gpushare.core.capacity.node_labels import LabelSums
from gpushare.core.cause import Cause
from gpushare.core.planner.joins import Joins
from gpushare.core.rollout.budget import RolloutProgress
from gpushare.core.rollout.change_kinds import ChangeKind
from gpushare.core.rollout.window_state import WindowState
from gpushare.core.snapshot.actions import Halt, NodePlan, NodeState
from gpushare.core.snapshot.isolation import NOTHING_SHARED, NodeIsolation
from gpushare.names import Reason

_WAITS = frozenset({NodeState.WAITING, NodeState.BLOCKED, NodeState.FAILED})


@dataclass(slots=True)
class PoolState:
    """The plans of one pool's nodes, with the sums that its status reports.

    Recording or removing a node costs the same whatever the pool's size.
    """

    plans: dict[str, NodePlan] = field(default_factory=dict)
    """Plans of nodes that the pool claims, also if another has them, or that can't leave it."""
    counts: Counter[NodeState] = field(default_factory=Counter)
    unready: dict[str, NodePlan] = field(default_factory=dict)
    warned: dict[str, NodePlan] = field(default_factory=dict)
    """Nodes that are Ready with a warning."""
    unlabelled: dict[str, NodePlan] = field(default_factory=dict)
    conflicting: dict[str, NodePlan] = field(default_factory=dict)
    capacities: dict[str, NodeCapacity] = field(default_factory=dict)
    labels: LabelSums = field(default_factory=LabelSums)
    """Published labels of the nodes that take the pool's pods."""
    isolations: dict[str, NodeIsolation] = field(default_factory=dict)
    """Isolation of the containers, by node on which containers share cards."""
    durations: dict[str, float] = field(default_factory=dict)
    """Seconds that the last change took from its labels on, by node."""
    longest_seconds: float | None = None
    """The result of `find_longest_seconds`, valid if `is_longest_known`."""
    is_longest_known: bool = True
    queued: dict[str, NodePlan] = field(default_factory=dict)
    """Nodes that wait until their start is admitted."""
    pending: dict[str, NodePlan] = field(default_factory=dict)
    """Nodes that need a change which has not begun."""
    kinds: Counter[ChangeKind] = field(default_factory=Counter)
    """How many of the `pending` changes there are of each kind."""
    halting: dict[str, NodePlan] = field(default_factory=dict)
    """Nodes whose change failed, so that no other node may begin."""
    verified: set[str] = field(default_factory=set)
    """Nodes that a change brought to the pool's mode."""
    moved: dict[str, Reason | None] = field(default_factory=dict)
    """Nodes whose plan changed since `take_waits`, each with the reason that was last counted."""
    under_way: set[str] = field(default_factory=set)
    """Nodes whose change has begun and is not over, including those that join."""
    changing: set[str] = field(default_factory=set)
    """Nodes in their change, or about to be, without those that join."""
    unavailable: set[str] = field(default_factory=set)
    """Nodes out of service, which use the budget up."""
    joins: Joins = field(default_factory=Joins)
    cordoned: set[str] = field(default_factory=set)
    """Nodes whose change has begun, and can still be aborted without a trace."""
    windows: WindowState | None = None
    """The state of the pool's windows, freezes and contests; None where there are none."""
    last_stops: tuple[bool, Cause | None] = (False, None)
    """Whether the pool was halted, and what closed it, when cordoned nodes were last planned."""
    last_refusals: tuple[Cause | None, ...] | None = None
    """Why queued nodes in service may not start (`find_shared_refusals`), as last judged.

    While that stays the same, these nodes need not be judged again.
    """
    last_progress: RolloutProgress | None = None
    """The rollout's progress at that time, which decides about queued nodes out of service."""
    is_stale: bool = True
    """Whether anything changed since the pool's status was built from this state."""

    @property
    def refusal(self) -> Cause | None:
        """Why windows, freezes or contests let no change begin; None where one may."""
        return self.windows.refusal if self.windows is not None else None

    @property
    def contest(self) -> Cause | None:
        """The refusal, if it is that writers contest the pool's spec; else None."""
        refusal = self.refusal
        return refusal if refusal and refusal.reason is Reason.SPEC_CONTESTED else None

    @property
    def contested(self) -> set[str]:
        """Nodes whose change waits for the end of a contest."""
        pending = self.pending.items()
        return {name for name, plan in pending if plan.reason is Reason.SPEC_CONTESTED}

    def record(self, plan: NodePlan) -> None:
        """Replace the recorded plan of a node by `plan`."""
        old = self.plans.get(plan.node)
        if old == plan:
            return
        self.remove(plan.node)
        self.is_stale = True
        self.plans[plan.node] = plan
        self.counts[plan.state] += 1
        if plan.state is not NodeState.READY:
            self.unready[plan.node] = plan
        if plan.warns:
            self.warned[plan.node] = plan
        if not plan.facts.labelled:
            self.unlabelled[plan.node] = plan
        if plan.facts.conflicts:
            self.conflicting[plan.node] = plan
        if plan.kind is not None:
            self.pending[plan.node] = plan
            self.kinds[plan.kind] += 1
        if plan.halt:
            self.halting[plan.node] = plan
        if plan.facts.verified:
            self.verified.add(plan.node)
        if plan.facts.under_way:
            self.under_way.add(plan.node)
        self.moved.setdefault(plan.node, old.reason if old is not None else None)

    def remove(self, node: str) -> None:
        """Remove the plan of a node for which nothing is planned any more."""
        plan = self.plans.pop(node, None)
        if plan is None:
            return
        self.is_stale = True
        self.counts[plan.state] -= 1
        for group in (
            *(self.unready, self.warned, self.unlabelled),
            *(self.conflicting, self.pending, self.halting),
        ):
            group.pop(node, None)
        self.verified.discard(node)
        self.under_way.discard(node)
        if plan.kind is not None:
            self.kinds -= Counter({plan.kind: 1})

    def find_halt(self) -> Halt | None:
        """Return the halt of the first node, by name, that halts the pool; None where none does.

        Nodes that a user must retry go before those whose halt ends automatically.
        """
        halts = ((plan.halt, plan.node) for plan in self.halting.values() if plan.halt is not None)
        return min(halts, key=lambda each: (each[0].resumes, each[1]), default=(None, ""))[0]

    def measure(self, node: str, capacity: NodeCapacity | None) -> None:
        """Record the capacity of a node; None: the node no longer belongs to the pool."""
        if self.capacities.get(node) == capacity:
            return
        self.is_stale = True
        if capacity is None:
            del self.capacities[node]
            self.labels.record(node, None)
        else:
            self.capacities[node] = capacity

    def label(self, node: str, labels: Mapping[str, str] | None, keys: tuple[str, ...]) -> None:
        """Record a member's labels of these `keys`; None: it takes no pods of the pool."""
        self.is_stale |= self.labels.record(node, labels, keys)

    def time_change(self, node: str, seconds: float | None) -> None:
        """Record how long a node's last change took from its labels on; None: unknown."""
        if self.durations.get(node) == seconds:
            return
        if seconds is None:
            del self.durations[node]
        else:
            self.durations[node] = seconds
        self.is_longest_known = False

    def find_longest_seconds(self) -> float | None:
        """Return the longest of `durations`, but at most thrice their median; None without any.

        One change that took very long must not keep all others from their windows.
        """
        if not self.is_longest_known:
            taken = self.durations.values()
            self.longest_seconds = min(max(taken), 3 * median(taken)) if taken else None
            self.is_longest_known = True
        return self.longest_seconds

    def claim(self, node: str, isolation: NodeIsolation) -> None:
        """Record the isolation of the containers on a node."""
        if self.isolations.get(node, NOTHING_SHARED) == isolation:
            return
        self.is_stale = True
        if isolation == NOTHING_SHARED:
            del self.isolations[node]
        else:
            self.isolations[node] = isolation

    def queue(self, plan: NodePlan) -> None:
        """Add the node to those that wait for the admission of their start, or remove it."""
        if plan.verdict.start is not None:
            self.queued[plan.node] = plan
        else:
            self.queued.pop(plan.node, None)
            self.joins.leave(plan.node)

    def lose_claim(self, plan: NodePlan) -> None:
        """Record that the pool claims a node that another pool has, which `plan` names."""
        self.record(plan)
        self.measure(plan.node, None)
        self.claim(plan.node, NOTHING_SHARED)
        self.queue(plan)
        self.joins.end(plan.node, None)
        self.put_in_service(plan.node)

    def take_waits(self) -> Counter[Reason]:
        """Count the nodes that began to wait for each reason since the last call."""
        moved, self.moved = self.moved, {}
        plans = ((self.plans.get(node), counted) for node, counted in moved.items())
        return Counter(
            plan.reason
            for plan, counted in plans
            if plan is not None and plan.state in _WAITS and plan.reason is not counted
        )

    def start_over(self) -> "PoolState":
        """Return an empty state that does not count reasons again which were counted already."""
        counted: dict[str, Reason | None] = {n: plan.reason for n, plan in self.plans.items()}
        return PoolState(moved=counted | self.moved)

    def forget(self, node: str) -> None:
        """Remove all that is recorded of a node that no longer concerns the pool."""
        self.remove(node)
        self.time_change(node, None)
        self.measure(node, None)
        self.claim(node, NOTHING_SHARED)
        self.queued.pop(node, None)
        self.joins.leave(node)
        self.joins.end(node, None)
        self.put_in_service(node)

    def take_out_of_service(self, node: str) -> None:
        """Count the node as taken out of service by its pool."""
        self.unavailable.add(node)
        self.changing.add(node)

    def put_in_service(self, node: str) -> None:
        """Count the node as in service."""
        self.unavailable.discard(node)
        self.changing.discard(node)
        self.cordoned.discard(node)
        self.joins.give_back(node)
