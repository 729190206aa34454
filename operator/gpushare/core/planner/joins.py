"""Counts the nodes that join a pool: how many are cordoned for it, and how the last ones ended.

Nodes that join are in no budget, since they take no GPU capacity away. But a selector may cover
nodes that can't join, on which other work runs. Therefore few are cordoned at once, and after three
failures no other node begins. All of this is read from the nodes' records, so that it survives a
restart of the operator.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from gpushare.api.pool import Pool
from gpushare.core.nodechange.phases.failed import describe_failure
from gpushare.core.snapshot.change_policy import build_attempt
from gpushare.core.snapshot.cluster import NodeContext

MOST_FAILED = 3
"""The number of failures among the last joins that halts joins until a user retries them."""
_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class JoinEnd:
    """How a node's join ended."""

    at: datetime
    failure: str = ""
    """Cause of the failure, in a sentence; empty where the mode was verified."""
    is_current: bool = True
    """Whether it ended in the present attempt: no new spec or retry annotation since then."""


@dataclass(slots=True)
class Joins:
    """The joins of one pool."""

    under_way: set[str] = field(default_factory=set)
    """Nodes that are cordoned to join, or about to be, without those that failed."""
    blocked: set[str] = field(default_factory=set)
    """Nodes `under_way` that wait without a deadline, as for pods, maintenance or a refused write.

    They take places of their own pool alone.
    """
    waiting: set[str] = field(default_factory=set)
    """Nodes that wait for nothing but their turn."""
    arrived: set[str] = field(default_factory=set)
    """Nodes in `waiting` that came to wait in this pass."""
    ends: dict[str, JoinEnd] = field(default_factory=dict)
    """How the join of each of the pool's nodes ended, by node."""
    failed: int = 0
    """How many of `ends` failed; their nodes stay cordoned."""
    _latest: tuple[datetime, str] | None = None
    """When the last join ended, and why no other may begin; None where an end has changed."""

    def wait(self, node: str) -> None:
        """Record that the node waits for its turn."""
        self.waiting.add(node)
        self.arrived.add(node)

    def block(self, node: str, *, is_blocked: bool) -> None:
        """Record whether a node that has a place is held up by something without a deadline."""
        if is_blocked and node in self.under_way:
            self.blocked.add(node)
        else:
            self.blocked.discard(node)

    def give_back(self, node: str) -> None:
        """Record that the node has no place any more."""
        self.under_way.discard(node)
        self.blocked.discard(node)

    def leave(self, node: str) -> None:
        """Record that the node no longer waits for its turn."""
        self.waiting.discard(node)
        self.arrived.discard(node)

    def end(self, node: str, end: JoinEnd | None) -> None:
        """Record how the node's join ended; None: it has not ended, or the node is gone."""
        before = self.ends.get(node)
        if before == end:
            return
        if end is None:
            del self.ends[node]
        else:
            self.ends[node] = end
        self.failed += _has_failed(end) - _has_failed(before)
        self._latest = None

    @property
    def halted_by(self) -> str:
        """Why no other node may join: the first failure of the last joins; empty where one may."""
        return self._find_latest()[1] if self.failed >= MOST_FAILED else ""

    @property
    def last_ended_at(self) -> datetime:
        """When the last join of the pool ended."""
        return self._find_latest()[0]

    def _find_latest(self) -> tuple[datetime, str]:
        if self._latest is None:
            last = max((end.at for end in self.ends.values()), default=_NEVER)
            self._latest = last, self._find_halt()
        return self._latest

    def _find_halt(self) -> str:
        verified = max((e.at for e in self.ends.values() if not e.failure), default=_NEVER)
        failed = sorted(
            (end.at, node, end.failure)
            for node, end in self.ends.items()
            if end.failure and end.is_current and end.at > verified
        )
        return failed[0][2] if len(failed) >= MOST_FAILED else ""


def read_end(context: NodeContext, pool: Pool) -> JoinEnd | None:
    """Read how the node's join ended; None where it has not, or was a join of another pool."""
    node, change = context.seen.node, context.seen.records.change
    applied = context.seen.records.applied
    if change is not None and change.is_under_way and change.initializing and change.failure:
        failure = change.failure
        message = describe_failure(node.name, failure)
        return JoinEnd(failure.at, message, failure.attempt == build_attempt(pool, node.retry))
    if applied is None or applied.joined_at is None or applied.pool != pool.name:
        return None
    return JoinEnd(applied.joined_at)


def is_under_way(context: NodeContext) -> bool:
    """Return whether the node takes a place: it is cordoned to join, or about to be, and has not
    failed."""
    node, records = context.seen.node, context.seen.records
    change = records.change
    if change is None:
        # Somebody removed the record of a change that has cordoned the node.
        is_begun = records.applied is None and node.owns_cordon
    else:
        is_begun = change.is_under_way and change.initializing and change.failure is None
    return is_begun or context.is_join_starting


def find_next(waiting: Mapping[str, Joins], every: Collection[Joins], most: int) -> str:
    """Return which of the pools `waiting` gets the next place; empty where no place is free.

    `every` has the joins of all pools, which share `most` places. The pool with the fewest joins
    under way goes first, then the one whose last join ended first. Failed and blocked joins take
    places of their own pool alone, so that they hold up no other pool.
    """
    if sum(len(joins.under_way) - len(joins.blocked) for joins in every) >= most:
        return ""
    ranked = (
        (len(joins.under_way), joins.last_ended_at, pool)
        for pool, joins in waiting.items()
        if joins.waiting and len(joins.under_way) + joins.failed < most
    )
    return min(ranked, default=(0, _NEVER, ""))[2]


def _has_failed(end: JoinEnd | None) -> bool:
    return end is not None and bool(end.failure)
