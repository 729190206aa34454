"""Sums the capacity of a pool: the memory that its nodes offer, and what is allocated of it."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime
from itertools import chain

from gpushare.api.k8s.pod import Pod
from gpushare.api.k8s.taint import Taint
from gpushare.api.status import FreeBlock, PoolCapacity
from gpushare.core.capacity.demand import NodeSize
from gpushare.core.capacity.memory_sums import MemorySums
from gpushare.core.capacity.node_capacity import MIB_PER_GIB, MIB_PER_UNIT, NodeCapacity
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


def sum_capacity(
    nodes: Collection[NodeCapacity], pending: Iterable[Pod], now: datetime
) -> PoolCapacity:
    """Sum the capacity of a pool with these nodes; `pending` pods select it without a node."""
    nodes, sums = close_tainted(nodes), MemorySums()
    for node in nodes:
        sums.count(node)
    for pod in pending:
        sums.count_waiting(pod)
    memory = sums.sum_up(now)
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


def _count_blocks(blocks: Iterable[int]) -> tuple[FreeBlock, ...]:
    """Count cards by free memory; of too many amounts, round those between the kept ones down."""
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
