"""Prints the two views of `kubectl inspect gpushare`, to the byte, except the order of nodes.

Scripts and habits rest on them, trailing blanks and lengths of dashes included. The original shows
nodes, and with -d the pods of a node, in another order each time; here they are sorted.
"""

from collections.abc import Sequence
from itertools import groupby

from gpushare.analysis.inspect.cards import (
    PENDING,
    Holder,
    InspectedNode,
    count_percent,
    find_unit,
    order_by_card,
)

_CLUSTER = "Allocated/Total GPU Memory In Cluster:"
_PADDING = 2


def format_summary(nodes: Sequence[InspectedNode]) -> str:
    """Format a line for each node, and the sum of all."""
    cards = max((node.gpus for node in nodes), default=0)
    with_pending = any(node.has_pending for node in nodes)
    titles = [f"GPU{card}(Allocated/Total)" for card in range(cards)]
    titles += ["PENDING(Allocated)"] if with_pending else []
    header = "\t".join(["NAME", "IPADDRESS", *titles, f"GPU Memory({find_unit(nodes)})"])
    shown = [node for node in nodes if node.total > 0]
    rows = [_format_row(node, cards, with_pending=with_pending) for node in shown]
    # As long as the first line is before it is aligned, its end included, and 20 more.
    dashes = "-" * (len(rows[0].encode()) + 21) if rows else ""
    used = sum(_count_shown(node, cards) for node in shown)
    total = sum(node.total for node in shown)
    sums = f"{used}/{total} ({count_percent(used, total)}%)\t"
    return _align("\n".join([header, *rows, dashes, _CLUSTER, sums, ""]))


def _format_row(node: InspectedNode, cards: int, *, with_pending: bool) -> str:
    cells = [node.name, node.address]
    for card in range(cards):
        held = node.used.get(card)
        cells.append("0/0" if held is None else f"{held}/{node.card_total}")
    if with_pending:
        cells.append(str(node.used[PENDING]) if node.has_pending else "")
    return "\t".join([*cells, f"{_count_shown(node, cards)}/{node.total}"])


def _count_shown(node: InspectedNode, cards: int) -> int:
    """Count what a node's row shows: units on a card beyond the last column are left out."""
    return sum(units for card, units in node.used.items() if card == PENDING or 0 <= card < cards)


def format_details(nodes: Sequence[InspectedNode]) -> str:
    """Format a block for each node with its pods, and the sum of all."""
    lines: list[str] = []
    used = total = 0
    dashes = ""
    for node in nodes:
        if node.total <= 0:
            continue
        rows = [_format_holder(holder, node) for holder in order_by_card(node)]
        # The first node's rows before they are aligned, their ends included, and 10 more.
        dashes = dashes or "-" * (sum(len(row.encode()) + 1 for row in rows) + 10)
        held = sum(node.used.values())
        lines += ["", f"NAME:\t{node.name}", f"IPADDRESS:\t{node.address}", ""]
        lines += [_format_titles(node), *rows]
        lines += [f"Allocated :\t{held} ({count_percent(held, node.total)}%)\t"]
        lines += [f"Total :\t{node.total} \t", dashes]
        used += held
        total += node.total
    lines += ["", "", f"{_CLUSTER}\t{used}/{total} ({count_percent(used, total)}%)\t", ""]
    return _align("\n".join(lines))


def _format_titles(node: InspectedNode) -> str:
    titles = [f"GPU{card}(Allocated)" for card in range(node.gpus)]
    titles += ["Pending(Allocated)"] if node.has_pending else []
    return "\t".join(["NAME", "NAMESPACE", *titles, ""])


def _format_holder(holder: Holder, node: InspectedNode) -> str:
    places = range(node.gpus + node.has_pending)
    amounts: list[int] = []
    for place in places:
        if holder.allocation:
            amounts.append(holder.allocation.get(place, 0))
        else:
            # The last column is that of no card, and of one more card than there are.
            card = node.gpus if holder.card == PENDING else holder.card
            amounts.append(holder.memory if place == card else 0)
    return "\t".join([holder.name, holder.namespace, *map(str, amounts), ""])


def _align(text: str) -> str:
    """Align `text` in columns, as Go's text/tabwriter does.

    A cell ends with a tab. A column is a run of lines that have a cell there; it is as wide as its
    widest cell and the padding. What follows the last tab of a line belongs to no column ("Package
    tabwriter" in the Go documentation).
    """
    lines = [line.split("\t") for line in text.split("\n")]
    for column in range(max(map(len, lines)) - 1):
        for has_cell, group in groupby(lines, key=lambda line: len(line) - 1 > column):
            run = list(group)
            width = max(len(line[column]) for line in run) + _PADDING if has_cell else 0
            for line in run if has_cell else ():
                line[column] = line[column].ljust(width)
    return "\n".join(map("".join, lines))
