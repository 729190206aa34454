"""Decides whether labels of ours that another manager changed are restored, or left to it.

A foreign change is drift, and is reverted at once. The third by the same manager on the same node
and key within ten minutes makes that manager a rival: `Report` gives way and reports it, `Force`
goes on at a slow pace. The counts are kept on the node, so that they survive a restart.

`nodechange.label_restoration` tells users of it, and the rules of the phases restore the labels.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from gpushare import names
from gpushare.api.k8s.node import Node
from gpushare.core.records.drift_record import Drift, DriftRevert, LabelConflict
from gpushare.core.records.node_records import NodeRecords

WINDOW = timedelta(minutes=10)
"""The time within which changes by the same manager are counted together."""
PATIENCE = 2
"""The number of changes within `WINDOW` that are reverted; the next one makes a rival."""
PACE = timedelta(minutes=1)
WRITES_PER_PACE = 6
_KEPT_REVERTS = 12
END_CONFLICT = "Stop that writer (on ACK: change the node pool)"
"""Text that follows all conflicts of a node once: a status cuts the end of a long message."""


@dataclass(frozen=True, slots=True)
class Enforcement:
    """The pool for which labels are enforced, and whether by force."""

    spec: str = ""
    """The pool and the generation of its spec, as one string."""
    force: bool = False


@dataclass(frozen=True, slots=True)
class DriftJudgement:
    """The decision about foreign changes of the operator's labels on one node."""

    node: str
    kept: Mapping[str, str] = field(default_factory=dict)
    """The labels that the operator keeps on the node: all that were judged, without `given_up`."""
    given_up: frozenset[str] = frozenset()
    """Keys that are left to a rival."""
    conflicts: tuple[LabelConflict, ...] = ()
    """Rivals that keep writing keys, given up or not."""
    reverts: bool = False
    """Whether a foreign value is to be replaced by the operator's."""
    record: Drift | None = None
    """The record of drift that a write which goes out now must leave on the node."""
    wait: timedelta | None = None
    """How long to delay the write, if the operator wrote too often of late."""
    calm_after: timedelta | None = None
    """How long until the oldest counted revert no longer counts, which may end a conflict."""

    @property
    def is_over_mode(self) -> bool:
        """Whether a rival keeps writing a label of the mode."""
        return any(conflict.key in names.MODE_LABELS for conflict in self.conflicts)

    @property
    def message(self) -> str:
        """Explain who keeps changing the labels, and how to end that."""
        retry = f", then run `kubectl gpushare retry node/{self.node}`" if self.given_up else ""
        return ". ".join([*map(describe_conflict, self.conflicts), f"{END_CONFLICT}{retry}"])


def describe_conflict(conflict: LabelConflict) -> str:
    """Describe who writes which value against the operator's; `END_CONFLICT` is to follow."""
    key, theirs = conflict.key, conflict.theirs
    what = f"removing label {key}" if theirs is None else f"writing {key}={theirs}"
    return f"{_name(conflict.manager)} keeps {what}, but the pool needs {conflict.ours}"


def describe_revert(revert: DriftRevert, ours: str) -> str:
    """Describe who had written which value, that `ours` is restored, and what a user can do."""
    theirs = "had removed it" if revert.theirs is None else f"had written {revert.theirs!r}"
    return (
        f"{_name(revert.manager)} {theirs}; the label {revert.key} is {ours!r} again. If a node "
        "pool sets it, set the same value there, or remove the label from the node pool"
    )


def _name(manager: str) -> str:
    """Name a field manager in a message; it is unknown (empty) if it removed the key."""
    return (
        f"Field manager {manager}"
        if manager
        else "An unknown field manager (the API server's audit log names it)"
    )


def judge_drift(
    node: Node, records: NodeRecords, wanted: Mapping[str, str], claim: Enforcement, now: datetime
) -> DriftJudgement:
    """Decide about the labels of `wanted` that the operator owned once and no longer owns."""
    once_ours = _once_ours(node, records) & wanted.keys()
    lost = {key: wanted[key] for key in sorted(once_ours) if key not in node.owned}
    if not lost and records.drift is None:
        return DriftJudgement(node.name, wanted)
    drift = _find_current(records.drift, claim, node)
    foreign = [key for key, ours in lost.items() if node.labels.get(key) != ours]
    known = tuple(revert for revert in drift.reverts if abs(now - revert.at) < WINDOW)
    unresolved = () if claim.force else tuple(r for r in drift.conflicts if r.key in foreign)
    given_way = {conflict.key for conflict in unresolved}
    flips = [_build_flip(node, key, now) for key in foreign if key not in given_way]
    rivals = [] if claim.force else [flip for flip in flips if _is_rival(flip, known)]
    given_up = unresolved + tuple(
        _build_conflict(flip, wanted[flip.key], min(_find_times(known, flip))) for flip in rivals
    )
    reverted = tuple(flip for flip in flips if flip not in rivals)
    reverts = known + reverted
    remembered = given_up + tuple(each for each in drift.conflicts if each.key not in wanted)
    record = records.drift
    was_remembered = record.conflicts if record is not None else ()
    if reverted or len(lost) > len(foreign) or remembered != was_remembered:
        record = drift.model_copy(
            update={
                "reverts": reverts[-_KEPT_REVERTS:],
                "conflicts": remembered,
                "writes": (*drift.writes, now)[-WRITES_PER_PACE:],
            }
        )
    keys = frozenset(conflict.key for conflict in given_up)
    return DriftJudgement(
        node.name,
        {key: value for key, value in wanted.items() if key not in keys},
        given_up=keys,
        conflicts=given_up + _list_fought(reverts, known, wanted),
        reverts=bool(reverted),
        record=record,
        wait=_find_wait(drift, now) if record is not records.drift else None,
        calm_after=min((r.at + WINDOW - now for r in reverts), default=None),
    )


def note_removal(
    node: Node, records: NodeRecords, claim: Enforcement, now: datetime
) -> Drift | None:
    """Return the drift record to write, with a removal added if the change's record is gone.

    It was removed if the operator's cordon is on the node without the record of a change.
    """
    is_gone = node.owns_cordon and records.change is None
    if not is_gone or is_removed_again(records.drift, claim, node.retry):
        return records.drift
    drift = _find_current(records.drift, claim, node)
    recent = (at for at in drift.removals if abs(now - at) < WINDOW)
    return drift.model_copy(update={"removals": (*recent, now)})


def is_removed_again(drift: Drift | None, claim: Enforcement, retry: str) -> bool:
    """Return whether the record of a change was removed so often that no change begins."""
    if drift is None or (drift.claim, drift.retry) != (claim.spec, retry):
        return False
    return len(drift.removals) > PATIENCE


def _find_current(drift: Drift | None, claim: Enforcement, node: Node) -> Drift:
    """Return `drift`, or a new record if the spec has changed or a user asks to try again."""
    fresh = Drift(claim=claim.spec, retry=node.retry)
    is_same = drift is not None and (drift.claim, drift.retry) == (fresh.claim, fresh.retry)
    return drift if drift is not None and is_same else fresh


def _once_ours(node: Node, records: NodeRecords) -> frozenset[str]:
    """Return keys that the operator has written on the node: losing one of them is drift."""
    ours, verified = {names.LABEL_POOL, names.LABEL_PLACEMENT}, set[str]()
    if records.mode is not None:
        ours |= records.mode.labels.keys()
        # A former writer has no claim to this label. Where it is absent it was never written yet.
        verified = {names.LABEL_ISOLATION_VERIFIED}
    return frozenset(records.initial_values or ()) & ours | (verified & node.labels.keys())


def _build_flip(node: Node, key: str, now: datetime) -> DriftRevert:
    theirs = node.labels.get(key)
    manager = node.managers.get(key, "") if theirs is not None else ""
    return DriftRevert(key=key, manager=manager, theirs=theirs, at=now)


def _is_rival(flip: DriftRevert, known: Iterable[DriftRevert]) -> bool:
    """Return whether the manager of `flip` has changed its key so often that it is given way."""
    may_give_way = flip.key != names.LABEL_ISOLATION_VERIFIED
    return may_give_way and len(_find_times(known, flip)) >= PATIENCE


def _list_fought(
    reverts: Iterable[DriftRevert], known: Iterable[DriftRevert], wanted: Mapping[str, str]
) -> tuple[LabelConflict, ...]:
    """List rivals whose changes are reverted all the same, by force."""
    return tuple(
        _build_conflict(flip, wanted[flip.key], max(_find_times(known, flip)))
        for flip in {(revert.key, revert.manager): revert for revert in reverts}.values()
        if len(_find_times(reverts, flip)) > PATIENCE and flip.key in wanted
    )


def _find_times(reverts: Iterable[DriftRevert], flip: DriftRevert) -> list[datetime]:
    """Find the times of the reverts of changes by the manager of `flip` to its key."""
    of_flip = (flip.key, flip.manager)
    return [revert.at for revert in reverts if (revert.key, revert.manager) == of_flip]


def _build_conflict(flip: DriftRevert, ours: str, since: datetime) -> LabelConflict:
    """Build a conflict; `since` comes from the node's records: equal snapshots give equal plans."""
    return LabelConflict(
        key=flip.key, manager=flip.manager, ours=ours, theirs=flip.theirs, since=since
    )


def _find_wait(drift: Drift, now: datetime) -> timedelta | None:
    """Return how long to wait before one more write keeps the pace; None where it does now."""
    if len(drift.writes) < WRITES_PER_PACE:
        return None
    wait = min(drift.writes[0] + PACE - now, PACE)
    return wait if wait > timedelta() else None
