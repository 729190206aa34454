"""One pass: the whole world in, what is to be done to every node and pool out."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from gpushare.api.node import Node
from gpushare.api.pod import Pod
from gpushare.api.pool import Pool
from gpushare.core.actions import NodePlan, NodeState
from gpushare.core.member import plan_leaving, plan_member
from gpushare.core.membership import Claim, decide_claim, find_owner
from gpushare.core.records import NodeRecords, RecordError, Step, parse_records
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
    claims: dict[str, Claim] = {}
    leaving: defaultdict[str, list[NodePlan]] = defaultdict(list)
    held: set[str] = set()
    """Pools that nodes still remember."""
    observed: dict[str, Observed] = {}
    for name in sorted(world.nodes):
        node = world.nodes[name]
        try:
            records = parse_records(node)
        except RecordError as error:
            claim = decide_claim(node, pools)
            for pool in (claim.winner, *claim.losers) if claim else ():
                members[pool.name].append(
                    NodePlan(name, NodeState.BLOCKED, Reason.RECORD_UNREADABLE, str(error))
                )
            continue
        seen = Observed(node, world.pods.get(name, ()), records, name in world.zeroed)
        observed[name] = seen
        remembered = _remembered_pools(node, records)
        held |= remembered
        if remembered & world.unreadable_pools:
            continue
        if claim := decide_claim(node, pools):
            claims[name] = claim
        elif name not in world.busy and (plan := plan_leaving(seen, now, timing)):
            leaving[min(remembered, default="")].append(plan)
    adopt = tuple(p for p in pools if not p.deleting and not p.has_our_finalizer)
    for pool in pools:
        mine = [name for name, claim in claims.items() if claim.winner.name == pool.name]
        unavailable = {name for name in mine if _is_unavailable(observed[name], world.busy)}
        for name in mine:
            slot_free = len(unavailable - {name}) < MAX_UNAVAILABLE
            plan = plan_member(
                observed[name],
                pool,
                daemonsets=world.daemonsets,
                slot_free=slot_free,
                now=now,
                timing=timing,
            )
            if plan.takes_slot:
                unavailable.add(name)
            members[pool.name].append(plan)
            for loser in claims[name].losers:
                members[loser.name].append(_lost(name, pool, loser))
    return Plan(
        members={
            name: tuple(sorted(plans, key=lambda p: p.node)) for name, plans in members.items()
        },
        leaving={name: tuple(plans) for name, plans in leaving.items()},
        adopt=adopt,
        release=tuple(
            p for p in pools if p.deleting and p.has_our_finalizer and p.name not in held
        ),
    )


def _is_unavailable(seen: Observed, busy: frozenset[str]) -> bool:
    """Out of service, whoever did it; a node that joins never was in service."""
    change = seen.records.change
    if change is not None and change.joining and change.step is not Step.DEFERRED:
        return False
    under_way = change is not None and change.is_under_way
    return under_way or not seen.node.ready or seen.node.unschedulable or seen.node.name in busy


def _remembered_pools(node: Node, records: NodeRecords) -> set[str]:
    """Pools that `node` still carries something of."""
    remembered = {record.pool for record in (records.change, records.applied) if record is not None}
    if owner := find_owner(node):
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
