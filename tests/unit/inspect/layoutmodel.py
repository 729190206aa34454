"""The rules of the layout a second time, so that the two can disagree: character by character.

Cells are set as the documentation of Go's text/tabwriter says, and not as the operator does it;
what is counted comes from the API's objects by rules of its own.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from tests.kit.values.manifests import ALLOCATION, CARD, COUNT, MEMORY

Json = dict[str, Any]
NUMBER = re.compile(r"[+-]?[0-9]+")


@dataclass
class ModelNode:
    """A node, and by card its sum and its pods; -1 is no card."""

    name: str
    ip: str
    count: int
    total: int
    sums: dict[int, int] = field(default_factory=dict)
    rows: dict[int, list[Json]] = field(default_factory=dict)


def set_cells(text: str) -> str:
    """Line by line: the width of a cell is that of its column, found by walking up and down."""
    rows = [line.split("\t") for line in text.splitlines()]

    def width(row: int, column: int) -> int:
        widest, step = 0, row
        while step >= 0 and column < len(rows[step]) - 1:
            widest = max(widest, len(rows[step][column]))
            step -= 1
        step = row + 1
        while step < len(rows) and column < len(rows[step]) - 1:
            widest = max(widest, len(rows[step][column]))
            step += 1
        return widest + 2

    shown = []
    for row, cells in enumerate(rows):
        line = ""
        for column, cell in enumerate(cells[:-1]):
            line += cell + " " * (width(row, column) - len(cell))
        shown.append(line + cells[-1] + "\n")
    return "".join(shown)


def model_nodes(nodes: list[Json], pods: list[Json]) -> list[ModelNode]:
    """The nodes with allocatable memory, by name."""
    found = []
    for raw in sorted(nodes, key=lambda node: node["metadata"]["name"]):
        offered = raw["status"]["allocatable"]
        total = int(offered.get(MEMORY, "0"))
        if total == 0:
            continue
        ip = "unknown"
        for address in reversed(raw["status"]["addresses"]):
            if address["type"] == "InternalIP":
                ip = address["address"]
        node = ModelNode(raw["metadata"]["name"], ip, int(offered.get(COUNT, "0")), total)
        for card in range(node.count):
            node.sums[card] = 0
        for pod in sorted(pods, key=lambda p: (p["metadata"]["namespace"], p["metadata"]["name"])):
            if pod["spec"]["nodeName"] == node.name:
                add(node, pod)
        found.append(node)
    return found


def add(node: ModelNode, pod: Json) -> None:
    if pod["status"]["phase"] in ("Succeeded", "Failed") or demand(pod) == 0:
        return
    for card, units in model_cards(pod).items():
        node.sums[card] = node.sums.get(card, 0) + units
        node.rows.setdefault(card, []).append(pod)


def demand(pod: Json) -> int:
    return sum(int(c["resources"]["limits"][MEMORY]) for c in pod["spec"]["containers"])


def read_allocation(pod: Json) -> dict[int, int]:
    """As Go would decode it into a map of numbers to maps of strings to whole numbers."""
    try:
        entry = json.loads(pod["metadata"]["annotations"].get(ALLOCATION, ""))
    except json.JSONDecodeError:
        return {}
    if not isinstance(entry, dict) or not all(NUMBER.fullmatch(key) for key in entry):
        return {}
    cards: dict[int, int] = {}
    for held in entry.values():
        if held is None:
            continue
        if not isinstance(held, dict):
            return {}
        for card, units in held.items():
            if not NUMBER.fullmatch(card) or isinstance(units, bool | float | str | None):
                return {}
            cards[int(card)] = cards.get(int(card), 0) + units
    return cards


def model_cards(pod: Json) -> dict[int, int]:
    if cards := read_allocation(pod):
        return cards
    index = pod["metadata"]["annotations"].get(CARD, "")
    return {int(index) if NUMBER.fullmatch(index) else -1: demand(pod)}


def percent(used: int, total: int) -> str:
    return f"{used}/{total} ({int(used / total * 100) if total else 0}%)\t"


def model_summary(nodes: list[ModelNode]) -> str:
    widest = max([node.count for node in nodes], default=0)
    waiting = any(-1 in node.sums for node in nodes)
    unit = ""
    for node in reversed(nodes):
        if node.count:
            unit = "MiB" if node.total // node.count > 100 else "GiB"
    text = "NAME\tIPADDRESS\t"
    for card in range(widest):
        text += f"GPU{card}(Allocated/Total)\t"
    text += "PENDING(Allocated)\t" if waiting else ""
    text += f"GPU Memory({unit})\n"
    dashes, everything = 0, [0, 0]
    for node in nodes:
        row, used = f"{node.name}\t{node.ip}\t", node.sums.get(-1, 0)
        for card in range(widest):
            if card not in node.sums:
                row += "0/0\t"
                continue
            row += f"{node.sums[card]}/{node.total // node.count if node.count else 0}\t"
            used += node.sums[card]
        if waiting:
            row += f"{node.sums.get(-1, '')}\t"
        row += f"{used}/{node.total}\n"
        dashes = dashes or len(row) + 20
        everything = [everything[0] + used, everything[1] + node.total]
        text += row
    text += "-" * dashes + "\nAllocated/Total GPU Memory In Cluster:\n"
    return set_cells(text + percent(*everything) + "\n")


def model_details(nodes: list[ModelNode]) -> str:
    text, dashes, everything = "", 0, [0, 0]
    for node in nodes:
        text += f"\nNAME:\t{node.name}\nIPADDRESS:\t{node.ip}\n\nNAME\tNAMESPACE\t"
        columns = node.count + (-1 in node.sums)
        for place in range(columns):
            title = f"GPU{place}" if place < node.count else "Pending"
            text += f"{title}(Allocated)\t"
        text += "\n"
        rows, seen = "", set()
        for card in [*sorted(card for card in node.rows if card != -1), -1]:
            for pod in node.rows.get(card, []):
                meta = pod["metadata"]
                if meta["uid"] in seen:
                    continue
                seen.add(meta["uid"])
                rows += f"{meta['name']}\t{meta['namespace']}\t"
                for place in range(columns):
                    if allocation := read_allocation(pod):
                        rows += f"{allocation.get(place, 0)}\t"
                    elif place == card or (card == -1 and place == node.count):
                        rows += f"{demand(pod)}\t"
                    else:
                        rows += "0\t"
                rows += "\n"
        dashes = dashes or len(rows) + 10
        used = sum(node.sums.values())
        text += rows + "Allocated :\t" + percent(used, node.total).split("/")[0]
        text += " " + percent(used, node.total).split(" ")[1] + "\n"
        text += f"Total :\t{node.total} \t\n" + "-" * dashes + "\n"
        everything = [everything[0] + used, everything[1] + node.total]
    text += "\n\nAllocated/Total GPU Memory In Cluster:\t" + percent(*everything) + "\n"
    return set_cells(text)
