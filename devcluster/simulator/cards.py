"""Schedules a pod on a node's cards."""

from collections.abc import Iterable
from dataclasses import dataclass

from devcluster import names
from devcluster.simulator.ledger import is_professional, parse_core, parse_entry
from devcluster.simulator.objects import Node, Pod, parse_quantity

NO_CARD = "Insufficient GPU Memory in one device"
NOT_MATCHED = "node(s) owns gpu resources are not matched with the pod's"


@dataclass(frozen=True)
class Card:
    """One card in the scheduler's ledger."""

    index: int
    total: int  # units of gpu-mem
    used: int = 0
    core_used: int = 0  # percent

    @property
    def free(self) -> int:
        """Free units of gpu-mem; negative on an over-committed card."""
        return self.total - self.used


def count_cards(node: Node, pods: Iterable[Pod]) -> tuple[Card, ...]:
    """Return a node's cards with the ledger's allocated units.

    Source: gpushare-scheduler-extender divides capacity (not allocatable) by gpu-count, and
    releases a pod as soon as it has a deletionTimestamp.
    """
    count = parse_quantity(node.capacity.get(names.GPU_COUNT, "0"))
    memory = parse_quantity(node.capacity.get(names.GPU_MEM, "0"))
    used = [0] * count
    core = [0] * count
    for pod in pods:
        entry = None if pod.terminating or pod.is_finished else parse_entry(pod)
        if entry is None:
            continue
        for card, units in entry.units.items():
            if card in range(count):
                used[card] += units
        for card, percent in parse_core(pod).items():
            if card in range(count):
                core[card] += percent
    return tuple(Card(i, memory // count, used[i], core[i]) for i in range(count))


def choose_cards(pod: Pod, node: Node, cards: Iterable[Card]) -> tuple[int, ...] | str:
    """Choose the cards for a pod on a node; return them, or the reason why there are none.

    One card with the least sufficient free memory (binpack) or with the most of it (spread, a
    label of Professional nodes); ties go to the lowest index. On Professional nodes the pod's
    label `aliyun.com/gpu-count` spreads it evenly over several cards.
    """
    cards = tuple(cards)
    if not cards or not cards[0].total:
        return f"The node {node.name} is not for GPU share, need skip"
    professional = is_professional(node)
    core = pod.demand(names.GPU_CORE)
    if professional and node.labels[names.SCHEDULE] == "core_mem" and not core:
        return NOT_MATCHED
    wanted = parse_quantity(pod.labels.get(names.GPU_COUNT, "1")) if professional else 1
    if wanted < 1 or any(c.limits.get(names.GPU_MEM, 0) % wanted for c in pod.containers):
        return f"{names.GPU_MEM} cannot be divided evenly over {wanted} devices"
    units = pod.demand(names.GPU_MEM) // wanted
    fitting = [c for c in cards if c.free >= units and c.core_used + core // wanted <= 100]
    if len(fitting) < wanted:
        return NO_CARD
    spread = professional and node.labels.get(names.PLACEMENT) == "spread"
    fitting.sort(key=lambda card: (-card.free if spread else card.free, card.index))
    return tuple(sorted(card.index for card in fitting[:wanted]))
