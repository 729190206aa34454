"""The node label for pods that require isolation: whether it is verified to be in force."""

from collections.abc import Mapping

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.core.records.node_records import NodeRecords
from gpushare.editions.edition import Mode
from gpushare.editions.registry import MODES

_ISOLATING = tuple(mode for mode in MODES.values() if mode.isolated)


def find_isolation_label(
    node: Node, labels: Mapping[str, str], records: NodeRecords
) -> dict[str, str]:
    """Return the label that belongs beside `labels` and `records` on `node`; empty where none does.

    A mode that isolates has it with either value, rather than none: a value that came with the
    node, or from another manager, must not stay.
    """
    mode, is_verified = _read_records(records)
    is_labelled = mode is not None and mode.labels.items() <= labels.items()
    if mode is not None and mode.isolated:
        is_true = is_verified and is_labelled
        return {names.LABEL_ISOLATION_VERIFIED: names.VERIFIED if is_true else names.UNVERIFIED}
    # Labelled, and no record says so yet.
    is_strange = names.LABEL_ISOLATION_VERIFIED in node.labels.keys() - node.owned
    if is_strange or any(each.labels.items() <= labels.items() for each in _ISOLATING):
        return {names.LABEL_ISOLATION_VERIFIED: names.UNVERIFIED}
    return {}


def _read_records(records: NodeRecords) -> tuple[Mode | None, bool]:
    """Read the mode that the node is in or on its way to, and whether that is verified.

    Until a change has written its labels, what was in force still is; unless it follows one that
    failed.
    """
    change, applied = records.change, records.applied
    if change is not None and change.is_under_way and change.labelled_at is not None:
        return change.mode, False
    if applied is None:
        return None, False
    return applied.mode, not applied.needs_restart
