"""Decides whether labels of ours that another manager changed are restored, or left to it.

A foreign change is drift, and is reverted at once. The third by the same manager on the same node
and key within ten minutes makes that manager a rival: `Report` gives way and reports it, `Force`
goes on at a slow pace. The counts are kept on the node, so that they survive a restart.

The labels are restored by `nodechange.labels_in_force` and the rules of the phases.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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

    given_up: frozenset[str] = frozenset()
    """Keys that are left to a rival."""
    fought_over: frozenset[str] = frozenset()
    """Keys that a rival keeps writing, given up or not."""
    conflicts: tuple[LabelConflict, ...] = ()
    reverts: bool = False
    """Whether a foreign value is to be replaced by the operator's."""
    record: Drift | None = None
    """The record of drift that a write which goes out now must leave on the node."""
    wait: timedelta | None = None
    """How long to delay the write, if the operator wrote too often of late."""
    calm_after: timedelta | None = None
    """How long until the oldest counted revert no longer counts, which may end a conflict."""

    @property
    def message(self) -> str:
        return ". ".join([*map(describe_conflict, self.conflicts), END_CONFLICT])


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
        return DriftJudgement()
    began = records.drift or Drift(claim=claim.spec, retry=node.retry)
    drift = began
    if (began.claim, began.retry) != (claim.spec, node.retry):
        # The spec has changed, or a user asks to try again.
        drift = Drift(claim=claim.spec, retry=node.retry)
    foreign = {key: ours for key, ours in lost.items() if node.labels.get(key) != ours}
    unresolved = () if claim.force else tuple(r for r in drift.conflicts if r.key in foreign)
    given_way = {conflict.key for conflict in unresolved}
    reverts = [revert for revert in drift.reverts if abs(now - revert.at) < WINDOW]
    known, conflicts, reverted = tuple(reverts), list(unresolved), False
    for key, ours in foreign.items():
        if key in given_way:
            continue
        theirs = node.labels.get(key)
        manager = node.managers.get(key, "") if theirs is not None else ""
        flip = DriftRevert(key=key, manager=manager, theirs=theirs, at=now)
        may_give_way = not claim.force and key != names.LABEL_ISOLATION_VERIFIED
        if may_give_way and _count(reverts, flip) >= PATIENCE:
            began_at = min(revert.at for revert in known if _is_same(revert, flip))
            conflicts.append(_build_conflict(flip, ours, began_at))
        else:
            reverts.append(flip)
            reverted = True
    given_up = frozenset(conflict.key for conflict in conflicts)
    remembered = (
        *conflicts,
        *(conflict for conflict in drift.conflicts if conflict.key not in wanted),
    )
    record = records.drift
    if reverted or lost.keys() - foreign.keys() or remembered != began.conflicts:
        record = drift.model_copy(
            update={
                "reverts": tuple(reverts[-_KEPT_REVERTS:]),
                "conflicts": remembered,
                "writes": (*drift.writes, now)[-WRITES_PER_PACE:],
            }
        )
    conflicts += [
        _build_conflict(flip, wanted[flip.key], max(r.at for r in known if _is_same(r, flip)))
        for flip in {(r.key, r.manager): r for r in reverts}.values()
        if _count(reverts, flip) > PATIENCE and flip.key in wanted
    ]
    return DriftJudgement(
        given_up=given_up,
        fought_over=frozenset(conflict.key for conflict in conflicts),
        conflicts=tuple(conflicts),
        reverts=reverted,
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
    drift = records.drift
    is_gone = node.owns_cordon and records.change is None
    if not is_gone or is_removed_again(drift, claim, node.retry):
        return drift
    if drift is None or (drift.claim, drift.retry) != (claim.spec, node.retry):
        drift = Drift(claim=claim.spec, retry=node.retry)
    recent = (at for at in drift.removals if abs(now - at) < WINDOW)
    return drift.model_copy(update={"removals": (*recent, now)})


def is_removed_again(drift: Drift | None, claim: Enforcement, retry: str) -> bool:
    """Return whether the record of a change was removed so often that no change begins."""
    if drift is None or (drift.claim, drift.retry) != (claim.spec, retry):
        return False
    return len(drift.removals) > PATIENCE


def _once_ours(node: Node, records: NodeRecords) -> frozenset[str]:
    """Return keys that the operator has written on the node: losing one of them is drift."""
    ours, verified = {names.LABEL_POOL, names.LABEL_PLACEMENT}, set[str]()
    if records.mode is not None:
        ours |= records.mode.labels.keys()
        # A former writer has no claim to this label. Where it is absent it was never written yet.
        verified = {names.LABEL_ISOLATION_VERIFIED}
    return frozenset(records.initial_values or ()) & ours | (verified & node.labels.keys())


def _count(reverts: Sequence[DriftRevert], flip: DriftRevert) -> int:
    """Count the reverts of changes by the manager of `flip` to its key."""
    return sum(_is_same(revert, flip) for revert in reverts)


def _is_same(revert: DriftRevert, flip: DriftRevert) -> bool:
    return (revert.key, revert.manager) == (flip.key, flip.manager)


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
