"""Sums what the nodes of a pool offer, and how much of it is allocated.

Two ledgers tell: what pods ask for, which kube-scheduler counts per node, and what the GPU
scheduler wrote on them, card by card (`gpushare.core.capacity.cards`). A pod must fit by both.

Amounts are in the device plugin's unit until they are summed up: GiB, or MiB where the plugin runs
with `--memory-unit=MiB`. A node whose plugin was set to another than the rest is summed up by its
own.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.status import FreeBlock, MemoryUnit, PoolCapacity
from gpushare.core.capacity.cards import count_used, measure_cards
from gpushare.editions.registry import EDITIONS, find_edition

MIB_PER_GIB = 1024
MIB_PER_UNIT = {"GiB": MIB_PER_GIB, "MiB": 1}
MAX_FIGURE = 2**40
"""A pod may ask for any number; the status takes no more than 64 bits."""
_NVIDIAS = (names.RESOURCE_WHOLE_GPU, names.RESOURCE_SHARED_GPU)
MAX_FREE_BLOCKS = 20
"""Amounts of free memory that a status tells apart."""


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
    where the node takes no pods."""
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

    @property
    def unit(self) -> str:
        """What its plugin counts in; empty where it offers no memory to tell by."""
        return tell_unit(self.card_total) if self.card_total else ""


@dataclass(frozen=True, slots=True)
class Memory:
    """The GPU memory of some nodes together, and their cards."""

    unit: str = "GiB"
    """The smallest that one of the nodes counts in; all sums are in it."""
    gpus: int = 0
    total: int = 0
    allocated: int = 0
    requested: int = 0
    largest_free: int = 0
    """What the emptiest card has free on a node that takes pods."""
    stranded: int = 0


def observe_node_capacity(
    node: Node, pods: Sequence[Pod], unhealthy: Collection[int] = ()
) -> NodeCapacity:
    """Measure the capacity of `node`, on which `pods` run, with these `unhealthy` cards.

    A card that is given out twice has nothing free, and what pods hold of it counts all the same.
    The number of cards survives the device plugin, the memory is gone with it.
    """
    total = node.allocatable.get(names.RESOURCE_GPU_MEMORY, 0)
    gpus = node.gpu_count if total else _count_whole_cards(node)
    used = count_used(pods)
    asking = [pod for pod in pods if pod.gpu_memory and pod.is_live]
    requested = sum(pod.gpu_memory for pod in asking)
    cards = measure_cards(node, pods, unhealthy)
    edition = find_edition(node.labels)
    is_extended = edition is not None and EDITIONS[edition].has_scheduler_extender
    takes_pods = node.ready and not node.unschedulable
    free = _limit([card.free for card in cards], total - requested) if takes_pods else ()
    is_limited = bool(free) and cards[0].free_pods is not None
    free_pods = [card.free_pods or 0 for card, block in zip(cards, free, strict=False) if block]
    return NodeCapacity(
        gpus,
        total,
        sum(units for card, units in used.items() if card < node.gpu_count or not node.gpu_count),
        requested,
        free,
        sum(free_pods) if is_limited else None,
        tuple([pod.gpu_memory_per_card(is_extended=is_extended) for pod in asking]),
        used,
        cards[0].total if cards else 0,
        is_extended,
        () if total else tuple([name for name in _NVIDIAS if node.allocatable.get(name)]),
    )


def _limit(blocks: Sequence[int], left: int) -> tuple[int, ...]:
    """Cut `blocks` to no more than `left` together: the largest stays largest."""
    limited = [0] * len(blocks)
    for card in sorted(range(len(blocks)), key=lambda card: -blocks[card]):
        limited[card] = max(min(blocks[card], left), 0)
        left -= limited[card]
    return tuple(limited)


def observe_pending(pod: Pod) -> NodeCapacity:
    """Measure what a pod without a node asks of its pool, as a node that offers nothing."""
    asked = pod.gpu_memory_per_card(is_extended=False)
    return NodeCapacity(requested=pod.gpu_memory, requests=(asked,))


def sum_capacity(
    nodes: Iterable[NodeCapacity], pending: Iterable[Pod], now: datetime
) -> PoolCapacity:
    """Sum the capacity of a pool with these nodes; `pending` pods select it without a node."""
    nodes, sums = list(nodes), MemorySums()
    for each in chain(nodes, (observe_pending(pod) for pod in pending if pod.gpu_memory)):
        sums.count(each)
    memory = sums.sum_up()
    totals = [node.card_total for node in nodes]
    is_limited = all(node.free_pods is not None for node in nodes if any(node.free_blocks))
    slots = [node.free_pods for node in nodes if node.free_pods is not None]
    per_gib = MIB_PER_GIB // MIB_PER_UNIT[memory.unit]
    total, allocated = memory.total // per_gib, memory.allocated // per_gib
    return PoolCapacity(
        summary=f"{allocated}/{total}",
        observed_at=now.replace(microsecond=0),
        gpus=memory.gpus,
        memory_total=total,
        memory_allocated=allocated,
        memory_requested=memory.requested // per_gib,
        largest_free_block=memory.largest_free // per_gib,
        stranded_memory=memory.stranded // per_gib,
        unit=sums.usual_unit,
        largest_card=max(totals, default=0) if all(totals) else 0,
        free_blocks=_count_blocks(chain.from_iterable(node.free_blocks for node in nodes)),
        free_pods=sum(slots) if slots and is_limited else None,
    )


class MemorySums:
    """The GPU memory of a pool, whose nodes and pending pods come, change and go.

    Each of them costs the same, however many others there are.
    """

    def __init__(self) -> None:
        self._by_unit = {unit: _Sums() for unit in ("", *MIB_PER_UNIT)}

    @property
    def is_empty(self) -> bool:
        """Whether all that was added is removed again."""
        return not any(sums.count for sums in self._by_unit.values())

    @property
    def usual_unit(self) -> MemoryUnit:
        """What most of the nodes count in."""
        return find_usual_unit([self])

    def count_nodes(self, unit: str) -> int:
        """Return how many nodes are known to count in `unit`."""
        return self._by_unit[unit].count

    def count(self, node: NodeCapacity, times: int = 1) -> None:
        """Count a node, or a pod by `observe_pending`; with -1 no more."""
        self._by_unit[node.unit].count_in(node, times)

    def sum_up(self) -> Memory:
        """Sum the memory of the nodes.

        Memory is stranded where a card has less of it free than the pool's median pod asks of one.
        Pending pods, and those on a node that offers no memory, are counted in most nodes' unit.
        """
        usual = self.usual_unit
        unit = min(
            [usual, *(unit for unit in MIB_PER_UNIT if self.count_nodes(unit))],
            key=MIB_PER_UNIT.__getitem__,
        )
        scaled = [
            (sums, MIB_PER_UNIT[own or usual] // MIB_PER_UNIT[unit])
            for own, sums in self._by_unit.items()
        ]
        asked: Counter[int] = Counter()
        free: Counter[int] = Counter()
        for sums, factor in scaled:
            asked.update({amount * factor: n for amount, n in sums.requests.items()})
            free.update({amount * factor: n for amount, n in sums.free_blocks.items()})
        median = _find_median(asked)
        return Memory(
            unit=unit,
            gpus=sum(sums.gpus for sums, _ in scaled),
            total=sum(sums.total * factor for sums, factor in scaled),
            allocated=sum(sums.allocated * factor for sums, factor in scaled),
            requested=min(sum(sums.requested * factor for sums, factor in scaled), MAX_FIGURE),
            largest_free=max(free, default=0),
            stranded=sum(amount * n for amount, n in free.items() if amount < median),
        )


@dataclass(slots=True)
class _Sums:
    """The sums of nodes whose plugins count in the same unit."""

    count: int = 0
    gpus: int = 0
    total: int = 0
    allocated: int = 0
    requested: int = 0
    free_blocks: dict[int, int] = field(default_factory=dict)
    """Cards, by how much each has free."""
    requests: dict[int, int] = field(default_factory=dict)
    """Pods, by how much each asks of one card."""

    def count_in(self, node: NodeCapacity, times: int) -> None:
        self.count += times
        self.gpus += node.gpus * times
        self.total += node.total * times
        self.allocated += node.allocated * times
        self.requested += node.requested * times
        for counts, amounts in (
            (self.free_blocks, node.free_blocks),
            (self.requests, node.requests),
        ):
            for amount in amounts:
                count = counts.get(amount, 0) + times
                if count:
                    counts[amount] = count
                else:
                    del counts[amount]


def tell_unit(card_total: int) -> str:
    """Find the unit in which a device plugin counts by which a card has so much: GiB or MiB.

    That is not written anywhere: a card with 1024 or more is counted in MiB, since none has a
    tebibyte and none less than a gibibyte.
    """
    return "MiB" if card_total >= MIB_PER_GIB else "GiB"


def find_usual_unit(pools: Collection[MemorySums]) -> MemoryUnit:
    """Find the unit of most nodes in these pools: it is meant to be one for the cluster."""
    in_mib, in_gib = (sum(pool.count_nodes(unit) for pool in pools) for unit in ("MiB", "GiB"))
    return "MiB" if in_mib > in_gib else "GiB"


def _count_blocks(blocks: Iterable[int]) -> tuple[FreeBlock, ...]:
    """Count cards by free memory; of many amounts, round those between the kept ones down."""
    counts = Counter(block for block in blocks if block)
    amounts = sorted(counts, reverse=True)
    if len(amounts) <= MAX_FREE_BLOCKS:
        return tuple(FreeBlock(size=amount, cards=counts[amount]) for amount in amounts)
    last = len(amounts) - 1
    kept = [amounts[step * last // (MAX_FREE_BLOCKS - 1)] for step in range(MAX_FREE_BLOCKS)]
    rounded: Counter[int] = Counter()
    for amount in amounts:
        rounded[next(lower for lower in kept if lower <= amount)] += counts[amount]
    return tuple(FreeBlock(size=amount, cards=rounded[amount]) for amount in kept)


def _find_median(counts: Mapping[int, int]) -> int:
    """Find the lower median: an amount that a pod really asks for; 0 where none does.

    `counts` says how many pods ask for each amount.
    """
    left = (sum(counts.values()) + 1) // 2
    for amount in sorted(counts):
        left -= counts[amount]
        if left <= 0:
            return amount
    return 0


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
