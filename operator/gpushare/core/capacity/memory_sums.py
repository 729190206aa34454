"""Sums the GPU memory of nodes and the demand of pods, each of which may come, change and go.

Amounts are in the device plugin's unit until they are summed up: GiB, or MiB where the plugin runs
with `--memory-unit=MiB`. A node whose plugin was set to another than the rest is summed up by its
own.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from gpushare.api.k8s.pod import Pod
from gpushare.api.k8s.resources.host import HostResources
from gpushare.api.k8s.taint import Taint
from gpushare.api.status import MemoryUnit
from gpushare.core.capacity.demand import (
    Amount,
    NodeSize,
    find_cause_of_its_own,
    find_end,
    fits_any,
    is_over,
    read_amount,
)
from gpushare.core.capacity.node_capacity import MIB_PER_UNIT, NodeCapacity
from gpushare.core.capacity.taints import find_own_taints

MAX_FIGURE = 2**40
"""A pod may ask for any number; the status takes no more than 64 bits."""


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


class MemorySums:
    """The GPU memory of a pool, whose nodes and waiting pods come, change and go.

    Each of them costs the same, however many others there are.
    """

    def __init__(self) -> None:
        self._by_unit = {unit: _Sums() for unit in ("", *MIB_PER_UNIT)}
        self._waiting: dict[tuple[Amount, datetime | None], int] = {}
        """Pods, by how much each asks for, and until when that is demand."""

    @property
    def is_empty(self) -> bool:
        """Whether all that was added is removed again."""
        return not (self._waiting or any(sums.count for sums in self._by_unit.values()))

    @property
    def usual_unit(self) -> MemoryUnit:
        """What most of the nodes count in."""
        return find_usual_unit([self])

    def count_nodes(self, unit: str) -> int:
        """Return how many nodes are known to count in `unit`."""
        return self._by_unit[unit].count

    def count(self, node: NodeCapacity, times: int = 1) -> None:
        """Count a node; with -1 no more."""
        self._by_unit[node.unit].count_in(node, times)

    def count_waiting(self, pod: Pod, times: int = 1) -> None:
        """Count a pod without a node that selects the pool; with -1 no more."""
        if pod.gpu_memory and find_cause_of_its_own(pod) is None:
            _count(self._waiting, (read_amount(pod), find_end(pod)), times)

    def sum_up(self, now: datetime) -> Memory:
        """Sum the memory of the nodes, and the demand there is `now`.

        Memory is stranded where a card has less of it free than the pool's median pod asks of one.
        Waiting pods, and those on a node that offers no memory, are counted in most nodes' unit.
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
        own = find_own_taints(sum((Counter(sums.taints) for sums, _ in scaled), Counter()))
        for sums, factor in scaled:
            asked.update({amount * factor: n for amount, n in sums.requests.items()})
            for taints, blocks in sums.free_blocks.items():
                if own.issuperset(taints):
                    free.update({amount * factor: n for amount, n in blocks.items()})
        requested = sum(sums.requested * factor for sums, factor in scaled)
        per_usual = MIB_PER_UNIT[usual] // MIB_PER_UNIT[unit]
        sizes = {
            NodeSize(cards, memory * factor // per_usual, is_extended, compute, host)
            for sums, factor in scaled
            for cards, memory, is_extended, compute, host in sums.sizes
        }
        is_extended = any(size.is_extended for size in sizes)
        for (wanted, end), n in self._waiting.items():
            if not is_over(end, now) and fits_any(wanted, sizes):
                per_card, _ = wanted.count_per_card(is_extended=is_extended)
                asked[per_card * per_usual] += n
                requested += wanted.memory * per_usual * n
        median = _find_median(asked)
        return Memory(
            unit=unit,
            gpus=sum(sums.gpus for sums, _ in scaled),
            total=sum(sums.total * factor for sums, factor in scaled),
            allocated=sum(sums.allocated * factor for sums, factor in scaled),
            requested=min(requested, MAX_FIGURE),
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
    free_blocks: dict[tuple[Taint, ...], dict[int, int]] = field(default_factory=dict)
    """Cards, by the taints of their node and by how much each has free."""
    requests: dict[int, int] = field(default_factory=dict)
    """Pods, by how much each asks of one card."""
    sizes: dict[tuple[int, int, bool, int, HostResources], int] = field(default_factory=dict)
    """Nodes that offer memory, by the fields of their `NodeSize`, which costs more to make."""
    taints: dict[tuple[Taint, ...], int] = field(default_factory=dict)
    """Nodes with cards, by their taints."""

    def count_in(self, node: NodeCapacity, times: int) -> None:
        self.count += times
        self.gpus += node.gpus * times
        self.total += node.total * times
        self.allocated += node.allocated * times
        self.requested += node.requested * times
        if node.free_blocks:
            blocks = self.free_blocks.setdefault(node.taints, {})
            _count_all(blocks, node.free_blocks, times)
            if not blocks:
                del self.free_blocks[node.taints]
        _count_all(self.requests, node.requests, times)
        if node.gpus:
            _count(self.taints, node.taints, times)
        if node.card_total:
            size = (node.gpus, node.card_total, node.is_extended, node.compute, node.host)
            _count(self.sizes, size, times)


Key = TypeVar("Key", bound=Hashable)


def _count_all(counts: dict[Key, int], keys: Iterable[Key], times: int) -> None:
    for key in keys:
        if not (count := counts.get(key, 0) + times):
            del counts[key]
        else:
            counts[key] = count


def _count(counts: dict[Key, int], key: Key, times: int) -> None:
    if not (count := counts.get(key, 0) + times):
        del counts[key]
    else:
        counts[key] = count


def find_usual_unit(pools: Collection[MemorySums]) -> MemoryUnit:
    """Find the unit of most nodes in these pools: it is meant to be one for the cluster."""
    in_mib, in_gib = (sum(pool.count_nodes(unit) for pool in pools) for unit in ("MiB", "GiB"))
    return "MiB" if in_mib > in_gib else "GiB"


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
