"""Reads and writes the ledger of GPU memory in pod annotations, as scheduler and plugin do."""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from devcluster import names
from devcluster.simulator.objects import Node, Pod, parse_object, parse_quantity

NANOSECONDS = 1_000_000_000

Units = Mapping[int, int]  # card index -> units of gpu-mem


@dataclass(frozen=True)
class Entry:
    """Units of GPU memory of a pod's containers by card, in its annotations."""

    containers: Mapping[int, Units]  # container index -> its units; -1 stands for the whole pod
    assigned: bool
    assume_time: int  # unix nanoseconds; 0 if there is none
    assigned_key: str
    assume_time_key: str

    @property
    def units(self) -> dict[int, int]:
        """Units of the whole pod by card."""
        total: dict[int, int] = {}
        for cards in self.containers.values():
            for card, units in cards.items():
                total[card] = total.get(card, 0) + units
        return total


def is_professional(node: Node) -> bool:
    """Tell whether pods on a node have Professional's ledger instead of the older one."""
    return names.SCHEDULE in node.labels


def parse_entry(pod: Pod) -> Entry | None:
    """Parse a pod's entry: Professional's, else the older one; None without a valid one."""
    notes = pod.annotations
    allocation = parse_object(notes.get(names.ALLOCATION))
    try:
        if allocation:
            containers: dict[int, Units] = {
                int(container): {int(card): int(units) for card, units in cards.items()}
                for container, cards in allocation.items()
            }
            keys = (names.ASSIGNED, names.ASSUME_TIME)
        else:
            containers = {-1: {int(notes[names.MEM_IDX]): int(notes[names.MEM_POD])}}
            keys = (names.MEM_ASSIGNED, names.MEM_ASSUME_TIME)
        assume_time = int(notes.get(keys[1], "0"))
    except (KeyError, ValueError, AttributeError):
        return None
    return Entry(containers, notes.get(keys[0]) == "true", assume_time, *keys)


def find_assumed(
    pods: Iterable[Pod], size: int, settled: Mapping[str, float], starting: Collection[str] = ()
) -> tuple[Pod, Units] | None:
    """Find the pod for which a plugin takes an Allocate call of this size, and its cards.

    The call does not name the pod, so the plugin takes the oldest assumed one of that size: that of
    the whole pod in the older ledger, of one of its containers in Professional's. Two pending pods
    of equal size may swap cards. `settled` are pods whose ASSIGNED is being written.
    """
    waiting = []
    for pod in pods:
        entry = parse_entry(pod)
        if entry is None or entry.assigned or not entry.assume_time or pod.uid in settled:
            continue
        if pod.phase != "Pending" and pod.uid not in starting:
            continue
        if cards := _find_cards(pod, entry, size):
            waiting.append((entry.assume_time, pod.uid, pod, cards))
    if not waiting:
        return None
    _, _, pod, cards = min(waiting, key=lambda found: found[:2])
    return pod, cards


def build_assigned(pod: Pod, now: float) -> dict[str, str]:
    """Build the annotations that the plugin writes on the pod of a call."""
    entry = parse_entry(pod)
    if entry is None:
        return {}
    return {entry.assigned_key: "true", entry.assume_time_key: str(int(now * NANOSECONDS))}


def build_entry(pod: Pod, node: Node, cards: Iterable[int], now: float) -> dict[str, str]:
    """Build the annotations that the scheduler writes on a pod before its Binding.

    Each container's units are spread evenly over the cards (label `aliyun.com/gpu-count`).
    """
    indices = list(cards)
    assume_time = str(int(now * NANOSECONDS))
    if not is_professional(node):
        return {
            names.MEM_IDX: str(indices[0]),
            names.MEM_DEV: str(_card_units(node)),
            names.MEM_POD: str(pod.demand(names.GPU_MEM)),
            names.MEM_ASSIGNED: "false",
            names.MEM_ASSUME_TIME: assume_time,
        }
    entry = {
        names.ALLOCATION: _spread(pod, names.GPU_MEM, indices),
        names.ASSIGNED: "false",
        names.ASSUME_TIME: assume_time,
    }
    if pod.demand(names.GPU_CORE):
        entry[names.CORE_PERCENTAGE] = _spread(pod, names.GPU_CORE, indices)
    return entry


def parse_core(pod: Pod) -> dict[int, int]:
    """Parse the percentage of compute of a pod by card."""
    total: dict[int, int] = {}
    for cards in (parse_object(pod.annotations.get(names.CORE_PERCENTAGE)) or {}).values():
        for card, percent in cards.items():
            total[int(card)] = total.get(int(card), 0) + int(percent)
    return total


def _card_units(node: Node) -> int:
    memory, cards = (
        parse_quantity(node.capacity.get(key, "0")) for key in (names.GPU_MEM, names.GPU_COUNT)
    )
    return memory // max(1, cards)


def _find_cards(pod: Pod, entry: Entry, size: int) -> Units | None:
    for index, cards in sorted(entry.containers.items()):
        asked = pod.demand(names.GPU_MEM) if index == -1 else sum(cards.values())
        if asked == size:
            return cards
    return None


def _spread(pod: Pod, resource: str, cards: list[int]) -> str:
    return json.dumps(
        {
            str(index): {str(card): container.limits[resource] // len(cards) for card in cards}
            for index, container in enumerate(pod.containers)
            if resource in container.limits
        }
    )
