"""Reads the labels that users set on a node: one mode of one edition, or what no pool can be."""

from dataclasses import dataclass

from gpushare import names
from gpushare.analysis.adoption.notes import AdoptionCode, Note, note
from gpushare.api.k8s.node import Node
from gpushare.api.pool import Edition, ModeName, Placement
from gpushare.editions.edition import EditionDescription
from gpushare.editions.registry import EDITIONS, find_mode, find_other_edition_labels


@dataclass(frozen=True, slots=True)
class Carried:
    """A mode, and the placement of pods on cards, where that is set."""

    edition: Edition
    schedule: ModeName
    placement: Placement | None = None

    def __str__(self) -> str:
        placement = f", {self.placement}" if self.placement else ""
        return f"{self.schedule} ({self.edition}{placement})"


def read_carried(node: Node) -> Carried | Note | None:
    """Read what `node` carries; None without a mode's label, a note where no pool can have it.

    Unknown values are kept, never rewritten: they may be those of a newer plugin.
    """
    if node.offers_mig:
        return note(AdoptionCode.MIG_NODE, node.name, "offers MIG devices (nvidia.com/mig-*)")
    labels = node.labels
    present = [each for each in EDITIONS.values() if each.modes and each.switch in labels]
    clear = [each for each in present if not find_other_edition_labels(each.edition, labels)]
    if not present:
        return None
    if not clear:
        shown = ", ".join(f"{each.switch}={labels[each.switch]}" for each in present)
        message = f"has labels of two editions ({shown}): remove those of one"
        return note(AdoptionCode.CONFLICTING_LABELS, node.name, message)
    return _read_edition(node, clear[0])


def _read_edition(node: Node, description: EditionDescription) -> Carried | Note:
    edition = description.edition
    mode = find_mode(edition, description.find_schedule(node.labels))
    meant = mode.labels if mode is not None else {description.switch: ""}
    unknown = [f"{k}={node.labels[k]}" for k, v in meant.items() if node.labels.get(k, v) != v]
    if mode is None or unknown:
        message = f"{' and '.join(unknown)} is not a mode of edition {edition}, and is not changed"
        return note(AdoptionCode.UNKNOWN_VALUE, node.name, message)
    placement = node.labels.get(names.LABEL_PLACEMENT)
    known = description.has_placement and placement in set(Placement)
    return Carried(edition, mode.schedule, Placement(placement) if known and placement else None)


def note_placement(node: Node, carried: Carried) -> Note | None:
    """Note a placement that the node's pool does not set, and that stays on the node."""
    placement = node.labels.get(names.LABEL_PLACEMENT)
    if placement is None or carried.placement is not None:
        return None
    message = f"{names.LABEL_PLACEMENT}={placement} has no effect there, and is not changed"
    return note(AdoptionCode.PLACEMENT_IGNORED, node.name, message)
