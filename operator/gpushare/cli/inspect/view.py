"""Builds the answer of `gpushare inspect`: what the cards hold, as the vendors' plugins show it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpushare.analysis.inspect.cards import (
    PENDING,
    Holder,
    InspectedNode,
    count_percent,
    find_unit,
    observe_card_nodes,
    order_by_card,
)
from gpushare.analysis.inspect.layout import format_details, format_summary
from gpushare.api.k8s.node import MAX_CARDS
from gpushare.api.pruned.cluster import Cluster, Kind
from gpushare.cli.cluster.access import Access
from gpushare.cli.cluster.basis import build_unread_lines, describe_unread
from gpushare.cli.output.answer import Answer, Line, lay_out
from gpushare.cli.output.control_characters import escape_controls

Json = dict[str, Any]

_LACKS = {Kind.PODS: "how much of the cards is allocated, and to which pods"}


def inspect_nodes(access: Access, node: str, *, details: bool) -> Answer:
    """Show `node`, or without a name all nodes that share GPU memory."""
    cluster = access.read_node(node) if node else access.read(Kind.NODES, Kind.PODS)
    nodes = observe_card_nodes(cluster.nodes, cluster.pods, only=node)
    if Kind.PODS in cluster.unread:
        return _offer_alone(cluster, nodes)

    def build_page(document: Json, wide: bool) -> list[Line]:
        if wide:
            return list(_build_wide(nodes))
        shown = [_escape_node(node) for node in nodes]
        text = format_details(shown) if details else format_summary(shown)
        # The last line's end is the printer's.
        return [(line,) for line in text.removesuffix("\n").split("\n")]

    return Answer(_build_document(nodes), build_page)


def _offer_alone(cluster: Cluster, nodes: Sequence[InspectedNode]) -> Answer:
    """Answer with the cards' capacity alone, where pods may not be read and allocation is unknown.
    The original's layout has no place for that."""
    document = {
        "unit": find_unit(nodes),
        "nodes": [_describe_offer(node) for node in nodes],
        "total": sum(node.total for node in nodes),
        "unread": describe_unread(cluster, _LACKS),
    }
    return Answer(document, _build_offer_page)


def _describe_offer(node: InspectedNode) -> Json:
    return {
        "name": node.name,
        "address": node.address,
        "gpus": node.gpus,
        "cardTotal": node.card_total,
        "total": node.total,
    }


def _build_offer_page(document: Json, wide: bool) -> Iterator[Line]:
    unit = document["unit"]
    header = ("NAME", "IPADDRESS", "GPUS", f"EACH({unit})", f"TOTAL({unit})")
    yield from lay_out(header, [tuple(map(str, node.values())) for node in document["nodes"]])
    yield from build_unread_lines(document["unread"], wide=wide)


def _escape_node(node: InspectedNode) -> InspectedNode:
    """Escape control characters in names, which would start another line or column."""
    holders = tuple(
        replace(each, name=escape_controls(each.name), namespace=escape_controls(each.namespace))
        for each in node.holders
    )
    name, address = escape_controls(node.name), escape_controls(node.address)
    return replace(node, name=name, address=address, holders=holders)


def _build_document(nodes: Sequence[InspectedNode]) -> Json:
    used = sum(sum(node.used.values()) for node in nodes)
    total = sum(node.total for node in nodes)
    return {
        "unit": find_unit(nodes),
        "nodes": [_describe_node(node) for node in nodes],
        "allocated": used,
        "total": total,
        "percent": count_percent(used, total),
    }


def _describe_node(node: InspectedNode) -> Json:
    return {
        "name": node.name,
        "address": node.address,
        "allocated": sum(node.used.values()),
        "total": node.total,
        "cards": [
            {"index": card, "allocated": units, "total": _total_of(node, card)}
            for card, units in _list_cards(node.used)
        ],
        "pending": node.used.get(PENDING, 0),
        "pods": [_describe_holder(holder) for holder in order_by_card(node)],
    }


def _list_cards(units: Mapping[int, int]) -> list[tuple[int, int]]:
    """List cards by index, `MAX_CARDS` at most: an entry may name any number of unknown cards."""
    return sorted((card, held) for card, held in units.items() if card != PENDING)[:MAX_CARDS]


def _total_of(node: InspectedNode, card: int) -> int:
    """Return a card's total; 0 for a card that entries name and the node has not."""
    return node.card_total if 0 <= card < node.gpus else 0


def _describe_holder(holder: Holder) -> Json:
    return {
        "namespace": holder.namespace,
        "name": holder.name,
        "requested": holder.memory,
        "cards": {str(card): units for card, units in _list_cards(holder.cards)},
        "pending": holder.cards.get(PENDING, 0),
    }


def _build_wide(nodes: Sequence[InspectedNode]) -> Iterator[Line]:
    rows: list[Line] = []
    for node in nodes:
        pending = [(PENDING, node.used[PENDING])] if node.has_pending else []
        for card, units in (*_list_cards(node.used), *pending):
            pods = [f"{h.namespace}/{h.name}" for h in node.holders if card in h.cards]
            total = _total_of(node, card)
            free = "-" if card == PENDING else str(max(total - units, 0))
            place = ("pending", "-") if card == PENDING else (str(card), str(total))
            shown = ", ".join(pods) or "-"
            rows.append((node.name, node.address, place[0], str(units), place[1], free, shown))
    header = ("NODE", "IPADDRESS", "GPU", "ALLOCATED", "TOTAL", "FREE", "PODS")
    yield from lay_out(header, rows)
