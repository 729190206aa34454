"""The pools that describe a cluster as it is, and what the planner says of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from gpushare import names
from gpushare.core.actions import NodeState
from gpushare.core.adoption.carried import (
    Carried,
    read_carried,
    remark_on_placement,
)
from gpushare.core.adoption.foresight import Foreseen, foresee
from gpushare.core.adoption.grouping import AdoptedPool, Labelled, group_nodes
from gpushare.core.adoption.remarks import Code, Remark, gather, remark
from gpushare.core.membership import decide_claim, find_owner
from gpushare.core.world import World, judge


@dataclass(frozen=True, slots=True)
class Description:
    """Pools that describe a cluster, by name, and what is to be said beside them."""

    pools: tuple[AdoptedPool, ...]
    remarks: tuple[Remark, ...]


@dataclass(frozen=True, slots=True)
class Proof:
    """What would become of the nodes if the pools were created."""

    foreseen: tuple[Foreseen, ...]
    remarks: tuple[Remark, ...]

    @property
    def changes(self) -> tuple[Foreseen, ...]:
        """The nodes to which something would happen."""
        return tuple(each for each in self.foreseen if not each.is_empty)


def describe_world(world: World, node_pool_label: str) -> Description:
    """The pools of all nodes of `world` that carry a mode's label and are in no pool."""
    labelled, left_out = sort_nodes(world, node_pool_label)
    pools, said = group_nodes(labelled)
    placements = (
        remark_on_placement(world.nodes[node], carried)
        for node, carried in labelled.carried.items()
    )
    told = [*left_out, *said, *(each for each in placements if each is not None)]
    return Description(pools, gather(told))


def prove(world: World, pools: Sequence[AdoptedPool], now: datetime) -> Proof:
    """What the planner would do in `world`, in which these pools were created."""
    foreseen = foresee(world, {pool.name for pool in pools}, now)
    return Proof(foreseen, gather(_remark_on_troubles(foreseen)))


def sort_nodes(world: World, node_pool_label: str) -> tuple[Labelled, tuple[Remark, ...]]:
    """The nodes that pools are for, and why each other GPU node is left out."""
    carried: dict[str, Carried] = {}
    left_out: list[Remark] = []
    for name, node in world.nodes.items():
        found = find_pool(world, name) or read_carried(node)
        if isinstance(found, Carried):
            carried[name] = found
        elif isinstance(found, Remark):
            left_out.append(found)
        elif node.has_gpus:
            message = "there are GPUs and no label of a mode; a pool would write one"
            left_out.append(remark(Code.UNLABELLED, name, message))
    labelled = Labelled(
        nodes=world.nodes,
        carried=carried,
        kept_out={n for each in left_out if each.code is not Code.UNLABELLED for n in each.names},
        pool_names={pool.name for pool in world.pools} | world.unreadable_pools,
        node_pool_label=node_pool_label,
    )
    return labelled, tuple(left_out)


def find_pool(world: World, name: str) -> Remark | None:
    """That a pool has the node already, or may have it."""
    judged = judge(world, name)
    node = judged.seen.node
    remembered = judged.remembered_pools | {node.labels.get(names.LABEL_POOL, "")}
    if unreadable := sorted(remembered & world.unreadable_pools):
        message = f"perhaps in pool {unreadable[0]}, whose spec can't be read"
        return remark(Code.POOL_UNREADABLE, name, message)
    claim = decide_claim(node, find_owner(node, judged.seen.records), world.pools)
    if claim is None:
        return None
    return remark(Code.IN_POOL, name, f"in pool {claim.winner.name} already")


def _remark_on_troubles(foreseen: Sequence[Foreseen]) -> Iterator[Remark]:
    """Nodes that would not be ready, although nothing would be done to them."""
    for each in foreseen:
        if each.plan.state is not NodeState.READY and each.plan.kind is None:
            message = f"the pool would not be Ready: {each.plan.reason}: {each.plan.message}"
            yield remark(Code.NOT_READY, each.node, message)
