"""Measures the GPU memory that a node offers, and how much of it is allocated.

Two ledgers count it: pods' requests, which kube-scheduler sums per node, and the GPU scheduler's
annotations of pods, card by card (`gpushare.core.capacity.cards`). A pod must fit by both.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.k8s.resources.host import UNLIMITED, HostResources
from gpushare.api.k8s.taint import Taint, Tolerations
from gpushare.core.capacity.cards import CardMemory, count_used, measure_cards
from gpushare.core.capacity.demand import NodeSize, read_amount
from gpushare.core.capacity.taints import list_untolerated
from gpushare.editions.registry import EDITIONS, find_edition

MIB_PER_GIB = 1024
MIB_PER_UNIT = {"GiB": MIB_PER_GIB, "MiB": 1}
UNIT_BYTES = {unit: mib * 2**20 for unit, mib in MIB_PER_UNIT.items()}
_NVIDIAS = (names.RESOURCE_WHOLE_GPU, names.RESOURCE_SHARED_GPU)


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    """One node's share of its pool's capacity; memory in the plugin's unit."""

    gpus: int = 0
    total: int = 0
    allocated: int = 0
    """Memory allocated by the GPU scheduler's ledger, on cards that the node has."""
    requested: int = 0
    """Memory that the pods bound to the node request."""
    free_blocks: tuple[int, ...] = ()
    """Free memory of each card, in sum no more than kube-scheduler has left on the node; empty
    where the node is cordoned or not Ready."""
    free_pods: int | None = None
    """How many more pods the cards with free memory take; None where only memory limits that."""
    requests: tuple[int, ...] = ()
    """Memory that each live pod requests of one card."""
    used: Mapping[int, int] = field(default_factory=dict)
    """Memory allocated by the ledger, by index of the card, also on cards that the node lacks."""
    card_total: int = 0
    """Memory of one card: all cards of a node count as equal."""
    is_extended: bool = False
    """Whether a scheduler extender allocates the cards."""
    gpu_resources: tuple[str, ...] = ()
    """Resources in place of memory that the node offers: nvidia.com/gpu, nvidia.com/gpu.shared."""
    compute: int = 0
    """The `aliyun.com/gpu-core.percentage` that the node offers, in percent."""
    host: HostResources = UNLIMITED
    taints: tuple[Taint, ...] = ()
    """The node's taints that pods of its pool do not tolerate."""

    @property
    def unit(self) -> str:
        """The unit in which the node's plugin counts; empty where it offers no memory."""
        return tell_unit(self.card_total) if self.card_total else ""

    @property
    def size(self) -> NodeSize:
        """The node's resources without pods; meaningful only where it offers memory."""
        return NodeSize(self.gpus, self.card_total, self.is_extended, self.compute, self.host)


def tell_unit(card_total: int) -> str:
    """Return the unit, GiB or MiB, of a device plugin that reports `card_total` for one card.

    The unit is not written anywhere. 1024 or more is MiB, since no card has a tebibyte, and none
    has less than a gibibyte.
    """
    return "MiB" if card_total >= MIB_PER_GIB else "GiB"


def observe_node_capacity(
    node: Node,
    pods: Sequence[Pod],
    unhealthy: Collection[int] = (),
    tolerations: Tolerations = (),
) -> NodeCapacity:
    """Measure the capacity of `node`, on which `pods` run, with these `unhealthy` cards."""
    cards = measure_cards(node, pods, unhealthy)
    return sum_node_capacity(node, pods, cards, tolerations)


def sum_node_capacity(
    node: Node, pods: Sequence[Pod], cards: Sequence[CardMemory], tolerations: Tolerations = ()
) -> NodeCapacity:
    """Sum the capacity of `node`, on which `pods` run, over its measured `cards`.

    A card that is allocated twice has nothing free, and all that pods hold of it counts. Without
    its device plugin a node still shows its number of cards, but no memory. `tolerations` are those
    that the node's pool adds to pods.
    """
    total = node.allocatable.get(names.RESOURCE_GPU_MEMORY, 0)
    gpus = node.gpu_count if total else _count_whole_cards(node)
    asking = [pod for pod in pods if pod.gpu_memory and pod.is_live]
    used = count_used(asking)
    edition = find_edition(node.labels)
    is_extended = edition is not None and EDITIONS[edition].has_scheduler_extender
    takes_pods = node.ready and not node.unschedulable
    requested = sum([pod.gpu_memory for pod in asking])
    free = _limit([card.free for card in cards], total - requested) if takes_pods else ()
    free_pods = None
    if free and cards[0].free_pods is not None:
        free_pods = sum([card.free_pods or 0 for card, n in zip(cards, free, strict=True) if n])
    held_cards = used
    if cards:
        # A pod that the node is too small for never starts there: somebody set its nodeName.
        size = NodeSize(len(cards), cards[0].total, is_extended)
        holding = [p for p in asking if p.phase != "Pending" or read_amount(p).fits(size)]
        if len(holding) < len(asking):
            asking, held_cards = holding, count_used(holding)
            requested = sum([pod.gpu_memory for pod in holding])
    is_known = node.gpu_count > 0
    return NodeCapacity(
        gpus,
        total,
        sum([n for card, n in held_cards.items() if card < node.gpu_count or not is_known]),
        requested,
        free,
        free_pods,
        tuple([pod.gpu_memory_per_card(is_extended=is_extended) for pod in asking]),
        used,
        cards[0].total if cards else 0,
        is_extended,
        () if total else tuple([name for name in _NVIDIAS if node.allocatable.get(name)]),
        node.allocatable.get(names.RESOURCE_GPU_CORE, 0),
        node.host,
        list_untolerated(node.taints, tolerations) if node.taints else (),
    )


def _limit(blocks: Sequence[int], limit: int) -> tuple[int, ...]:
    """Cut `blocks` so that their sum is at most `limit`, the smallest first."""
    if sum(blocks) <= limit:
        return tuple(blocks)
    limited = [0] * len(blocks)
    for card in sorted(range(len(blocks)), key=lambda card: -blocks[card]):
        limited[card] = max(min(blocks[card], limit), 0)
        limit -= limited[card]
    return tuple(limited)


def _count_whole_cards(node: Node) -> int:
    """Count the cards of a node that offers no memory, by the resource of its plugin if there is
    one: time slices and MPS clients count as cards, too."""
    offered = node.allocatable
    return (
        offered.get(names.RESOURCE_WHOLE_GPU, 0)
        or offered.get(names.RESOURCE_SHARED_GPU, 0)
        or offered.get(names.RESOURCE_TOPOLOGY_GPU, 0)
        or node.gpu_count
    )
