"""Counts the nodes that join a pool: how many are cordoned for it, and how the last ones ended.

Nodes that join are in no budget, since they take no GPU capacity away. But a selector may cover
nodes that can't join, on which other work runs. Therefore few are cordoned at once, and after three
failures no other node begins. All of this is read from the nodes' records, so that it survives a
restart of the operator.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from gpushare.api.pool import Pool
from gpushare.core.snapshot.change_policy import build_attempt
from gpushare.core.snapshot.cluster import NodeContext

MOST_FAILED = 3
"""The number of failures among the last joins that halts joins until a user retries them."""
NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class JoinEnd:
    """How a node's join ended."""

    at: datetime
    failure: str = ""
    """Cause of the failure, in a sentence; empty where the mode was verified."""
    is_current: bool = True
    """Whether it ended in the present attempt: no new spec or retry annotation since then."""


class JoinFailure(NamedTuple):
    """A join that failed in the present attempt."""

    at: datetime
    node: str
    message: str


class JoinSums(NamedTuple):
    """The joins of a pool, added up."""

    under_way: int = 0
    """Nodes that are cordoned to join, or about to be, without those that failed."""
    blocked: int = 0
    """Those of them that wait without a deadline, as for pods, maintenance or a refused write.

    They take places of their own pool alone.
    """
    failed: int = 0
    """Joins that failed, in whichever attempt; their nodes stay cordoned."""
    last_ended_at: datetime = NEVER
    last_verified_at: datetime = NEVER
    failures: tuple[JoinFailure, ...] = ()

    def add(self, other: "JoinSums") -> "JoinSums":
        """Add the joins of other nodes of the pool."""
        if self is NO_JOINS or other is NO_JOINS:
            return other if self is NO_JOINS else self
        return JoinSums(
            self.under_way + other.under_way,
            self.blocked + other.blocked,
            self.failed + other.failed,
            max(self.last_ended_at, other.last_ended_at),
            max(self.last_verified_at, other.last_verified_at),
            self.failures + other.failures,
        )

    @property
    def halted_by(self) -> str:
        """Why no other node may join: the first failure of the last joins; empty where one may."""
        last = sorted(each for each in self.failures if each.at > self.last_verified_at)
        return last[0].message if len(last) >= MOST_FAILED else ""


NO_JOINS = JoinSums()


def count_join(node: str, end: JoinEnd | None, *, is_under_way: bool, is_blocked: bool) -> JoinSums:
    """Count the join of one node, which has ended so far with `end`."""
    if end is None and not is_under_way:
        return NO_JOINS
    has_failed = end is not None and bool(end.failure)
    return JoinSums(
        under_way=int(is_under_way),
        blocked=int(is_under_way and is_blocked),
        failed=int(has_failed),
        last_ended_at=end.at if end is not None else NEVER,
        last_verified_at=end.at if end is not None and not has_failed else NEVER,
        failures=(JoinFailure(end.at, node, end.failure),)
        if end is not None and has_failed and end.is_current
        else (),
    )


def read_end(context: NodeContext, pool: Pool) -> JoinEnd | None:
    """Read how the node's join ended; None where it has not, or was a join of another pool."""
    node, change = context.seen.node, context.seen.records.change
    applied = context.seen.records.applied
    if change is not None and change.is_under_way and change.initializing and change.failure:
        failure = change.failure
        message = failure.describe(node.name)
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


def find_next(waiting: Mapping[str, JoinSums], every: Collection[JoinSums], most: int) -> str:
    """Return which of the pools `waiting` gets the next place; empty where no place is free.

    `every` has the joins of all pools, which share `most` places. The pool with the fewest joins
    under way goes first, then the one whose last join ended first. Failed and blocked joins take
    places of their own pool alone, so that they hold up no other pool.
    """
    if sum(joins.under_way - joins.blocked for joins in every) >= most:
        return ""
    ranked = (
        (joins.under_way, joins.last_ended_at, pool)
        for pool, joins in waiting.items()
        if joins.under_way + joins.failed < most
    )
    return min(ranked, default=(0, NEVER, ""))[2]
