"""Labels of ours that somebody else changed: put back, unless it turns out to be a fight.

A foreign change is drift, and is put back at once. The third by the same manager on the same node
and key within ten minutes makes that manager a rival: `Report` gives way and says so, `Force` goes
on at a slow pace. What is counted is kept on the node, so that a restart does not begin anew.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpushare import names
from gpushare.api.node import Node
from gpushare.core.modes import MODES
from gpushare.core.records import Drift, NodeRecords, Repair, Rival

WINDOW = timedelta(minutes=10)
"""Changes by the same manager within this time belong together."""
PATIENCE = 2
"""So many are put back within it; the next one makes a rival."""
PACE = timedelta(minutes=1)
WRITES_PER_PACE = 6
_KEPT_REPAIRS = 12
UNNAMED = "a manager that left no name (the key was removed)"


@dataclass(frozen=True, slots=True)
class Claim:
    """For whom labels are held, and how hard."""

    spec: str = ""
    """The pool, and the generation of its spec."""
    force: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be done about foreign changes on one node."""

    given_up: frozenset[str] = frozenset()
    """Keys that are left to a rival."""
    fought_over: frozenset[str] = frozenset()
    """Keys that a rival keeps writing, given up or not."""
    rivals: tuple[Rival, ...] = ()
    puts_back: bool = False
    """A foreign value is to be replaced by ours."""
    record: Drift | None = None
    """What a write that goes out now must leave on the node."""
    wait: timedelta | None = None
    """Not before that, where we wrote often of late."""
    calm_after: timedelta | None = None
    """How long until a fight that nobody continues is over."""

    @property
    def message(self) -> str:
        return "; ".join(describe_rival(rival) for rival in self.rivals)


def describe_rival(rival: Rival) -> str:
    """Who writes what, against which value of ours."""
    theirs = "removes it" if rival.theirs is None else f"writes {rival.theirs!r}"
    return (
        f"{rival.manager or UNNAMED} keeps changing the label {rival.key}: it {theirs}, "
        f"the pool says {rival.ours!r}"
    )


def describe_repair(repair: Repair, ours: str) -> str:
    """Who had written what, which value of ours is there again, and what to do about it."""
    theirs = "had removed it" if repair.theirs is None else f"had written {repair.theirs!r}"
    return (
        f"put the label {repair.key} back to {ours!r}: {repair.manager or UNNAMED} {theirs}. If "
        "that came with the labels of a node pool, give that node pool the same value, or take the "
        "label out of it"
    )


def judge_drift(
    node: Node, records: NodeRecords, wanted: Mapping[str, str], claim: Claim, now: datetime
) -> Verdict:
    """What to do about the labels of `wanted` that were ours and are not any more."""
    once_ours = _once_ours(node, records) & wanted.keys()
    lost = {key: wanted[key] for key in sorted(once_ours) if key not in node.owned}
    if not lost and records.drift is None:
        return Verdict()
    began = records.drift or Drift(claim=claim.spec, retry=node.retry)
    drift = began
    if (began.claim, began.retry) != (claim.spec, node.retry):
        # The spec is another one, or a person asks to try again.
        drift = Drift(claim=claim.spec, retry=node.retry)
    foreign = {key: ours for key, ours in lost.items() if node.labels.get(key) != ours}
    standing = () if claim.force else tuple(r for r in drift.rivals if r.key in foreign)
    given_way = {rival.key for rival in standing}
    repairs = [repair for repair in drift.repairs if abs(now - repair.at) < WINDOW]
    rivals, put_back = list(standing), False
    for key, ours in foreign.items():
        if key in given_way:
            continue
        theirs = node.labels.get(key)
        manager = node.managers.get(key, "") if theirs is not None else ""
        flip = Repair(key=key, manager=manager, theirs=theirs, at=now)
        may_give_way = not claim.force and key != names.LABEL_ISOLATION_VERIFIED
        if may_give_way and _count(repairs, flip) >= PATIENCE:
            # A time that is on the node already, so that equal snapshots give equal plans.
            began_at = min(repair.at for repair in repairs if _is_same(repair, flip))
            rivals.append(_build_rival(flip.model_copy(update={"at": began_at}), ours))
        else:
            repairs.append(flip)
            put_back = True
    given_up = frozenset(rival.key for rival in rivals)
    remembered = (*rivals, *(rival for rival in drift.rivals if rival.key not in wanted))
    record = records.drift
    if put_back or lost.keys() - foreign.keys() or remembered != began.rivals:
        record = drift.model_copy(
            update={
                "repairs": tuple(repairs[-_KEPT_REPAIRS:]),
                "rivals": remembered,
                "writes": (*drift.writes, now)[-WRITES_PER_PACE:],
            }
        )
    rivals += [
        _build_rival(flip, wanted[flip.key])
        for flip in {(r.key, r.manager): r for r in repairs}.values()
        if _count(repairs, flip) > PATIENCE and flip.key in wanted
    ]
    return Verdict(
        given_up=given_up,
        fought_over=frozenset(rival.key for rival in rivals),
        rivals=tuple(rivals),
        puts_back=put_back,
        record=record,
        wait=_find_wait(drift, now) if record is not records.drift else None,
        calm_after=max((r.at + WINDOW - now for r in repairs), default=None),
    )


def _once_ours(node: Node, records: NodeRecords) -> frozenset[str]:
    """Keys that we have put on the node: of those a lost one is drift, not the first take-over."""
    change, applied = records.change, records.applied
    ours = {names.LABEL_POOL, names.LABEL_PLACEMENT}
    if change is not None and change.is_labelled:
        ours |= MODES[change.edition, change.to].labels.keys()
    elif applied is not None:
        ours |= MODES[applied.edition, applied.schedule].labels.keys()
    is_labelled = applied is not None or (change is not None and change.is_labelled)
    # Whoever had it before has no right to it. Where it is absent it was never written yet.
    verified = {names.LABEL_ISOLATION_VERIFIED} if is_labelled else set()
    return frozenset(records.found or ()) & ours | (verified & node.labels.keys())


def _count(repairs: Sequence[Repair], flip: Repair) -> int:
    """How often the same manager changed the same key."""
    return sum(_is_same(repair, flip) for repair in repairs)


def _is_same(repair: Repair, flip: Repair) -> bool:
    return (repair.key, repair.manager) == (flip.key, flip.manager)


def _build_rival(flip: Repair, ours: str) -> Rival:
    return Rival(key=flip.key, manager=flip.manager, ours=ours, theirs=flip.theirs, since=flip.at)


def _find_wait(drift: Drift, now: datetime) -> timedelta | None:
    """How long until one more write keeps the pace."""
    if len(drift.writes) < WRITES_PER_PACE:
        return None
    left = min(drift.writes[0] + PACE - now, PACE)
    return left if left > timedelta() else None
