"""The plans for the nodes of one pool, kept up to date node by node."""

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
from gpushare.core.snapshot.actions import NodeState, StepResult
from gpushare.core.snapshot.isolation import NOTHING_SHARED, NodeIsolation
from gpushare.names import Reason

_WAITS = frozenset({NodeState.WAITING, NodeState.BLOCKED, NodeState.FAILED})


@dataclass(slots=True)
class PoolState:
    """The plans of one pool's nodes, with the sums that its status tells.

    To record or to remove a node costs the same whatever the pool's size.
    """

    plans: dict[str, StepResult] = field(default_factory=dict)
    """Nodes that the pool claims, also where another has them, and nodes that can't leave it."""
    counts: Counter[NodeState] = field(default_factory=Counter)
    unready: dict[str, StepResult] = field(default_factory=dict)
    warned: dict[str, StepResult] = field(default_factory=dict)
    """Nodes that are ready with something to tell."""
    unlabelled: dict[str, StepResult] = field(default_factory=dict)
    conflicting: dict[str, StepResult] = field(default_factory=dict)
    capacities: dict[str, NodeCapacity] = field(default_factory=dict)
    labels: LabelSums = field(default_factory=LabelSums)
    """Of the nodes that take its pods."""
    isolations: dict[str, NodeIsolation] = field(default_factory=dict)
    """Of the nodes on which containers share cards."""
    durations: dict[str, float] = field(default_factory=dict)
    """By node, the seconds that its last change took from its labels on."""
    longest_seconds: float | None = None
    """The longest of them, if `is_longest_known`."""
    is_longest_known: bool = True
    queued: dict[str, StepResult] = field(default_factory=dict)
    """Nodes that wait until their start is admitted."""
    pending: dict[str, StepResult] = field(default_factory=dict)
    """Nodes that need a change which has not begun."""
    kinds: Counter[ChangeKind] = field(default_factory=Counter)
    """Of those changes."""
    halting: dict[str, StepResult] = field(default_factory=dict)
    """Nodes whose change failed: no other may begin."""
    verified: set[str] = field(default_factory=set)
    """Nodes that a change brought to the pool's mode."""
    moved: dict[str, Reason | None] = field(default_factory=dict)
    """Nodes whose plan is another one, with the reason that was last counted."""
    under_way: set[str] = field(default_factory=set)
    """Nodes whose change has begun and is not over, those included that join."""
    changing: set[str] = field(default_factory=set)
    """Nodes in their change, or about to be, but for those that join."""
    unavailable: set[str] = field(default_factory=set)
    """Nodes out of service: they use the budget up."""
    joins: Joins = field(default_factory=Joins)
    cordoned: set[str] = field(default_factory=set)
    """Nodes whose change has begun, and can still be aborted without a trace."""
    windows: WindowState | None = None
    """What windows, freezes and contests say; None where there are none."""
    last_stops: tuple[bool, Cause | None] = (False, None)
    """Whether it was halted, and closed, when that was last planned by."""
    last_refusals: tuple[Cause | None, ...] | None = None
    """Why those that are queued and in service may not start: for as long as it is the same they
    need not be asked again."""
    last_progress: RolloutProgress | None = None
    """What was counted then: it decides about those out of service."""
    is_stale: bool = True
    """Something changed since the status was built from it."""

    @property
    def refusal(self) -> Cause | None:
        """Why no change may begin by its windows."""
        return self.windows.refusal if self.windows is not None else None

    @property
    def contest(self) -> Cause | None:
        """Why nothing begins where writers contest the pool's spec."""
        refusal = self.refusal
        return refusal if refusal and refusal.reason is Reason.SPEC_CONTESTED else None

    @property
    def contested(self) -> set[str]:
        """Nodes whose change waits for the end of a contest."""
        pending = self.pending.items()
        return {name for name, plan in pending if plan.reason is Reason.SPEC_CONTESTED}

    def record(self, plan: StepResult) -> None:
        """Record what is planned for a node now."""
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
        if not plan.labelled:
            self.unlabelled[plan.node] = plan
        if plan.conflicts:
            self.conflicting[plan.node] = plan
        if plan.kind is not None:
            self.pending[plan.node] = plan
            self.kinds[plan.kind] += 1
        if plan.halts:
            self.halting[plan.node] = plan
        if plan.verified:
            self.verified.add(plan.node)
        if plan.under_way:
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

    def find_halting(self) -> StepResult | None:
        """Find the first node that halts the pool; one that a user must retry goes first."""
        return min(self.halting.values(), key=lambda plan: (plan.resumes, plan.node), default=None)

    def measure(self, node: str, capacity: NodeCapacity | None) -> None:
        """Record what a node offers and gives out; None where it is the pool's no more."""
        if self.capacities.get(node) == capacity:
            return
        self.is_stale = True
        if capacity is None:
            del self.capacities[node]
            self.labels.record(node, None)
        else:
            self.capacities[node] = capacity

    def label(self, node: str, labels: Mapping[str, str] | None, keys: tuple[str, ...]) -> None:
        """Record a member's labels of these `keys`; None where it takes no pods of the pool."""
        self.is_stale |= self.labels.record(node, labels, keys)

    def time_change(self, node: str, seconds: float | None) -> None:
        """Record how long a node's last change took; None where that is unknown."""
        if self.durations.get(node) == seconds:
            return
        if seconds is None:
            del self.durations[node]
        else:
            self.durations[node] = seconds
        self.is_longest_known = False

    def find_longest_seconds(self) -> float | None:
        """Find the longest duration, but at most three times their median: one that took very long
        must not keep all others from their windows."""
        if not self.is_longest_known:
            taken = self.durations.values()
            self.longest_seconds = min(max(taken), 3 * median(taken)) if taken else None
            self.is_longest_known = True
        return self.longest_seconds

    def claim(self, node: str, isolation: NodeIsolation) -> None:
        """Record what isolation the containers on a node have."""
        if self.isolations.get(node, NOTHING_SHARED) == isolation:
            return
        self.is_stale = True
        if isolation == NOTHING_SHARED:
            del self.isolations[node]
        else:
            self.isolations[node] = isolation

    def queue(self, plan: StepResult, *, is_queued: bool) -> None:
        """Remember whether this node must be looked at again when the others have moved on."""
        if is_queued:
            self.queued[plan.node] = plan
        else:
            self.queued.pop(plan.node, None)
            self.joins.leave(plan.node)

    def lose_claim(self, plan: StepResult) -> None:
        """Record that the pool claims the node, and another has it; `plan` says which."""
        self.record(plan)
        self.measure(plan.node, None)
        self.claim(plan.node, NOTHING_SHARED)
        self.queue(plan, is_queued=False)
        self.joins.end(plan.node, None)
        self.put_in_service(plan.node)

    def take_waits(self) -> Counter[Reason]:
        """Count the nodes that came to wait for each reason since the last call."""
        moved, self.moved = self.moved, {}
        plans = ((self.plans.get(node), counted) for node, counted in moved.items())
        return Counter(
            plan.reason
            for plan, counted in plans
            if plan is not None and plan.state in _WAITS and plan.reason is not counted
        )

    def start_over(self) -> "PoolState":
        """Return an empty state, in which what was counted is not counted again."""
        counted: dict[str, Reason | None] = {n: plan.reason for n, plan in self.plans.items()}
        return PoolState(moved=counted | self.moved)

    def forget(self, node: str) -> None:
        """Forget a node that has nothing to do with the pool any more."""
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
