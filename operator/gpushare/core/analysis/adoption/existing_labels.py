"""What people's labels say of a node: one mode of one edition, or something that no pool can be."""

from dataclasses import dataclass

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.api.pool import Edition, Placement, Schedule
from gpushare.core.analysis.adoption.notes import Code, Note, note
from gpushare.editions.edition import EditionDescription
from gpushare.editions.registry import EDITIONS, find_mode, find_other_edition_labels


@dataclass(frozen=True, slots=True)
class Carried:
    """A mode, and which card of a node a pod gets, where that is said."""

    edition: Edition
    schedule: Schedule
    placement: Placement | None = None

    def __str__(self) -> str:
        placement = f", {self.placement}" if self.placement else ""
        return f"{self.schedule} ({self.edition}{placement})"


def read_carried(node: Node) -> Carried | Note | None:
    """What `node` carries; None without a mode's label, else a remark where no pool can be that.

    Values that nobody knows are kept, never rewritten: they may be those of a newer plugin.
    """
    if node.offers_mig:
        return note(Code.MIG_NODE, node.name, "it offers MIG devices (nvidia.com/mig-*)")
    labels = node.labels
    present = [each for each in EDITIONS.values() if each.switch in labels]
    clear = [each for each in present if not find_other_edition_labels(each.edition, labels)]
    if not present:
        return None
    if not clear:
        shown = ", ".join(f"{each.switch}={labels[each.switch]}" for each in present)
        message = f"labels of two editions share the GPUs ({shown}); remove those of one"
        return note(Code.CONFLICTING_LABELS, node.name, message)
    return _read_edition(node, clear[0])


def _read_edition(node: Node, description: EditionDescription) -> Carried | Note:
    edition = description.edition
    mode = find_mode(edition, description.find_schedule(node.labels))
    meant = mode.labels if mode is not None else {description.switch: ""}
    unknown = [f"{k}={node.labels[k]}" for k, v in meant.items() if node.labels.get(k, v) != v]
    if mode is None or unknown:
        message = (
            f"{' and '.join(unknown)} is no mode of the {edition} edition, and is kept as it is"
        )
        return note(Code.UNKNOWN_VALUE, node.name, message)
    placement = node.labels.get(names.LABEL_PLACEMENT)
    known = description.has_placement and placement in set(Placement)
    return Carried(edition, mode.schedule, Placement(placement) if known and placement else None)


def note_placement(node: Node, carried: Carried) -> Note | None:
    """A placement that the node's pool does not say, and that stays on the node."""
    placement = node.labels.get(names.LABEL_PLACEMENT)
    if placement is None or carried.placement is not None:
        return None
    message = f"{names.LABEL_PLACEMENT}={placement} says nothing there, and stays as it is"
    return note(Code.PLACEMENT_IGNORED, node.name, message)
