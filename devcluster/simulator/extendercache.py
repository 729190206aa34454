"""Plays the cache of the open-source scheduler extender, its faults included.

Source: AliyunContainerService/gpushare-scheduler-extender c0b6141, pkg/cache and pkg/gpushare. The
extender counts a node's cards when it first reads the node, and a pod's units when it first reads
the pod on a card; it keeps both until it restarts.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from devcluster import names
from devcluster.simulator.cards import NO_CARD
from devcluster.simulator.objects import Node, Pod, parse_quantity

UINT = 2**64
INT_MAX = 2**63 - 1
MAX_DIGITS = 20  # more than any number of 64 bits has


@dataclass
class Device:
    """A card with its pods, as they were first read."""

    total: int
    pods: dict[str, Pod] = field(default_factory=dict)

    @property
    def used(self) -> int:
        """Used units by the pods' annotations."""
        return sum(
            max(parse_int(pod.annotations.get(names.MEM_POD)) or 0, 0)
            for pod in self.pods.values()
            if not pod.is_finished
        )


class NodeInfo:
    """A node as the extender first read it."""

    def __init__(self, node: Node) -> None:
        self.devices: list[Device] = []
        self.reset(node)

    def reset(self, node: Node) -> None:
        """Update the node; existing cards keep their memory."""
        self.node = node
        self.count = parse_quantity(node.capacity.get(names.GPU_COUNT, "0"))
        self.memory = parse_quantity(node.capacity.get(names.GPU_MEM, "0"))
        if not self.devices and self.count:
            self.devices = [Device(self.memory // self.count) for _ in range(self.count)]

    @property
    def must_reset(self) -> bool:
        """Whether the node had no cards, or no memory, when it was last read."""
        return not self.devices or self.memory <= 0 or self.count <= 0


class ExtenderCache:
    """Nodes by name, and the pods on their cards."""

    def __init__(
        self,
        find_node: Callable[[str], Node | None],
        find_unhealthy: Callable[[str], str | None],
        pods: Iterable[Pod] = (),
    ) -> None:
        """Create an empty cache; `find_unhealthy` returns the key `gpus` of a node's ConfigMap."""
        self._find_node, self._find_unhealthy = find_node, find_unhealthy
        self.nodes: dict[str, NodeInfo] = {}
        self._known: set[str] = set()
        self._untold: dict[str, Pod] = {}  # their node was not there: they are tried again
        for pod in pods:
            self.take(None, pod)

    def find(self, name: str) -> NodeInfo | None:
        """Find an existing node in the cache."""
        node = self._find_node(name)
        if node is None:
            return None
        info = self.nodes.get(name)
        if info is None:
            info = self.nodes[name] = NodeInfo(node)
        elif info.must_reset:
            info.reset(node)
        return info

    def take(self, old: Pod | None, new: Pod | None) -> None:
        """Record a bound pod that was added, changed, ended or deleted."""
        pod = new or old
        if pod is None or not pod.demand(names.GPU_MEM):
            return
        if new is None or new.terminating or new.is_finished:
            self._untold.pop(pod.uid, None)
            self._remove(pod)
        elif pod.uid not in self._known:
            self._untold[pod.uid] = new
            self.catch_up()

    def catch_up(self) -> None:
        """Add pods to their cards whose node was not known before."""
        for pod in list(self._untold.values()):
            if (info := self.find(pod.node)) is not None:
                del self._untold[pod.uid]
                if self.add(pod, info):
                    self._known.add(pod.uid)

    def add(self, pod: Pod, info: NodeInfo) -> bool:
        """Add a pod to the card of its annotation; return False where there is none."""
        card = find_card(pod)
        if card not in range(len(info.devices)):
            return False
        info.devices[card].pods[pod.uid] = pod
        return True

    def _remove(self, pod: Pod) -> None:
        """Remove a pod from the card of its current annotation, even if it is on another."""
        self.take_back(pod)
        self._known.discard(pod.uid)

    def take_back(self, pod: Pod) -> None:
        """Remove a pod whose Binding failed, or that is gone, from the card of its annotation."""
        info, card = self.find(pod.node), find_card(pod)
        if info is not None and card in range(len(info.devices)):
            info.devices[card].pods.pop(pod.uid, None)

    def choose(self, pod: Pod, info: NodeInfo) -> int | str:
        """Choose the card for a pod as the verb bind does; return why there is none."""
        if reason := self.refuse(pod, info):
            return reason
        asked, free = pod.demand(names.GPU_MEM), self._list_free(info)
        fitting = [(units, card) for card, units in free.items() if asked and units >= asked]
        if not fitting:
            # Such as a pod that asks for memory in init containers only.
            return f"The node  can't place the pod {pod.name} in ns {pod.namespace}"
        return min(fitting)[1]

    def refuse(self, pod: Pod, info: NodeInfo) -> str:
        """Find why the verb filter refuses the node; empty where it does not."""
        if info.memory <= 0:
            return f"The node {info.node.name} is not for GPU share, need skip"
        asked = pod.demand(names.GPU_MEM)
        fits = any(units >= asked for units in self._list_free(info).values())
        return "" if fits else NO_CARD

    def _list_free(self, info: NodeInfo) -> dict[int, int]:
        """List free units by card, unsigned: an over-committed card has almost infinitely many."""
        text = self._find_unhealthy(info.node.name)
        # What is no number counts as 0.
        unhealthy = {parse_int(part) or 0 for part in text.split(",")} if text is not None else ()
        return {
            card: (device.total - device.used) % UINT
            for card, device in enumerate(info.devices)
            if card not in unhealthy
        }


def find_card(pod: Pod) -> int:
    """Find the card of a pod's annotation; -1 where there is none."""
    card = parse_int(pod.annotations.get(names.MEM_IDX))
    return -1 if card is None else card


def parse_int(text: str | None) -> int | None:
    """Parse as Go's strconv.Atoi does, with the nearest number of 64 bits; None for other text."""
    found = re.fullmatch(r"([+-]?)0*([0-9]+)", text or "")
    if found is None:
        return None
    # Python refuses to read thousands of digits.
    number = min(int(found[2][:MAX_DIGITS]), INT_MAX)
    return -number if found[1] == "-" else number
