"""Measures the cards of one node, as the scheduler extender counts them.

Source: pkg/cache of AliyunContainerService/gpushare-scheduler-extender. Status, `inspect --pools`,
`explain` and admission all count by `measure_cards`.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from gpushare import names
from gpushare.api.k8s.node import MAX_CARDS, Node
from gpushare.api.k8s.pod import Pod
from gpushare.editions.registry import find_edition, find_mode, find_schedule

MAX_CGPU_PODS = 20
"""The most pods that one card serves under cGPU, by the vendor's page on its limits."""


@dataclass(frozen=True, slots=True)
class CardMemory:
    """The memory of one card, in the device plugin's unit."""

    total: int
    used: int = 0
    free_pods: int | None = None
    """How many more pods the card serves; None where only its memory limits that."""
    is_unhealthy: bool = False

    @property
    def free(self) -> int:
        """The memory that one more pod can get on the card."""
        is_closed = self.is_unhealthy or self.free_pods == 0
        return 0 if is_closed else max(self.total - self.used, 0)

    def hold(self, units: int) -> "CardMemory":
        """Return the card with one more pod on it, which holds so many units."""
        left = None if self.free_pods is None else max(self.free_pods - 1, 0)
        return CardMemory(self.total, self.used + units, left, self.is_unhealthy)


def measure_cards(
    node: Node, pods: Collection[Pod], unhealthy: Collection[int] = ()
) -> tuple[CardMemory, ...]:
    """List the cards of `node`, on which `pods` run; none while it offers no memory.

    The extender divides the capacity, which includes the memory of unhealthy cards, and allocates
    no card of `unhealthy` (indexes that it has from a ConfigMap). Memory allocated on a card that
    the node does not have is left out. A pod that is being deleted counts, as with kube-scheduler:
    its containers hold their memory until they are gone.
    """
    memory, gpus = node.allocatable.get(names.RESOURCE_GPU_MEMORY, 0), node.gpu_count
    if not memory or not gpus:
        return ()
    total = max(node.capacity.get(names.RESOURCE_GPU_MEMORY, 0), memory) // gpus
    is_limited = _is_isolated(node)
    allocations = _list_allocations(pods)
    used = _sum_units(allocations)
    holders = Counter(card for cards in allocations for card in cards if cards[card])
    return tuple(
        [
            CardMemory(
                total,
                used.get(card, 0),
                max(MAX_CGPU_PODS - holders[card], 0) if is_limited else None,
                card in unhealthy,
            )
            for card in range(min(gpus, MAX_CARDS))
        ]
    )


def _is_isolated(node: Node) -> bool:
    edition = find_edition(node.labels)
    mode = edition and find_mode(edition, find_schedule(edition, node.labels))
    return bool(mode and mode.isolated)


def count_used(pods: Iterable[Pod]) -> dict[int, int]:
    """Sum the GPU memory that the ledger allocates to one node's pods, by index of the card."""
    return _sum_units(_list_allocations(pods))


def _sum_units(allocations: Iterable[Mapping[int, int]]) -> dict[int, int]:
    used: dict[int, int] = {}
    for cards in allocations:
        for card, units in cards.items():
            used[card] = used.get(card, 0) + units
    return used


def _list_allocations(pods: Iterable[Pod]) -> list[Mapping[int, int]]:
    return [pod.cards for pod in pods if pod.gpu_memory and pod.is_live]
