"""What people's labels say of a node: one mode of one edition, or something that no pool can be."""

from dataclasses import dataclass

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.api.pool import Edition, Placement, Schedule
from gpushare.core.analysis.adoption.notes import Code, Note, note
from gpushare.editions.mode import (
    SWITCHES,
    find_mode,
    find_other_edition_labels,
    find_schedule,
)


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
        message = "MIG devices (nvidia.com/mig-*) are offered, which the operator leaves alone"
        return note(Code.MIG_NODE, node.name, message)
    labels = node.labels
    present = [edition for edition in Edition if SWITCHES[edition] in labels]
    clear = [edition for edition in present if not find_other_edition_labels(edition, labels)]
    if not present:
        return None
    if not clear:
        shown = ", ".join(f"{key}={labels[key]}" for key in map(SWITCHES.__getitem__, present))
        message = f"labels of two editions share the GPUs ({shown}); remove those of one"
        return note(Code.CONFLICTING_LABELS, node.name, message)
    return _read_edition(node, clear[0])


def _read_edition(node: Node, edition: Edition) -> Carried | Note:
    found = find_schedule(edition, node.labels)
    mode = find_mode(edition, found)
    meant = mode.labels if mode is not None else {SWITCHES[edition]: ""}
    unknown = [f"{k}={node.labels[k]}" for k, v in meant.items() if node.labels.get(k, v) != v]
    if mode is None or unknown:
        message = (
            f"{' and '.join(unknown)} is nothing that the operator knows on the {edition} edition, "
            "and is kept as it is"
        )
        return note(Code.UNKNOWN_VALUE, node.name, message)
    placement = node.labels.get(names.LABEL_PLACEMENT)
    known = edition is Edition.PROFESSIONAL and placement in set(Placement)
    return Carried(edition, mode.schedule, Placement(placement) if known and placement else None)


def note_placement(node: Node, carried: Carried) -> Note | None:
    """A placement that the node's pool does not say, and that stays on the node."""
    placement = node.labels.get(names.LABEL_PLACEMENT)
    if placement is None or carried.placement is not None:
        return None
    message = f"{names.LABEL_PLACEMENT}={placement} says nothing there, and stays as it is"
    return note(Code.PLACEMENT_IGNORED, node.name, message)
