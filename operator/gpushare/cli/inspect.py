"""`gpushare inspect`: what the cards hold, as the vendors' plugins show it, and pool by pool."""

from collections.abc import Iterator, Sequence
from typing import Any

from gpushare.api.cluster import Kind
from gpushare.cli.access import Access
from gpushare.cli.output import Answer, Line, lay_out
from gpushare.core.inspect.cards import (
    PENDING,
    CardNode,
    Holder,
    count_percent,
    find_unit,
    observe_card_nodes,
    order_by_card,
)
from gpushare.core.inspect.layout import format_details, format_summary

Json = dict[str, Any]


def inspect_nodes(access: Access, node: str, *, details: bool) -> Answer:
    """The answer of `inspect [-d] [NODE]`; no node named: all that share GPU memory."""
    cluster = access.read(Kind.NODES, Kind.PODS, node=node)
    nodes = observe_card_nodes(cluster.nodes, cluster.pods, only=node)
    view = format_details if details else format_summary
    return Answer(
        document=_build_document(nodes),
        # The last line's end is the printer's.
        table=lambda: [(view(nodes).removesuffix("\n"),)],
        wide=lambda: list(_build_wide(nodes)),
    )


def _build_document(nodes: Sequence[CardNode]) -> Json:
    used = sum(sum(node.used.values()) for node in nodes)
    total = sum(node.total for node in nodes)
    return {
        "unit": find_unit(nodes),
        "nodes": [_describe_node(node) for node in nodes],
        "allocated": used,
        "total": total,
        "percent": count_percent(used, total),
    }


def _describe_node(node: CardNode) -> Json:
    return {
        "name": node.name,
        "address": node.address,
        "allocated": sum(node.used.values()),
        "total": node.total,
        "cards": [
            {"index": card, "allocated": units, "total": _total_of(node, card)}
            for card, units in sorted(node.used.items())
            if card != PENDING
        ],
        "pending": node.used.get(PENDING, 0),
        "pods": [_describe_holder(holder) for holder in order_by_card(node)],
    }


def _total_of(node: CardNode, card: int) -> int:
    """0 for a card that entries name and the node has not."""
    return node.card_total if 0 <= card < node.gpus else 0


def _describe_holder(holder: Holder) -> Json:
    return {
        "namespace": holder.namespace,
        "name": holder.name,
        "requested": holder.memory,
        "cards": {str(card): n for card, n in sorted(holder.cards.items()) if card != PENDING},
        "pending": holder.cards.get(PENDING, 0),
    }


def _build_wide(nodes: Sequence[CardNode]) -> Iterator[Line]:
    rows: list[Line] = []
    for node in nodes:
        for card, units in sorted(node.used.items(), key=lambda item: (item[0] == PENDING, item)):
            pods = [f"{h.namespace}/{h.name}" for h in node.holders if card in h.cards]
            total = _total_of(node, card)
            free = "-" if card == PENDING else str(max(total - units, 0))
            place = ("pending", "-") if card == PENDING else (str(card), str(total))
            shown = ", ".join(pods) or "-"
            rows.append((node.name, node.address, place[0], str(units), place[1], free, shown))
    header = ("NODE", "IPADDRESS", "GPU", "ALLOCATED", "TOTAL", "FREE", "PODS")
    yield from lay_out(header, rows)
