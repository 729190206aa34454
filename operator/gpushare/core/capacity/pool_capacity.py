"""Sums the capacity of a pool: the memory that its nodes offer, and what is allocated of it."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from gpushare.api.k8s.pod import Pod
from gpushare.api.k8s.taint import Taint
from gpushare.api.status import FreeBlock, PoolCapacity
from gpushare.core.capacity.demand import NodeSize
from gpushare.core.capacity.memory_sums import MemorySums
from gpushare.core.capacity.node_capacity import MIB_PER_GIB, MIB_PER_UNIT, NodeCapacity
from gpushare.core.capacity.room import Room
from gpushare.core.capacity.taints import find_own_taints

MAX_FREE_BLOCKS = 20
"""The most amounts of free memory that a status tells apart."""


def list_sizes(nodes: Iterable[NodeCapacity]) -> frozenset[NodeSize]:
    """List the sizes of those of `nodes` that offer memory."""
    return frozenset(node.size for node in nodes if node.card_total)


def find_own(nodes: Iterable[NodeCapacity]) -> frozenset[Taint]:
    """Find the own taints of a pool with these nodes (`find_own_taints`)."""
    return find_own_taints(Counter(node.taints for node in nodes if node.gpus))


def close_tainted(nodes: Collection[NodeCapacity]) -> list[NodeCapacity]:
    """Return a pool's nodes, with no free memory on those whose taints keep its pods away."""
    own = find_own(nodes)
    return [
        node if own.issuperset(node.taints) else replace(node, free_blocks=(), free_pods=None)
        for node in nodes
    ]


class CapacitySums:
    """The capacity of a pool, whose nodes and waiting pods come, change and go.

    The cost of counting one does not depend on how many others there are. The nodes are those of
    `close_tainted`.
    """

    def __init__(self) -> None:
        self._memory = MemorySums()
        self._totals: Counter[int] = Counter()
        """The number of nodes by the memory of one card."""
        self._blocks: Counter[int] = Counter()
        """The number of cards by their free memory."""
        self._free_pods = 0
        self._limited = self._unlimited = 0
        """The number of nodes whose free cards take so many pods, or any number."""

    def count(self, node: NodeCapacity, times: int = 1) -> None:
        """Add a node to the sums; with `times` -1 remove it."""
        self._memory.count(node, times)
        self._totals[node.card_total] += times
        for block in node.free_blocks:
            self._blocks[block] += times
        if node.free_pods is not None:
            self._free_pods += node.free_pods * times
            self._limited += times
        elif any(node.free_blocks):
            self._unlimited += times

    def count_waiting(self, pod: Pod, times: int = 1) -> None:
        """Add a pod that selects the pool and has no node; with `times` -1 remove it."""
        self._memory.count_waiting(pod, times)

    def sum_up(self, now: datetime) -> PoolCapacity:
        """Return the capacity at `now`."""
        memory = self._memory.sum_up(now)
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
            unit=memory.usual_unit,
            largest_card=self._find_largest_card(),
            free_blocks=tuple(
                [FreeBlock(size=size, cards=cards) for size, cards in _list_blocks(self._blocks)]
            ),
            free_pods=self._find_free_pods(),
        )

    def measure_room(self, now: datetime) -> Room:
        """Measure the room at `now`: the same as by the capacity, at a quarter of its cost."""
        memory = self._memory.sum_up(now, with_free=False)
        # The capacity rounds to GiB, whatever the plugin counts in.
        per_gib = MIB_PER_GIB // MIB_PER_UNIT[memory.unit]
        scale = MIB_PER_GIB // MIB_PER_UNIT[memory.usual_unit]
        requested = memory.requested // per_gib * scale
        return Room(
            tuple(_list_blocks(self._blocks)),
            max(requested - memory.allocated // per_gib * scale, 0),
            requested,
            memory.total // per_gib * scale,
            self._find_largest_card(),
            memory.usual_unit,
            self._find_free_pods(),
        )

    def _find_largest_card(self) -> int:
        totals = [total for total, nodes in self._totals.items() if nodes]
        return max(totals, default=0) if all(totals) else 0

    def _find_free_pods(self) -> int | None:
        return self._free_pods if self._limited and not self._unlimited else None


def sum_capacity(
    nodes: Collection[NodeCapacity], pending: Iterable[Pod], now: datetime
) -> PoolCapacity:
    """Sum the capacity of a pool with these nodes; `pending` pods select it without a node."""
    sums = CapacitySums()
    for node in close_tainted(nodes):
        sums.count(node)
    for pod in pending:
        sums.count_waiting(pod)
    return sums.sum_up(now)


def _list_blocks(blocks: Mapping[int, int]) -> list[tuple[int, int]]:
    """List the number of cards by free memory, largest first; of too many amounts, round those
    between the kept ones down."""
    listed = sorted(
        [(size, cards) for size, cards in blocks.items() if size and cards], reverse=True
    )
    if len(listed) <= MAX_FREE_BLOCKS:
        return listed
    cards = [n for _, n in listed]
    last, kept, first = len(listed) - 1, [], 0
    for step in range(MAX_FREE_BLOCKS):
        index = step * last // (MAX_FREE_BLOCKS - 1)
        kept.append((listed[index][0], sum(cards[first : index + 1])))
        first = index + 1
    return kept
