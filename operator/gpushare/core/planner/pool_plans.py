"""Keeps a plan for each node of one pool; all else about the pool is folded from them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import NamedTuple

from gpushare.core.capacity.node_capacity import NodeCapacity
from gpushare.core.capacity.node_labels import Combination
from gpushare.core.cause import Cause
from gpushare.core.planner.chunked_fold import ChunkedFold
from gpushare.core.planner.joins import NO_JOINS, JoinEnd, JoinSums, count_join
from gpushare.core.planner.starts import StartRequest
from gpushare.core.rollout.budget import RolloutProgress
from gpushare.core.rollout.change_kinds import ChangeKind
from gpushare.core.rollout.window_state import WindowState
from gpushare.core.sizing.moves import IdleNodeMove
from gpushare.core.snapshot.actions import Halt, NodePlan, NodeState
from gpushare.core.snapshot.isolation import NOTHING_SHARED, NodeIsolation
from gpushare.names import Reason

_WAITS = frozenset({NodeState.WAITING, NodeState.BLOCKED, NodeState.FAILED})


@dataclass(frozen=True, slots=True)
class Service:
    """Whether a node is in service, as the budget and the joins of its pool count it."""

    is_unavailable: bool = False
    """It is out of service, and uses the budget up."""
    is_changing: bool = False
    """It is in its change, or about to be, and does not join."""
    is_cordoned: bool = False
    """Its change has begun, and can still be aborted without a trace."""
    joins: bool = False
    """It is cordoned to join, or about to be, and has not failed."""


IN_SERVICE = Service()


@dataclass(frozen=True, slots=True)
class Member:
    """What is known of a node that a pool claims, or that is to leave it."""

    plan: NodePlan | None = None
    """None for a node that is just being released."""
    service: Service = IN_SERVICE
    capacity: NodeCapacity | None = None
    """None for a node that does not belong to the pool."""
    labels: Combination | None = None
    """Published labels; None for a node that takes no pods of the pool."""
    request: StartRequest | None = None
    """How the node waits for its start; None where it does not."""
    isolation: NodeIsolation = NOTHING_SHARED
    took_seconds: float | None = None
    """Seconds that the last change took from its labels on."""
    join_end: JoinEnd | None = None

    @property
    def shown(self) -> tuple[object, ...]:
        """What the pool's status shows of the node."""
        return self.plan, self.capacity, self.labels, self.isolation


UNKNOWN = Member()


class Sums(NamedTuple):
    """What a start of a change depends on, added up over the nodes of a pool."""

    total: int = 0
    unavailable: int = 0
    changing: int = 0
    verified: int = 0
    halt: tuple[bool, str, Halt] | None = None
    """Whether the pool's halt ends automatically, the node, and the halt."""
    joins: JoinSums = NO_JOINS

    def add(self, other: "Sums") -> "Sums":
        """Add the sums of other nodes of the pool.

        A halt that a user must end goes before one that ends automatically, then by node.
        """
        halts = [halt for halt in (self.halt, other.halt) if halt is not None]
        return Sums(
            self.total + other.total,
            self.unavailable + other.unavailable,
            self.changing + other.changing,
            self.verified + other.verified,
            min(halts, key=lambda halt: halt[:2], default=None),
            self.joins.add(other.joins),
        )


def count_member(node: str, member: Member) -> Sums:
    """Count one node."""
    plan, service = member.plan, member.service
    halt = plan.halt if plan is not None else None
    return Sums(
        total=int(member.capacity is not None),
        unavailable=int(service.is_unavailable),
        changing=int(service.is_changing),
        verified=int(plan is not None and plan.facts.verified),
        halt=(halt.resumes, node, halt) if halt is not None else None,
        joins=count_join(
            node,
            member.join_end,
            is_under_way=service.joins,
            is_blocked=plan is not None and plan.state is NodeState.BLOCKED,
        ),
    )


class PoolPlans:
    """The plans of one pool's nodes, by node, with the windows' state and the last pass's answers.

    An attribute that adds the plans up is computed when it is asked for after a change, by a plain
    fold. `sums` alone, which each pass asks for, is kept up to date chunk by chunk.
    """

    def __init__(self, moved: Mapping[str, Reason | None] | None = None) -> None:
        self.members: dict[str, Member] = {}
        self._fold = ChunkedFold(Sums(), Sums.add)
        self.queue: dict[StartRequest, set[str]] = {}
        """Nodes that wait until their start is admitted."""
        self.answers: dict[StartRequest, Cause | None] | None = None
        """Why the nodes of each request wait, as their plans show it; None for those that wait for
        nothing but a place to join. None before any pass."""
        self.stops: tuple[bool, Cause | None] = (False, None)
        """Whether the pool was halted, and what closed it, when its cordoned nodes were planned.
        """
        self.windows: WindowState | None = None
        """The state of the pool's windows, freezes and contests; None where there are none."""
        self.moved = dict(moved or {})
        """Nodes whose plan changed since `take_waits`, each with the reason last counted."""
        self.is_stale = True
        """Whether anything changed since the pool's status was built from this."""
        self.shortage: tuple[str, ...] | None = None
        """Pools that have the nodes which this one lacks for its minimum; None where none lacks."""
        self.move: IdleNodeMove | None = None
        """The idle node that moves to the pool next, or would."""

    def put(self, node: str, member: Member) -> None:
        """Replace what is known of a node."""
        known = self.members.get(node)
        if known == member:
            return
        old = known or UNKNOWN
        self.members[node] = member
        self._fold.put(node, count_member(node, member))
        self._note(node, old, member)
        if old.request != member.request:
            self._leave_queue(node, old)
            if member.request is not None:
                self.queue.setdefault(member.request, set()).add(node)

    def forget(self, node: str) -> None:
        """Remove a node that no longer concerns the pool."""
        if (old := self.members.pop(node, None)) is not None:
            self._fold.remove(node)
            self._note(node, old, UNKNOWN)
            self._leave_queue(node, old)

    def note_size(self, shortage: tuple[str, ...] | None, move: IdleNodeMove | None) -> None:
        """Note what the pool lacks for its minimum, and the node that would move to it."""
        self.is_stale |= (shortage, move) != (self.shortage, self.move)
        self.shortage, self.move = shortage, move

    def _leave_queue(self, node: str, member: Member) -> None:
        if member.request is not None:
            nodes = self.queue[member.request]
            nodes.discard(node)
            if not nodes:
                del self.queue[member.request]

    def plan_of(self, node: str) -> NodePlan:
        """Return the plan of a node that has one."""
        plan = self.members[node].plan
        assert plan is not None
        return plan

    def show(self, plan: NodePlan) -> None:
        """Replace the plan of a node, about which nothing else has changed."""
        self.put(plan.node, replace(self.members.get(plan.node, UNKNOWN), plan=plan))

    def is_ready(self, request: StartRequest) -> bool:
        """Return whether the nodes of `request` wait for nothing but a place to join."""
        if not request.needs_place or self.answers is None or request not in self.answers:
            return False
        answer = self.answers[request]
        return answer is None or answer.reason is Reason.WAITING_FOR_JOINS

    def list_ready(self) -> list[StartRequest]:
        """List the requests of nodes that wait for nothing but a place to join."""
        return [request for request in self.queue if self.is_ready(request)]

    def start_over(self) -> "PoolPlans":
        """Return empty plans that do not count reasons again which were counted already."""
        counted = {node: plan.reason for node, plan in self.plans.items()}
        return PoolPlans(moved=counted | self.moved)

    def take_waits(self) -> Counter[Reason]:
        """Count the nodes that began to wait for each reason since the last call."""
        moved, self.moved = self.moved, {}
        plans = ((self.plans.get(node), counted) for node, counted in moved.items())
        return Counter(
            plan.reason
            for plan, counted in plans
            if plan is not None and plan.state in _WAITS and plan.reason is not counted
        )

    def _note(self, node: str, old: Member, new: Member) -> None:
        if old.plan != new.plan and new.plan is not None:
            self.moved.setdefault(node, old.plan.reason if old.plan is not None else None)
        self.is_stale |= old.shown != new.shown
        stale = _FOLDS if old.took_seconds != new.took_seconds else _FOLDS - _OF_DURATIONS
        for name in stale & self.__dict__.keys():
            del self.__dict__[name]

    def count_progress(self, *, gives_back: bool, releasing: int) -> RolloutProgress:
        """Count the progress of the rollout.

        A pool that gives its nodes back must still release `releasing` nodes.
        """
        sums, halt = self.sums, self.halt
        return RolloutProgress(
            total=releasing if gives_back else sums.total,
            unavailable=sums.unavailable,
            changing=sums.changing,
            verified=sums.verified,
            halted_by=halt.message if halt is not None else "",
            resumes=halt is not None and halt.resumes,
            joins_halted_by=sums.joins.halted_by,
        )

    # Folds.

    @property
    def sums(self) -> Sums:
        """What a start of a change depends on."""
        return self._fold.total

    @property
    def halt(self) -> Halt | None:
        """The halt of the first node, by name, that halts the pool; None where none does."""
        return self.sums.halt[2] if self.sums.halt is not None else None

    @property
    def refusal(self) -> Cause | None:
        """Why windows, freezes or contests let no change begin; None where one may."""
        return self.windows.refusal if self.windows is not None else None

    @property
    def contest(self) -> Cause | None:
        """The refusal, if it is that writers contest the pool's spec; else None."""
        refusal = self.refusal
        return refusal if refusal and refusal.reason is Reason.SPEC_CONTESTED else None

    @cached_property
    def plans(self) -> Mapping[str, NodePlan]:
        """Plans of nodes that the pool claims, also if another has them, or that can't leave it."""
        members = self.members.items()
        return {node: each.plan for node, each in members if each.plan is not None}

    @cached_property
    def counts(self) -> Counter[NodeState]:
        return Counter(plan.state for plan in self.plans.values())

    @cached_property
    def unready(self) -> Mapping[str, NodePlan]:
        return {n: plan for n, plan in self.plans.items() if plan.state is not NodeState.READY}

    @cached_property
    def warned(self) -> Mapping[str, NodePlan]:
        """Nodes that are Ready with a warning."""
        return {node: plan for node, plan in self.plans.items() if plan.warns}

    @cached_property
    def unlabelled(self) -> Mapping[str, NodePlan]:
        return {node: plan for node, plan in self.plans.items() if not plan.facts.labelled}

    @cached_property
    def conflicting(self) -> Mapping[str, NodePlan]:
        return {node: plan for node, plan in self.plans.items() if plan.facts.conflicts}

    @cached_property
    def pending(self) -> Mapping[str, NodePlan]:
        """Nodes that need a change which has not begun."""
        return {node: plan for node, plan in self.plans.items() if plan.kind is not None}

    @cached_property
    def kinds(self) -> Counter[ChangeKind]:
        """How many of the `pending` changes there are of each kind."""
        return Counter(plan.kind for plan in self.pending.values() if plan.kind is not None)

    @cached_property
    def queued_reasons(self) -> set[Reason]:
        """Reasons for which nodes wait for their start."""
        return {self.plan_of(node).reason for nodes in self.queue.values() for node in nodes}

    @cached_property
    def contested(self) -> set[str]:
        """Nodes whose change waits for the end of a contest."""
        pending = self.pending.items()
        return {name for name, plan in pending if plan.reason is Reason.SPEC_CONTESTED}

    @cached_property
    def under_way(self) -> set[str]:
        """Nodes whose change has begun and is not over, including those that join."""
        return {node for node, plan in self.plans.items() if plan.facts.under_way}

    @cached_property
    def unavailable(self) -> set[str]:
        """Nodes out of service, which use the budget up."""
        return {node for node, each in self.members.items() if each.service.is_unavailable}

    @cached_property
    def cordoned(self) -> set[str]:
        """Nodes whose change has begun, and can still be aborted without a trace."""
        return {node for node, each in self.members.items() if each.service.is_cordoned}

    @cached_property
    def capacities(self) -> Mapping[str, NodeCapacity]:
        members = self.members.items()
        return {node: each.capacity for node, each in members if each.capacity is not None}

    @cached_property
    def labels(self) -> Counter[Combination]:
        """Published labels of the nodes that take the pool's pods."""
        return Counter(each.labels for each in self.members.values() if each.labels is not None)

    @cached_property
    def isolations(self) -> Mapping[str, NodeIsolation]:
        """Isolation of the containers, by node on which containers share cards."""
        shared = ((node, each.isolation) for node, each in self.members.items())
        return {node: isolation for node, isolation in shared if isolation != NOTHING_SHARED}

    @cached_property
    def durations(self) -> list[float]:
        """Seconds that the last change of each node took from its labels on."""
        taken = (each.took_seconds for each in self.members.values())
        return [seconds for seconds in taken if seconds is not None]

    @cached_property
    def longest_seconds(self) -> float | None:
        """The longest of `durations`, but at most thrice their median; None without any.

        One change that took very long must not keep all others from their windows.
        """
        taken = self.durations
        return min(max(taken), 3 * median(taken)) if taken else None


_FOLDS = frozenset(
    name for name, each in vars(PoolPlans).items() if isinstance(each, cached_property)
)
_OF_DURATIONS = frozenset({"durations", "longest_seconds"})
