"""The record of what others wrote to our labels."""

from typing import Literal

from gpushare.core.records.record import Moment, Record


class DriftRevert(Record):
    """A label of ours that was put back."""

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
    """What others did to our labels of late. On the node, so that a restart forgets no fight."""

    v: Literal[2] = 2
    claim: str = ""
    """Spec for which all of this was; another one begins anew."""
    retry: str = ""
    """What a person's annotation said then; another value begins anew."""
    reverts: tuple[DriftRevert, ...] = ()
    conflicts: tuple[LabelConflict, ...] = ()
    writes: tuple[Moment, ...] = ()
    """Our last writes for the sake of drift: they set the pace of the next."""
