"""One pass: the whole world in, what is to be done to every node and pool out."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from gpushare.api.node import Node
from gpushare.api.pod import Pod
from gpushare.api.pool import Pool
from gpushare.core.actions import NodePlan, NodeState
from gpushare.core.member import plan_leaving, plan_member
from gpushare.core.membership import decide_claim, find_owner
from gpushare.core.records import NodeRecords, RecordError, parse_records
from gpushare.core.rollout import Observed, Timing
from gpushare.names import Reason

MAX_UNAVAILABLE = 1
"""Members of a pool that may be out of service at once."""


@dataclass(frozen=True, slots=True)
class World:
    """Everything that a pass looks at. Complete: no cache in it is still being filled."""

    pools: tuple[Pool, ...] = ()
    unreadable_pools: frozenset[str] = frozenset()
    """Names of pools whose spec we can't read: their nodes are left exactly as they are."""
    nodes: Mapping[str, Node] = field(default_factory=dict)
    pods: Mapping[str, Sequence[Pod]] = field(default_factory=dict)
    """By node."""
    daemonsets: frozenset[str] = frozenset()
    busy: frozenset[str] = frozenset()
    """Nodes to which something is being done just now."""
    zeroed: frozenset[str] = frozenset()
    """Nodes whose resource was seen at zero during their change."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a pass decided; sorted, so that equal worlds give equal plans."""

    members: Mapping[str, tuple[NodePlan, ...]]
    """By pool, every node that it claims."""
    leaving: Mapping[str, tuple[NodePlan, ...]]
    """By pool, the nodes that it had and claims no more."""
    adopt: tuple[Pool, ...]
    """Pools that need our finalizer before anything is written for them."""
    release: tuple[Pool, ...]
    """Pools that are being deleted and have no node left."""


def plan_world(world: World, now: datetime, timing: Timing) -> Plan:
    """Decide everything anew, from what is."""
    pools = sorted(world.pools, key=lambda pool: pool.name)
    members: dict[str, list[NodePlan]] = {pool.name: [] for pool in pools}
    mine: defaultdict[str, list[_Judged]] = defaultdict(list)
    leaving: defaultdict[str, list[NodePlan]] = defaultdict(list)
    held: set[str] = set()
    """Pools whose nodes must still be given back."""
    for name in sorted(world.nodes):
        node = _judge(world, name)
        remembered = _remembered_pools(node.seen)
        if remembered & world.unreadable_pools:
            held |= remembered
            continue
        owner = find_owner(node.seen.node, node.seen.records)
        if claim := decide_claim(node.seen.node, owner, pools):
            mine[claim.winner.name].append(node)
            for loser in claim.losers:
                members[loser.name].append(_lost(name, claim.winner, loser))
            continue
        held |= remembered
        if (plan := _plan_left(node, now, timing)) is not None:
            leaving[min(remembered, default="")].append(plan)
    for pool in pools:
        members[pool.name] += _plan_members(pool, mine[pool.name], world, now, timing)
    return Plan(
        members={
            name: tuple(sorted(plans, key=lambda plan: plan.node))
            for name, plans in members.items()
        },
        leaving={name: tuple(plans) for name, plans in leaving.items()},
        adopt=tuple(p for p in pools if not p.deleting and not p.has_our_finalizer),
        release=tuple(
            p for p in pools if p.deleting and p.has_our_finalizer and p.name not in held
        ),
    )


@dataclass(frozen=True, slots=True)
class _Judged:
    """A node, and where its records can't be read the plan that leaves it alone."""

    seen: Observed
    is_busy: bool
    unreadable: NodePlan | None = None


def _judge(world: World, name: str) -> _Judged:
    node, pods, busy = world.nodes[name], world.pods.get(name, ()), name in world.busy
    try:
        return _Judged(Observed(node, pods, parse_records(node), name in world.zeroed), busy)
    except RecordError as error:
        plan = NodePlan(name, NodeState.BLOCKED, Reason.RECORD_UNREADABLE, str(error))
        return _Judged(Observed(node, pods, NodeRecords()), busy, plan)


def _plan_members(
    pool: Pool, nodes: Sequence[_Judged], world: World, now: datetime, timing: Timing
) -> Iterator[NodePlan]:
    """The plans for all nodes of `pool`; no more go out of service than its budget lets."""
    unavailable = {node.seen.node.name for node in nodes if _is_unavailable(node)}
    for node in nodes:
        name = node.seen.node.name
        others = unavailable - {name}
        try:
            plan = node.unreadable or plan_member(
                node.seen,
                pool,
                daemonsets=world.daemonsets,
                in_the_way=others if len(others) >= MAX_UNAVAILABLE else (),
                now=now,
                timing=timing,
            )
        except Exception as error:
            plan = _give_up_on(name, error)
        if plan.takes_slot:
            unavailable.add(name)
        yield _wait_if_busy(node, plan)


def _plan_left(node: _Judged, now: datetime, timing: Timing) -> NodePlan | None:
    """The plan for a node that no pool claims; None where nothing of ours is on it."""
    if node.unreadable is not None:
        return node.unreadable if _remembered_pools(node.seen) else None
    try:
        plan = plan_leaving(node.seen, now, timing)
    except Exception as error:
        return _give_up_on(node.seen.node.name, error)
    return None if plan is None else _wait_if_busy(node, plan)


def _give_up_on(node: str, error: Exception) -> NodePlan:
    """One node that can't be judged must stop neither the others nor the process."""
    message = f"not understood, and left alone; please report this: {error!r}"
    return NodePlan(node, NodeState.BLOCKED, Reason.INTERNAL_ERROR, message)


def _wait_if_busy(node: _Judged, plan: NodePlan) -> NodePlan:
    # What is being done to it just now is not seen yet: decided again when that is done.
    return replace(plan, action=None) if node.is_busy else plan


def _is_unavailable(node: _Judged) -> bool:
    """Out of service, whoever did it; a node that joins never was in service."""
    change = node.seen.records.change
    under_way = change is not None and change.is_under_way
    if change is not None and under_way and change.joining:
        return False
    in_service = node.seen.node.ready and not node.seen.node.unschedulable
    return under_way or not in_service or node.is_busy


def _remembered_pools(seen: Observed) -> set[str]:
    """Pools that the node still carries something of."""
    records = (seen.records.change, seen.records.applied)
    remembered = {record.pool for record in records if record is not None}
    if owner := find_owner(seen.node, seen.records):
        remembered.add(owner)
    return remembered


def _lost(node: str, winner: Pool, loser: Pool) -> NodePlan:
    if winner.spec.priority > loser.spec.priority:
        why = f"its priority is higher ({winner.spec.priority} > {loser.spec.priority})"
    else:
        why = "it had the node first (equal priority)"
    return NodePlan(
        node,
        NodeState.BLOCKED,
        Reason.OWNED_BY_OTHER_POOL,
        f"belongs to pool {winner.name}: {why}; change a priority, or exclude the node in one",
    )
