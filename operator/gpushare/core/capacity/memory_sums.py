"""Sums the GPU memory of nodes and the demand of pods, each of which may come, change and go.

Amounts are in the device plugin's unit until they are summed up: GiB, or MiB where the plugin runs
with `--memory-unit=MiB`. A node whose plugin uses another unit than the rest is converted.
"""

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
"""The largest reported sum: a pod may request any number, but the status takes only 64 bits."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The sums of the GPU memory and the cards of some nodes."""

    unit: str = "GiB"
    """The unit of all sums: the smallest in which one of the nodes counts."""
    usual_unit: MemoryUnit = "GiB"
    """The unit in which most of the nodes count."""
    gpus: int = 0
    total: int = 0
    allocated: int = 0
    requested: int = 0
    largest_free: int = 0
    """The free memory of the emptiest card on a node that takes pods."""
    stranded: int = 0


class MemorySums:
    """The GPU memory of a pool, whose nodes and waiting pods come, change and go.

    The cost of counting one does not depend on how many others there are.
    """

    def __init__(self) -> None:
        self._by_unit = {unit: _Sums() for unit in ("", *MIB_PER_UNIT)}
        self._waiting: dict[tuple[Amount, datetime | None], int] = {}
        """The number of waiting pods, by what each requests and until when that is demand."""

    @property
    def is_empty(self) -> bool:
        """Whether no node and no waiting pod is counted."""
        return not (self._waiting or any(sums.count for sums in self._by_unit.values()))

    @property
    def usual_unit(self) -> MemoryUnit:
        """The unit in which most of the nodes count."""
        return find_usual_unit([self])

    def count_nodes(self, unit: str) -> int:
        """Return how many nodes are known to count in `unit`."""
        return self._by_unit[unit].count

    def count(self, node: NodeCapacity, times: int = 1) -> None:
        """Add a node to the sums; with `times` -1 remove it."""
        self._by_unit[node.unit].count_in(node, times)

    def count_waiting(self, pod: Pod, times: int = 1) -> None:
        """Add a pod that selects the pool and has no node; with `times` -1 remove it."""
        if pod.gpu_memory and find_cause_of_its_own(pod) is None:
            _count(self._waiting, (read_amount(pod), find_end(pod)), times)

    def sum_up(self, now: datetime, *, with_free: bool = True) -> Memory:
        """Return the sums of the nodes' memory, and of the demand at `now`.

        A card's free memory is stranded if it is less than the pool's median pod requests of one
        card. Waiting pods, and those on a node that offers no memory, count in most nodes' unit.
        Without `with_free` both figures of free memory stay 0: they are half of the work.
        """
        usual = self.usual_unit
        unit = min(
            [usual, *(unit for unit in MIB_PER_UNIT if self.count_nodes(unit))],
            key=MIB_PER_UNIT.__getitem__,
        )
        scaled = [
            (sums, MIB_PER_UNIT[own or usual] // MIB_PER_UNIT[unit])
            for own, sums in self._by_unit.items()
            if sums.count
        ]
        gpus = total = allocated = requested = 0
        for sums, factor in scaled:
            gpus += sums.gpus
            total += sums.total * factor
            allocated += sums.allocated * factor
            requested += sums.requested * factor
        asked: dict[int, int] = {}
        per_usual = MIB_PER_UNIT[usual] // MIB_PER_UNIT[unit]
        if self._waiting:
            sizes = {
                NodeSize(cards, memory * factor // per_usual, is_extended, compute, host)
                for sums, factor in scaled
                for cards, memory, is_extended, compute, host in sums.sizes
            }
            is_extended = any(size.is_extended for size in sizes)
            for (wanted, end), n in self._waiting.items():
                if not is_over(end, now) and fits_any(wanted, sizes):
                    per_card, _ = wanted.count_per_card(is_extended=is_extended)
                    _add(asked, [(per_card * per_usual, n)])
                    requested += wanted.memory * per_usual * n
        requested = min(requested, MAX_FIGURE)
        if not with_free:
            return Memory(unit, usual, gpus, total, allocated, requested)
        free: dict[int, int] = {}
        taints: dict[tuple[Taint, ...], int] = {}
        for sums, _ in scaled:
            _add(taints, sums.taints.items())
        own = find_own_taints(taints)
        for sums, factor in scaled:
            _add(asked, [(amount * factor, n) for amount, n in sums.requests.items()])
            for tainted, blocks in sums.free_blocks.items():
                if own.issuperset(tainted):
                    _add(free, [(amount * factor, n) for amount, n in blocks.items()])
        median = _find_median(asked)
        stranded = sum(amount * n for amount, n in free.items() if amount < median)
        largest = max(free, default=0)
        return Memory(unit, usual, gpus, total, allocated, requested, largest, stranded)


@dataclass(slots=True)
class _Sums:
    """The sums of nodes whose plugins count in the same unit."""

    count: int = 0
    gpus: int = 0
    total: int = 0
    allocated: int = 0
    requested: int = 0
    free_blocks: dict[tuple[Taint, ...], dict[int, int]] = field(default_factory=dict)
    """The number of cards, by the taints of their node and by each card's free memory."""
    requests: dict[int, int] = field(default_factory=dict)
    """The number of pods, by the memory that each requests of one card."""
    sizes: dict[tuple[int, int, bool, int, HostResources], int] = field(default_factory=dict)
    """The number of nodes that offer memory, by the fields of their `NodeSize`.

    A tuple costs less to create than a `NodeSize`.
    """
    taints: dict[tuple[Taint, ...], int] = field(default_factory=dict)
    """The number of nodes with cards, by their taints."""

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


def _add(counts: dict[Key, int], more: Iterable[tuple[Key, int]]) -> None:
    for key, count in more:
        counts[key] = counts.get(key, 0) + count


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
    """Return the unit of most nodes in these pools; a cluster is meant to have only one."""
    in_mib, in_gib = (sum(pool.count_nodes(unit) for pool in pools) for unit in ("MiB", "GiB"))
    return "MiB" if in_mib > in_gib else "GiB"


def _find_median(counts: Mapping[int, int]) -> int:
    """Return the lower median, an amount that some pod requests; 0 without any.

    `counts` has the number of pods by the amount that each requests.
    """
    left = (sum(counts.values()) + 1) // 2
    for amount in sorted(counts):
        left -= counts[amount]
        if left <= 0:
            return amount
    return 0
