"""Measures what a node offers, and how much of it is allocated.

Two ledgers tell: what pods ask for, which kube-scheduler counts per node, and what the GPU
scheduler wrote on them, card by card (`gpushare.core.capacity.cards`). A pod must fit by both.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.k8s.resources.host import UNLIMITED, HostResources
from gpushare.api.k8s.taint import Taint, Tolerations
from gpushare.core.capacity.cards import count_used, measure_cards
from gpushare.core.capacity.demand import NodeSize, read_amount
from gpushare.core.capacity.taints import list_untolerated
from gpushare.editions.registry import EDITIONS, find_edition

MIB_PER_GIB = 1024
MIB_PER_UNIT = {"GiB": MIB_PER_GIB, "MiB": 1}
_NVIDIAS = (names.RESOURCE_WHOLE_GPU, names.RESOURCE_SHARED_GPU)


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    """One node's share of its pool's capacity; memory in the plugin's unit."""

    gpus: int = 0
    total: int = 0
    allocated: int = 0
    """By the GPU scheduler's ledger, on cards that the node has."""
    requested: int = 0
    """By the resources of the pods that are bound to the node."""
    free_blocks: tuple[int, ...] = ()
    """Free memory of each card, together no more than kube-scheduler has left on the node; none
    where the node is cordoned or not Ready."""
    free_pods: int | None = None
    """How many more pods those cards take; None where nothing but their memory limits that."""
    requests: tuple[int, ...] = ()
    """What each live pod asks of one card."""
    used: Mapping[int, int] = field(default_factory=dict)
    """What the ledger gives out, by index of the card, also of cards that the node has not."""
    card_total: int = 0
    """Memory of one card: all cards of a node count as equal."""
    is_extended: bool = False
    """A scheduler extender allocates the cards."""
    gpu_resources: tuple[str, ...] = ()
    """Of nvidia.com/gpu and nvidia.com/gpu.shared, what it offers in place of memory."""
    compute: int = 0
    """Percent of `aliyun.com/gpu-core.percentage` that it offers."""
    host: HostResources = UNLIMITED
    taints: tuple[Taint, ...] = ()
    """Those that its pool does not tolerate."""

    @property
    def unit(self) -> str:
        """What its plugin counts in; empty where it offers no memory to tell by."""
        return tell_unit(self.card_total) if self.card_total else ""

    @property
    def size(self) -> NodeSize:
        """What it has in all, where it offers memory."""
        return NodeSize(self.gpus, self.card_total, self.is_extended, self.compute, self.host)


def tell_unit(card_total: int) -> str:
    """Find the unit in which a device plugin counts by which a card has so much: GiB or MiB.

    That is not written anywhere: a card with 1024 or more is counted in MiB, since none has a
    tebibyte and none less than a gibibyte.
    """
    return "MiB" if card_total >= MIB_PER_GIB else "GiB"


def observe_node_capacity(
    node: Node,
    pods: Sequence[Pod],
    unhealthy: Collection[int] = (),
    tolerations: Tolerations = (),
) -> NodeCapacity:
    """Measure the capacity of `node`, on which `pods` run, with these `unhealthy` cards.

    A card that is given out twice has nothing free, and what pods hold of it counts all the same.
    The number of cards survives the device plugin, the memory is gone with it. Its pool adds these
    `tolerations` to pods.
    """
    total = node.allocatable.get(names.RESOURCE_GPU_MEMORY, 0)
    gpus = node.gpu_count if total else _count_whole_cards(node)
    used = count_used(pods)
    asking = [pod for pod in pods if pod.gpu_memory and pod.is_live]
    cards = measure_cards(node, pods, unhealthy)
    edition = find_edition(node.labels)
    is_extended = edition is not None and EDITIONS[edition].has_scheduler_extender
    takes_pods = node.ready and not node.unschedulable
    left = total - sum(pod.gpu_memory for pod in asking)
    free = _limit([card.free for card in cards], left) if takes_pods else ()
    is_limited = bool(free) and cards[0].free_pods is not None
    free_pods = [card.free_pods or 0 for card, block in zip(cards, free, strict=False) if block]
    held_cards = used
    if cards:
        # What the node is too small for never starts there: somebody set its nodeName.
        size = NodeSize(len(cards), cards[0].total, is_extended)
        holding = [p for p in asking if p.phase != "Pending" or read_amount(p).fits(size)]
        if len(holding) < len(asking):
            asking, held_cards = holding, count_used(holding)
    is_known = node.gpu_count > 0
    return NodeCapacity(
        gpus,
        total,
        sum([n for card, n in held_cards.items() if card < node.gpu_count or not is_known]),
        sum([pod.gpu_memory for pod in asking]),
        free,
        sum(free_pods) if is_limited else None,
        tuple([pod.gpu_memory_per_card(is_extended=is_extended) for pod in asking]),
        used,
        cards[0].total if cards else 0,
        is_extended,
        () if total else tuple([name for name in _NVIDIAS if node.allocatable.get(name)]),
        node.allocatable.get(names.RESOURCE_GPU_CORE, 0),
        node.host,
        list_untolerated(node.taints, tolerations) if node.taints else (),
    )


def _limit(blocks: Sequence[int], left: int) -> tuple[int, ...]:
    """Cut `blocks` to no more than `left` together: the largest stays largest."""
    limited = [0] * len(blocks)
    for card in sorted(range(len(blocks)), key=lambda card: -blocks[card]):
        limited[card] = max(min(blocks[card], left), 0)
        left -= limited[card]
    return tuple(limited)


def _count_whole_cards(node: Node) -> int:
    """Count a node's cards where memory is not given out; by its own plugin, if that tells:
    time slices and MPS clients count, too."""
    offered = node.allocatable
    return (
        offered.get(names.RESOURCE_WHOLE_GPU, 0)
        or offered.get(names.RESOURCE_SHARED_GPU, 0)
        or offered.get(names.RESOURCE_TOPOLOGY_GPU, 0)
        or node.gpu_count
    )
