"""What the nodes of a pool offer, and what of it is given out.

Two ledgers tell: what pods ask for, which kube-scheduler counts per node, and what the GPU
scheduler wrote on them, card by card. Amounts are in the device plugin's unit until they are summed
up: GiB, or MiB where the plugin runs with `--memory-unit=MiB`. A node whose plugin was set to
another than the rest is summed up by its own.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from gpushare import names
from gpushare.api.node import MAX_CARDS, Node
from gpushare.api.pod import Pod

MIB_PER_GIB = 1024
MIB_PER_UNIT = {"GiB": MIB_PER_GIB, "MiB": 1}
MAX_FIGURE = 2**40
"""A pod may ask for any number; the status takes no more than 64 bits."""
MAX_FREE_BLOCKS = 20
"""Amounts of free memory that a status tells apart."""


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    """One node's share of its pool's capacity; memory in the plugin's unit."""

    gpus: int = 0
    total: int = 0
    allocated: int = 0
    """By the GPU scheduler's ledger, on whatever card it names."""
    requested: int = 0
    """By the resources of the pods that are bound to the node."""
    free_blocks: tuple[int, ...] = ()
    """Free memory of each card; none where the node takes no pods."""
    requests: tuple[int, ...] = ()
    """What each live pod asks of one card."""

    @property
    def card_total(self) -> int:
        """Memory of one card: all cards of a node count as equal."""
        return self.total // self.gpus if self.gpus else 0

    def find_unit(self, usual: str) -> str:
        """What its plugin counts in: `usual` where it offers no memory to tell by."""
        return tell_unit(self.card_total) if self.card_total else usual

    def scale(self, factor: int) -> "NodeCapacity":
        """The same in a unit that is so many times smaller."""
        if factor == 1:
            return self
        return replace(
            self,
            total=self.total * factor,
            allocated=self.allocated * factor,
            requested=self.requested * factor,
            free_blocks=tuple(block * factor for block in self.free_blocks),
            requests=tuple(amount * factor for amount in self.requests),
        )


@dataclass(frozen=True, slots=True)
class Capacity:
    """A pool's capacity: memory in GiB, rounded down."""

    gpus: int = 0
    memory_total: int = 0
    memory_allocated: int = 0
    memory_requested: int = 0
    largest_free_block: int = 0
    stranded_memory: int = 0
    unit: str = "GiB"
    """That of most device plugins: in it pods ask, and it holds for what follows. The cards of a
    node that counts in another are there as it counts, which is how the scheduler compares."""
    largest_card: int = 0
    """Memory of the largest card; 0 while some node offers none, since its cards may be larger."""
    free_blocks: tuple[tuple[int, int], ...] = ()
    """Cards with free memory, by its amount, largest first: (memory, number of cards)."""

    @property
    def largest_free(self) -> int:
        """`largest_free_block`, not rounded."""
        return self.free_blocks[0][0] if self.free_blocks else 0


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


def observe_node_capacity(node: Node, pods: Sequence[Pod]) -> NodeCapacity:
    """The capacity of `node`, on which `pods` run.

    A pod that is being deleted counts: its containers hold their memory until they are gone. A
    card that is given out twice has nothing free, and what pods hold of it counts all the same.
    The number of cards survives the device plugin, the memory is gone with it.
    """
    offered = node.allocatable
    total = offered.get(names.RESOURCE_GPU_MEMORY, 0)
    gpus = node.gpu_count if total else _count_whole_cards(node)
    used = count_used(pods)
    requested = 0
    requests = []
    for pod in pods:
        if not (memory := pod.gpu_memory) or not pod.is_live:
            continue
        requested += memory
        requests.append(pod.gpu_memory_per_card)
    free: tuple[int, ...] = ()
    if total and gpus and node.ready and not node.unschedulable:
        card_total = total // gpus
        free = tuple(
            [max(card_total - used.get(card, 0), 0) for card in range(min(gpus, MAX_CARDS))]
        )
    return NodeCapacity(gpus, total, sum(used.values()), requested, free, tuple(requests))


def count_used(pods: Iterable[Pod]) -> dict[int, int]:
    """Units of GPU memory that the ledger gives to the pods of one node, by index of the card."""
    used: dict[int, int] = {}
    for pod in pods:
        if pod.gpu_memory and pod.is_live:
            for card, units in pod.cards.items():
                used[card] = used.get(card, 0) + units
    return used


def sum_capacity(nodes: Iterable[NodeCapacity], pending: Iterable[Pod] = ()) -> Capacity:
    """The capacity of a pool with these nodes; `pending` pods select it and have no node yet."""
    nodes = list(nodes)
    memory = sum_memory(nodes, pending)
    totals = [node.card_total for node in nodes]
    per_gib = MIB_PER_GIB // MIB_PER_UNIT[memory.unit]
    return Capacity(
        gpus=memory.gpus,
        memory_total=memory.total // per_gib,
        memory_allocated=memory.allocated // per_gib,
        memory_requested=memory.requested // per_gib,
        largest_free_block=memory.largest_free // per_gib,
        stranded_memory=memory.stranded // per_gib,
        unit=find_unit(nodes),
        largest_card=max(totals, default=0) if all(totals) else 0,
        free_blocks=_count_blocks(_list_blocks(nodes)),
    )


def sum_memory(nodes: Sequence[NodeCapacity], pending: Iterable[Pod] = ()) -> Memory:
    """The sums of a pool with these nodes; `pending` pods select it and have no node yet.

    Memory is stranded where a card has less of it free than the pool's median pod asks of one.
    What is `pending`, or on a node that offers no memory, asks in the unit of most nodes.
    """
    usual = find_unit(nodes)
    units = [node.find_unit(usual) for node in nodes]
    unit = min([usual, *units], key=MIB_PER_UNIT.__getitem__)
    nodes = [
        node.scale(MIB_PER_UNIT[own] // MIB_PER_UNIT[unit])
        for node, own in zip(nodes, units, strict=True)
    ]
    waiting = [pod for pod in pending if pod.gpu_memory]
    factor = MIB_PER_UNIT[usual] // MIB_PER_UNIT[unit]
    wanted = chain(
        *(node.requests for node in nodes), (p.gpu_memory_per_card * factor for p in waiting)
    )
    median = _find_median(wanted)
    blocks = _list_blocks(nodes)
    pending_sum = sum(pod.gpu_memory for pod in waiting) * factor
    requested = sum(node.requested for node in nodes) + pending_sum
    return Memory(
        unit=unit,
        gpus=sum(node.gpus for node in nodes),
        total=sum(node.total for node in nodes),
        allocated=sum(node.allocated for node in nodes),
        requested=min(requested, MAX_FIGURE),
        largest_free=max(blocks, default=0),
        stranded=sum(block for block in blocks if block < median),
    )


def tell_unit(card_total: int) -> str:
    """In what a device plugin counts by which a card has so much: GiB or MiB.

    That is not written anywhere: a card with 1024 or more is counted in MiB, since none has a
    tebibyte and none less than a gibibyte.
    """
    return "MiB" if card_total >= MIB_PER_GIB else "GiB"


def find_unit(nodes: Iterable[NodeCapacity]) -> str:
    """What most of these nodes' device plugins count in: it is meant to be one for the cluster."""
    in_mib = [tell_unit(node.card_total) == "MiB" for node in nodes if node.card_total]
    return "MiB" if sum(in_mib) * 2 > len(in_mib) else "GiB"


def _list_blocks(nodes: Iterable[NodeCapacity]) -> list[int]:
    return list(chain.from_iterable(node.free_blocks for node in nodes))


def _count_blocks(blocks: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Cards by their free memory; of many amounts those between the kept ones are rounded down."""
    counts = Counter(block for block in blocks if block)
    amounts = sorted(counts, reverse=True)
    if len(amounts) <= MAX_FREE_BLOCKS:
        return tuple((amount, counts[amount]) for amount in amounts)
    last = len(amounts) - 1
    kept = [amounts[step * last // (MAX_FREE_BLOCKS - 1)] for step in range(MAX_FREE_BLOCKS)]
    rounded: Counter[int] = Counter()
    for amount in amounts:
        rounded[next(lower for lower in kept if lower <= amount)] += counts[amount]
    return tuple((amount, rounded[amount]) for amount in kept)


def _find_median(amounts: Iterable[int]) -> int:
    """The lower of two in the middle: an amount that a pod really asks for; 0 where none does."""
    ranked = sorted(amounts)
    return ranked[(len(ranked) - 1) // 2] if ranked else 0


def _count_whole_cards(node: Node) -> int:
    """Where memory is not given out; by what the node's own plugin says, if it does."""
    offered = node.allocatable
    return (
        offered.get(names.RESOURCE_WHOLE_GPU, 0)
        or offered.get(names.RESOURCE_TOPOLOGY_GPU, 0)
        or node.gpu_count
    )
