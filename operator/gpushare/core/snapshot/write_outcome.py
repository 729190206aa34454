"""Judges what a write to a node brought about, for the metrics."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from gpushare.api.k8s.node import Node
from gpushare.core.records.change_record import Change
from gpushare.core.records.drift_record import Drift, DriftRevert
from gpushare.core.records.node_records import NodeRecords, parse_records
from gpushare.core.snapshot.actions import ApplyNode


class ChangeOutcome(StrEnum):
    """The end of an isolation change on one node."""

    COMPLETED = "completed"
    """Verified, the node takes pods again; also where that came after it had failed."""
    FAILED = "failed"
    """The change missed its deadline, or cannot be done."""
    ROLLED_BACK = "rolled_back"
    """The change failed, and the mode before it is verified again."""
    WITHDRAWN = "withdrawn"
    """Let go of before anything was changed: a pod had come, or the pool wanted something else."""


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """The result of one write."""

    change: ChangeOutcome | None = None
    """A change ended with it."""
    change_seconds: float = 0.0
    """Seconds since the change began."""
    flips: int = 0
    """Labels of ours that somebody else had changed, and that were put back."""
    first_flips: tuple[DriftRevert, ...] = ()
    """Those of the reverted labels whose manager had not changed them lately."""
    is_cordoned_again: bool = False
    """Somebody had uncordoned the node during its change."""
    conflicts: int = 0
    """Managers that it gives way to from now on, one for each label."""


def judge_write(before: Node, action: ApplyNode, now: datetime) -> WriteOutcome:
    """Tell what `action` changed on a node that was as `before`.

    Raises `RecordError` where the records on `before` can't be read.
    """
    was = parse_records(before)
    is_now = parse_records(replace(before, annotations=action.annotations))
    change = _judge_change(was.change, is_now)
    began = was.change.since if change is not None and was.change is not None else now
    drift, later = was.drift or Drift(), is_now.drift or Drift()
    conflicts = {(conflict.key, conflict.manager) for conflict in drift.conflicts}
    flips = [revert for revert in later.reverts if revert not in drift.reverts]
    # Of those before, what the write does not keep is too old to belong to them.
    known = {(revert.key, revert.manager) for revert in later.reverts if revert not in flips}
    return WriteOutcome(
        change=change,
        change_seconds=max((now - began).total_seconds(), 0.0),
        flips=len(flips),
        is_cordoned_again=action.cordon
        and not before.unschedulable
        and was.change is not None
        and was.change.is_under_way,
        first_flips=tuple(flip for flip in flips if (flip.key, flip.manager) not in known),
        conflicts=sum(
            (conflict.key, conflict.manager) not in conflicts for conflict in later.conflicts
        ),
    )


def _judge_change(was: Change | None, records: NodeRecords) -> ChangeOutcome | None:
    """Tell how the change `was` ended, if it did, with a write that left `records`."""
    change = records.change
    if was is None or not was.is_under_way:
        return None
    if change is None and was.is_labelled:
        return ChangeOutcome.ROLLED_BACK if was.rolls_back is not None else ChangeOutcome.COMPLETED
    if change is None or not change.is_under_way:
        return ChangeOutcome.WITHDRAWN
    # A way back that is given up leaves the failure of which it was counted already.
    is_new = change.failure is not None and change.failure not in (was.failure, was.rolls_back)
    return ChangeOutcome.FAILED if is_new else None
