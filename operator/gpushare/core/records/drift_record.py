"""The record of changes by others to our labels."""

from typing import Literal

from gpushare.core.records.record import Moment, Record


class DriftRevert(Record):
    """A label of ours that was restored."""

    key: str
    manager: str
    """Field manager whose value it had; empty where the key was removed: that leaves no name."""
    theirs: str | None = None
    at: Moment


class LabelConflict(Record):
    """Another manager that keeps writing a label of ours, and that we gave way to."""

    key: str
    manager: str
    ours: str
    theirs: str | None = None
    since: Moment


class Drift(Record):
    """Recent changes to our labels and records by others. It is kept on the node, so that a restart
    forgets none."""

    v: Literal[2] = 2
    claim: str = ""
    """Spec for which all of this was; another one begins anew."""
    retry: str = ""
    """Value of the retry annotation at that time; another value starts the count again."""
    reverts: tuple[DriftRevert, ...] = ()
    conflicts: tuple[LabelConflict, ...] = ()
    writes: tuple[Moment, ...] = ()
    """Our last writes for the sake of drift: they set the pace of the next."""
    removals: tuple[Moment, ...] = ()
    """Times at which the record of a change was found removed, which leaves no manager's name."""
