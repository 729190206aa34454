"""Computes which pod holds how much of which card, by the rules of `kubectl inspect gpushare`.

Those of cmd/inspect in AliyunContainerService/gpushare-device-plugin, which `kubectl inspect cgpu`
shares by all that is documented of it. They are not those of the schedulers: the ledger's own
amounts are counted, whatever they are, and what has no card in it is pending.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import orjson

from gpushare import names
from gpushare.api.k8s.card_annotations import parse_number
from gpushare.api.k8s.node import MAX_CARDS
from gpushare.api.k8s.resources.quantity import parse_quantity

Json = Mapping[str, Any]
PENDING = -1
"""Index that stands for the card of a pod that has none."""
_LARGEST_GIB = 100
"""A card with more counts as one whose memory is given in MiB."""
_UNKNOWN = "unknown"
_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True)
class Holder:
    """A pod that asks for GPU memory, on its node."""

    namespace: str
    name: str
    memory: int
    """Units in the limits of its containers; init containers do not count."""
    allocation: Mapping[int, int] = field(default_factory=dict)
    """Units by card, from the Professional edition's annotation; empty without one."""
    card: int = PENDING
    """Index of the card in the annotation ALIYUN_COM_GPU_MEM_IDX."""

    @property
    def cards(self) -> Mapping[int, int]:
        """Units by card, `PENDING` among them."""
        return self.allocation or {self.card: self.memory}


@dataclass(frozen=True)
class InspectedNode:
    """A node and what is on its cards."""

    name: str
    address: str
    gpus: int
    """Cards that it offers."""
    total: int
    """GPU memory that it offers, in the plugin's unit."""
    holders: tuple[Holder, ...] = ()
    """Pods that hold memory of the node, sorted by namespace and name."""

    @property
    def card_total(self) -> int:
        return self.total // self.gpus if self.gpus > 0 else 0

    @cached_property
    def used(self) -> Mapping[int, int]:
        """Units by card: all that it has, and those besides that entries name, `PENDING` too."""
        used = dict.fromkeys(range(self.gpus), 0)
        for holder in self.holders if self.total > 0 else ():
            for card, units in holder.cards.items():
                used[card] = used.get(card, 0) + units
        return used

    @property
    def has_pending(self) -> bool:
        return PENDING in self.used


def observe_card_nodes(
    nodes: Iterable[Json], pods: Iterable[Json], only: str = ""
) -> tuple[InspectedNode, ...]:
    """Read the nodes that offer GPU memory, by name; with `only` that one, whatever it offers."""
    bound: dict[str, list[Holder]] = {}
    for pod in pods:
        node = (pod.get("spec") or {}).get("nodeName")
        if node and (pod.get("status") or {}).get("phase") not in _ENDED:
            holder = _read_holder(pod)
            if holder.memory > 0:
                bound.setdefault(node, []).append(holder)
    found = (_read_node(node, bound.get(node["metadata"]["name"], ())) for node in nodes)
    shown = [node for node in found if (node.name == only if only else node.total > 0)]
    return tuple(sorted(shown, key=lambda node: node.name))


def find_unit(nodes: Sequence[InspectedNode]) -> str:
    """Find the unit, GiB or MiB, by the first node that has a card; empty where none has."""
    for node in nodes:
        if node.total > 0 and node.gpus > 0:
            return "MiB" if node.card_total > _LARGEST_GIB else "GiB"
    return ""


def count_percent(used: int, total: int) -> int:
    """Compute a percentage, rounded down in floating point as in the original: 29 of 100 are 28."""
    return int(float(used) / float(total) * 100) if total > 0 else 0


def order_by_card(node: InspectedNode) -> tuple[Holder, ...]:
    """Sort the node's pods by their first card, pending ones last."""

    def find_first(holder: Holder) -> tuple[bool, int]:
        return min((card == PENDING, card) for card in holder.cards)

    return tuple(sorted(node.holders, key=find_first))


def _read_node(raw: Json, holders: Sequence[Holder]) -> InspectedNode:
    status = raw.get("status") or {}
    offered = status.get("allocatable") or {}
    addresses = (
        each["address"]
        for each in status.get("addresses") or ()
        if each.get("type") == "InternalIP" and each.get("address")
    )
    return InspectedNode(
        name=raw["metadata"]["name"],
        address=next(addresses, _UNKNOWN),
        gpus=min(parse_quantity(offered.get(names.RESOURCE_GPU_COUNT, 0)) or 0, MAX_CARDS),
        total=parse_quantity(offered.get(names.RESOURCE_GPU_MEMORY, 0)) or 0,
        holders=tuple(sorted(holders, key=lambda holder: (holder.namespace, holder.name))),
    )


def _read_holder(raw: Json) -> Holder:
    meta = raw["metadata"]
    annotations = meta.get("annotations") or {}
    limits = (
        (container.get("resources") or {}).get("limits") or {}
        for container in (raw.get("spec") or {}).get("containers") or ()
    )
    card = parse_number(annotations.get(names.ANNOTATION_CARD, ""))
    return Holder(
        namespace=meta["namespace"],
        name=meta["name"],
        memory=sum(parse_quantity(each.get(names.RESOURCE_GPU_MEMORY, 0)) or 0 for each in limits),
        allocation=_parse_allocation(annotations.get(names.ANNOTATION_ALLOCATION, "")),
        card=PENDING if card is None else card,
    )


def _parse_allocation(text: str) -> Mapping[int, int]:
    """Sum units by card over all containers; empty for what is not `{number: {card: units}}`."""
    cards: dict[int, int] = {}
    try:
        entries = orjson.loads(text)
        for container, held in entries.items():
            if parse_number(container) is None:
                return {}
            for key, units in {}.items() if held is None else held.items():
                card = parse_number(key)
                if card is None or type(units) is not int:
                    return {}
                cards[card] = cards.get(card, 0) + units
    except (ValueError, AttributeError):
        return {}
    return cards
