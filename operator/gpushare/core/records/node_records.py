"""Reads and writes what we remember on a node, in annotations such as `change` and `applied`.

Nothing about a node is remembered in the process. Each record carries its version: a record of
another one is left alone rather than misread. Within a version fields may be added: one that this
operator does not know is ignored, and kept for the newer operator that wrote it.
"""

from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.core.records.applied_record import LastApplied
from gpushare.core.records.change_record import Change, Failure
from gpushare.core.records.drift_record import Drift
from gpushare.core.records.record import RecordError
from gpushare.core.records.restart_record import NO_RESTARTS, Restarts
from gpushare.core.records.system_disk import describe_disk, is_disk_replaced
from gpushare.editions.edition import Mode

R = TypeVar("R", Change, LastApplied)
_INITIAL_VALUES: TypeAdapter[dict[str, str | None]] = TypeAdapter(dict[str, str | None])


class NodeRecords(BaseModel):
    """The records of one node."""

    model_config = ConfigDict(frozen=True)

    initial_values: Mapping[str, str | None] | None = None
    change: Change | None = None
    applied: LastApplied | None = None
    drift: Drift | None = None
    restarts: Restarts = NO_RESTARTS
    module: bool = False
    """The cGPU kernel module may be loaded, and nobody has shown since that it is gone. Nodes that
    an older operator brought to a mode that isolates do not say so, but by their mode."""

    disk: str = names.MODULE_LOADED
    """The system disk that the node runs from: written where `module` is."""
    mode_unknown: bool = False
    """The pool that had the node before left it with a plugin that may give another mode than its
    labels say."""

    @property
    def mode(self) -> Mode | None:
        """The mode whose labels we wrote last, applied or on the way to it; None before any."""
        if self.change is not None and self.change.is_labelled:
            return self.change.mode
        return self.applied.mode if self.applied is not None else None

    @property
    def lacking_cards(self) -> int:
        """Number of cards that the node did not offer before its mode was verified, or its change
        began."""
        is_changing = self.change is not None and self.change.is_labelled
        found = self.change if is_changing else self.applied
        return (found.lacking_cards if found is not None else None) or 0

    @property
    def failure(self) -> Failure | None:
        """The last failure on the node: of its change, or of one that was rolled back."""
        change, applied = self.change, self.applied
        of_change = None
        if change is not None and change.is_under_way:
            of_change = change.failure or change.rolls_back
        return of_change or (applied.failure if applied is not None else None)

    def find_loaded(self, mode: Mode) -> Mode:
        """Find what a node has loaded whose labels say `mode`: where a ConfigMap defines that, what
        it said when it was applied, whatever it says now."""
        applied = self.applied.mode if self.applied is not None else mode
        return applied if applied.labels == mode.labels else mode

    def annotations(self) -> dict[str, str]:
        """Write the records as annotations."""
        result: dict[str, str] = {}
        if self.initial_values is not None:
            result[names.ANNOTATION_INITIAL_VALUES] = _INITIAL_VALUES.dump_json(
                dict(self.initial_values)
            ).decode()
        if self.change is not None:
            result[names.ANNOTATION_CHANGE] = self.change.dump()
        if self.applied is not None:
            result[names.ANNOTATION_APPLIED] = self.applied.dump()
        if self.drift is not None:
            result[names.ANNOTATION_DRIFT] = self.drift.dump()
        if self.restarts.at:
            result[names.ANNOTATION_RESTARTS] = self.restarts.dump()
        if self.module:
            result[names.ANNOTATION_MODULE] = self.disk
        if self.mode_unknown:
            result[names.ANNOTATION_MODE_UNKNOWN] = "true"
        return result


def parse_records(node: Node) -> NodeRecords:
    """Read the records of `node`.

    Raises `RecordError` for one that is not ours or of another version: somebody edited it, or
    another version of the operator was here, and acting on a guess could restart what must not.
    """
    found, drift = (
        node.annotations.get(key)
        for key in (names.ANNOTATION_INITIAL_VALUES, names.ANNOTATION_DRIFT)
    )
    try:
        initial_values = _INITIAL_VALUES.validate_json(found) if found else None
        change = _parse_own(node, names.ANNOTATION_CHANGE, Change)
        applied = _parse_own(node, names.ANNOTATION_APPLIED, LastApplied)
        # They name no node: a copy has no other record beside it.
        is_own = change or applied or names.ANNOTATION_INITIAL_VALUES in node.owned
        return NodeRecords(
            initial_values=initial_values if is_own else None,
            change=change,
            applied=applied,
            drift=Drift.model_validate_json(drift) if drift else None,
            restarts=_parse_restarts(node),
            # Whatever it says, unless it is proven that it is said of another disk.
            module=names.ANNOTATION_MODULE in node.annotations and not is_disk_replaced(node),
            disk=describe_disk(node),
            mode_unknown=names.ANNOTATION_MODE_UNKNOWN in node.annotations,
        )
    except ValidationError as error:
        key = {
            Change.__name__: names.ANNOTATION_CHANGE,
            LastApplied.__name__: names.ANNOTATION_APPLIED,
            Drift.__name__: names.ANNOTATION_DRIFT,
        }.get(error.title, names.ANNOTATION_INITIAL_VALUES)
        # Without these nothing says which mode the plugin serves. That goes first in the command,
        # of which a status may show only the beginning.
        is_doubtful = key in (names.ANNOTATION_CHANGE, names.ANNOTATION_APPLIED)
        unknown = f"{names.ANNOTATION_MODE_UNKNOWN}=true " if is_doubtful else ""
        raise RecordError(
            f"Annotation {key} of node {node.name} cannot be read ({error.errors()[0]['msg']}). If "
            "another version of the operator wrote it, run that version. If it was edited, run: "
            f"kubectl annotate node {node.name} {unknown}{key}- --overwrite"
        ) from error


def _parse_own(node: Node, key: str, kind: type[R]) -> R | None:
    """Read a record; None where there is none, or it is a copy of another node's.

    `kubectl annotate --all`, a restored backup and a cloned Node copy them. One that names no node
    is of an older operator while our field manager owns it.
    """
    text = node.annotations.get(key)
    record = kind.model_validate_json(text) if text else None
    if record is None:
        return None
    is_own = record.node_uid == node.uid if record.node_uid else key in node.owned
    return record if is_own else None


def _parse_restarts(node: Node) -> Restarts:
    """Read when its plugin was replaced; none where that can't be read: it bounds a rate."""
    text = node.annotations.get(names.ANNOTATION_RESTARTS)
    try:
        return Restarts.model_validate_json(text) if text else NO_RESTARTS
    except ValidationError:
        return NO_RESTARTS


def extend_initial_values(
    found: Mapping[str, str | None] | None, node: Node, keys: frozenset[str]
) -> dict[str, str | None]:
    """Return `found` with the values that `keys` have on `node` before we own them."""
    result = dict(found or {})
    for key in sorted(keys - node.owned):
        result.setdefault(key, node.labels.get(key))
    return result
