"""Builds the pools that describe a cluster as it is, and what the planner would do for them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from gpushare import names
from gpushare.analysis.adoption.existing_labels import (
    Carried,
    note_placement,
    read_carried,
)
from gpushare.analysis.adoption.grouping import AdoptedPool, Labelled, group_nodes
from gpushare.analysis.adoption.notes import AdoptionCode, Note, gather, note
from gpushare.analysis.adoption.simulation import Simulated, simulate
from gpushare.core.ownership.claims import (
    decide_claim,
    find_cardless_pools,
    find_owner,
    is_cardless,
)
from gpushare.core.records.node_records import NodeRecords
from gpushare.core.sizing.sized_pools import assign
from gpushare.core.snapshot.actions import NodeState
from gpushare.core.snapshot.cluster import ClusterSnapshot, build_node_context


@dataclass(frozen=True, slots=True)
class Description:
    """Pools that describe a cluster, by name, and notes on them."""

    pools: tuple[AdoptedPool, ...]
    notes: tuple[Note, ...]


@dataclass(frozen=True, slots=True)
class Proof:
    """The changes to nodes that creating the pools would cause."""

    simulated: tuple[Simulated, ...]
    notes: tuple[Note, ...]

    @property
    def changes(self) -> tuple[Simulated, ...]:
        """The nodes to which something would happen."""
        return tuple(each for each in self.simulated if not each.is_empty)


def describe_snapshot(snapshot: ClusterSnapshot, node_pool_label: str) -> Description:
    """Describe all nodes of `snapshot` that carry a mode's label and are in no pool, by pools."""
    labelled, left_out = sort_nodes(snapshot, node_pool_label)
    pools, said = group_nodes(labelled)
    placements = [note_placement(snapshot.nodes[n], each) for n, each in labelled.carried.items()]
    return Description(pools, gather((*left_out, *said, *filter(None, placements))))


def prove(snapshot: ClusterSnapshot, pools: Sequence[AdoptedPool], now: datetime) -> Proof:
    """Plan for `snapshot`, in which these pools were created.

    Its notes are of nodes that would not be ready, although nothing would be done to them.
    """
    simulated = simulate(snapshot, {pool.name for pool in pools}, now)
    unready = [
        note(
            AdoptionCode.NOT_READY,
            each.node,
            f"the pool would not be Ready: {plan.reason}: {plan.message}",
        )
        for each in simulated
        if (plan := each.plan).state is not NodeState.READY and plan.kind is None
    ]
    return Proof(simulated, gather(unready))


def sort_nodes(
    snapshot: ClusterSnapshot, node_pool_label: str
) -> tuple[Labelled, tuple[Note, ...]]:
    """Sort the nodes: those that pools are for, and why each other GPU node is left out."""
    carried: dict[str, Carried] = {}
    left_out: list[Note] = []
    snapshot = assign(snapshot)
    for name, node in snapshot.nodes.items():
        found = find_pool(snapshot, name) or read_carried(node)
        if isinstance(found, Carried) and is_cardless(node, NodeRecords()):
            found = note(
                AdoptionCode.NO_GPU_ON_NODE,
                name,
                f"is {found}, but nothing shows that it has a GPU",
            )
        if isinstance(found, Carried):
            carried[name] = found
        elif isinstance(found, Note):
            left_out.append(found)
        elif node.has_gpus:
            left_out.append(
                note(
                    AdoptionCode.UNLABELLED,
                    name,
                    "has GPUs but no mode label, which a pool would set",
                )
            )
    labelled = Labelled(
        nodes=snapshot.nodes,
        carried=carried,
        kept_out={
            n for each in left_out if each.code is not AdoptionCode.UNLABELLED for n in each.names
        },
        pool_names={pool.name for pool in snapshot.pools} | snapshot.unreadable_pools,
        node_pool_label=node_pool_label,
    )
    return labelled, tuple(left_out)


def find_pool(snapshot: ClusterSnapshot, name: str) -> Note | None:
    """Note that a pool has the node already, or may have it; else None."""
    context = build_node_context(snapshot, name)
    node = context.seen.node
    remembered = context.remembered_pools | {node.labels.get(names.LABEL_POOL, "")}
    if unreadable := sorted(remembered & snapshot.unreadable_pools):
        message = f"may be in pool {unreadable[0]}, whose spec can't be read"
        return note(AdoptionCode.POOL_UNREADABLE, name, message)
    pool = find_claimant(snapshot, name)
    return note(AdoptionCode.IN_POOL, name, f"already in pool {pool}") if pool else None


def find_claimant(snapshot: ClusterSnapshot, name: str) -> str:
    """Find the pool that has the node, or gets it; empty where none does.

    The nodes of `snapshot` are assigned to pools with a size.
    """
    context = build_node_context(snapshot, name)
    node, records, pools = context.seen.node, context.seen.records, snapshot.pools
    cardless = find_cardless_pools(node, records, context.seen.resource_slices, pools)
    acting = [pool for pool in pools if pool.name not in cardless]
    claim = decide_claim(node, find_owner(node, records), acting, context.assigned)
    return claim.winner.name if claim is not None else ""
