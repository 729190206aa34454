"""Finds the idle nodes that move to pools where pods wait.

A pool takes part if it has `spec.size` and `spec.demand`. The pool with the pod that has waited
longest is asked first. It gets one node, for which all of this holds:

1. Pods of the pool have waited for `pendingFor`, and no idle node that it has would run them.
2. The pool has fewer nodes than its maximum, and no other node is on its way to it, or from it.
3. The node's pool has more nodes in service than its minimum, no pod waits for it as in rule 1 that
   one of the nodes it claims would run, and no other node is on its way to it, or from it.
4. No pod has held a GPU of the node for its pool's `idleFor`, since the node came to the pool.
5. The node is in service, nobody works on it, no change failed on it, and no minimum or maximum
   gives it to another pool.
6. One of these pods would run on the node, once the node is in its pool's mode.

Of several nodes, the one that has been idle longest is taken, then the first by name. What is not
known moves nothing: a pod of which the scheduler has not said that it lacks a GPU does not wait for
room.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from gpushare.api.rollout import DemandMode, DemandPolicy
from gpushare.api.selector import PoolSize
from gpushare.core.sizing.assignment import ClaimedNode

_HASH_CHARACTERS = 12


@dataclass(frozen=True, slots=True)
class WaitingPods:
    """Pods of one pool that are alike for the schedulers, and lack a GPU."""

    kind: bytes
    """Equal for pods of one template."""
    first: str
    """Namespace and name of the one that has waited longest."""
    since: datetime
    """Since when that one has waited."""
    count: int = 1


@dataclass(frozen=True, slots=True)
class ElasticPool:
    """A pool to and from which nodes move."""

    name: str
    size: PoolSize
    demand: DemandPolicy
    waiting: tuple[WaitingPods, ...] = ()
    refusal: str = ""
    """Why none of its changes may begin now; empty where they may."""
    accepted: str = ""
    """Hash of the move to it that a user accepted."""


@dataclass(frozen=True, slots=True)
class IdleNodeMove:
    """A move of a node from one pool to another."""

    node: str
    source: str
    target: str
    pods: WaitingPods
    """The pods for which it moves."""
    waits_for: str = ""
    """What keeps it from being made now; empty where it is made."""

    @property
    def hash(self) -> str:
        """Hash by which a user accepts this move."""
        text = "/".join((self.node, self.source, self.target))
        return hashlib.sha256(text.encode()).hexdigest()[:_HASH_CHARACTERS]


NOT_ACCEPTED = "a user accepts it"
Fits = Callable[[bytes, str, str], bool]
"""Tells whether pods of a kind would run on a node without GPU pods, as a member of a pool."""


def find_moves(
    pools: Collection[ElasticPool], nodes: Collection[ClaimedNode], fits: Fits, now: datetime
) -> tuple[list[IdleNodeMove], datetime | None]:
    """Find the next move to each pool, and the time at which to look again; None without any.

    `nodes` are where they are assigned to.
    """
    pools = [_leave_out(pool, nodes, fits) for pool in pools]
    by_name = {pool.name: pool for pool in pools}
    count = Counter(node.pool for node in nodes)
    serving = Counter(node.pool for node in nodes if node.is_serving)
    used = {name for node in nodes if node.is_coming for name in (node.pool, node.source)}
    moves, due = [], list(_list_times(by_name, nodes, now))
    waiting = [pool for pool in pools if pool.waiting]
    for pool in sorted(waiting, key=lambda pool: (min(w.since for w in pool.waiting), pool.name)):
        is_full = pool.size.max is not None and count[pool.name] >= pool.size.max
        if is_full or pool.name in used:
            continue
        pods = [each for each in pool.waiting if each.since + pool.demand.pending_time <= now]
        sources = {
            other.name
            for other in pools
            if other.name not in used and not other.waiting and serving[other.name] > other.size.min
        }
        there = (node for node in nodes if node.pool in sources and pool.name in node.claimants)
        idle = (node for node in there if _is_idle(node, by_name[node.pool], now))
        for node in sorted(idle, key=_sort) if pods else ():
            found = next((p for p in pods if fits(p.kind, node.name, pool.name)), None)
            if found is not None:
                source = by_name[node.pool]
                moves.append(_build_move(node, source, pool, found))
                used |= {source.name, pool.name}
                break
    return moves, min(due, default=None)


def _leave_out(pool: ElasticPool, nodes: Collection[ClaimedNode], fits: Fits) -> ElasticPool:
    """Leave the pods out for which no move would help: an idle node of the pool would run them, so
    that they wait for something else, or no node would that the pool claims."""
    if not pool.waiting:
        return pool
    name = pool.name
    claimed = [node.name for node in nodes if name in node.claimants]
    own = [node.name for node in nodes if node.pool == name and node.idle_since]
    helped = tuple(
        each
        for each in pool.waiting
        if not any(fits(each.kind, node, name) for node in own)
        and any(fits(each.kind, node, name) for node in claimed)
    )
    return replace(pool, waiting=helped)


def _build_move(
    node: ClaimedNode, source: ElasticPool, target: ElasticPool, pods: WaitingPods
) -> IdleNodeMove:
    move = IdleNodeMove(node.name, source.name, target.name, pods, target.refusal or source.refusal)
    is_automatic = {source.demand.mode, target.demand.mode} == {DemandMode.AUTOMATIC}
    if move.waits_for or is_automatic or target.accepted == move.hash:
        return move
    return replace(move, waits_for=NOT_ACCEPTED)


def _is_idle(node: ClaimedNode, pool: ElasticPool, now: datetime) -> bool:
    since = node.idle_since
    return node.may_move and since is not None and since + pool.demand.idle_time <= now


def _sort(node: ClaimedNode) -> tuple[object, ...]:
    return node.idle_since, node.name


def _list_times(
    pools: Mapping[str, ElasticPool], nodes: Collection[ClaimedNode], now: datetime
) -> Iterator[datetime]:
    """List the later times at which a pod has waited, or a node been idle, for long enough."""
    if not any(pool.waiting for pool in pools.values()):
        return
    waiting = ((pool, each) for pool in pools.values() for each in pool.waiting)
    times = [each.since + pool.demand.pending_time for pool, each in waiting]
    times += [
        node.idle_since + pools[node.pool].demand.idle_time
        for node in nodes
        if node.idle_since is not None and node.pool in pools
    ]
    yield from (time for time in times if time > now)
