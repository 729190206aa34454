"""The record of the mode in force, kept up to date while the node rests or waits."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from gpushare.api.pool import Pool
from gpushare.core.actions import NodePlan, NodeState, build_apply
from gpushare.core.admitted import find_admissions, write_admissions
from gpushare.core.change import build_applied, owned_labels
from gpushare.core.diagnosis import NotYet
from gpushare.core.inforce import (
    is_replaced,
    may_have_misread,
    may_have_reread,
    running_plugins,
)
from gpushare.core.modes import MODES, Mode, find_mode, find_schedule
from gpushare.core.observed import Observed, Pass
from gpushare.core.policy import build_attempt
from gpushare.core.records import Applied
from gpushare.core.verify import verify_mode
from gpushare.names import Reason


def update_applied(
    seen: Observed, pool: Pool, mode: Mode, at: Pass
) -> tuple[Applied | None, NotYet | None]:
    """`applied` as it should be now that the labels are right, and what is missing for it.

    A mode is recorded only once it is verified. A plugin that starts under the right labels reads
    them, so it is remembered as one that is right: a later drift can then be told from one that a
    plugin has read.
    """
    previous = seen.records.applied
    known = previous if previous is not None and previous.is_of(mode) else None
    if known is None or _is_known_again(seen, known):
        missing = verify_mode(seen.node, seen.pods, mode, at)
        if missing is not None:
            # What was in force before is remembered until this is verified.
            return previous, missing
        applied = build_applied(seen, pool.name, mode)
        # The same plugin serves both modes, and may have started before somebody wrote the label.
        unknown = known is None and previous is not None and _share_plugin(previous, mode)
        unknown = unknown or (seen.records.mode_unknown and previous is None and mode.reads_label)
        return applied.model_copy(update={"mode_unknown": True if unknown else None}), None
    changes: dict[str, object] = {"pool": pool.name}
    if known.failure and known.failure.attempt != build_attempt(pool, seen.node.retry):
        # Else it would halt the pool again once the retry annotation is taken away.
        changes["failure"] = None
    changes |= note_readings(seen, known, at)
    # What was verified once is not written again, but it is said when it no longer holds.
    missing = None if known.awaits_restart else verify_mode(seen.node, seen.pods, mode, at)
    return known.model_copy(update=changes), missing


def plan_noted(seen: Observed, held: Mapping[str, str], at: Pass) -> NodePlan | None:
    """What is to be written down on a node that waits for another change; None where nothing is.

    A plugin that restarted has read the labels of the mode in force, which are there and ours.
    Unless that is written down, a label that somebody writes later could have been what it read.
    """
    applied = seen.records.applied
    assert applied is not None
    mode = MODES[applied.edition, applied.schedule]
    intact = held.items() <= seen.node.labels.items() and held.keys() <= seen.node.owned
    intact = intact and mode.labels.items() <= held.items()
    if not intact or applied.awaits_restart:
        return None
    if applied.mode_unknown and verify_mode(seen.node, seen.pods, mode, at) is not None:
        return None
    changes = note_readings(seen, applied, at)
    if not changes:
        return None
    records = seen.records.model_copy(update={"applied": applied.model_copy(update=changes)})
    action = build_apply(
        seen.node,
        owned_labels(seen.node),
        records,
        cordon=seen.node.owns_cordon,
        message="records are written",
    )
    return seen.plan(NodeState.UPDATING, Reason.UPDATING, "records are written", action)


def note_readings(
    seen: Observed, applied: Applied, at: Pass, *, stays: bool = False
) -> dict[str, object]:
    """What changes in `applied` by what its plugin has read since, or may have.

    The write that goes out puts the labels of the mode back, unless a foreign one `stays`. Who was
    admitted before is known now; of a plugin that is told of only later, nobody knows which label
    it has read.
    """
    node, pods, mode = seen.node, seen.pods, MODES[applied.edition, applied.schedule]
    is_ours = mode.labels.keys() <= node.owned
    put_back = applied.put_back if is_ours else _note_foreign(seen, applied)
    is_unknown = (
        (seen.is_doubtful and mode.reads_label)
        or may_have_misread(node, pods, applied)
        or may_have_reread(node, pods, applied, at.is_brief, stays=stays)
    )
    if is_unknown or is_replaced(node, pods, applied):
        return {
            "plugins": running_plugins(pods, mode),
            "boot_id": node.boot_id,
            "mode_unknown": True if is_unknown else None,
            "put_back": put_back if is_unknown else None,
            **write_admissions(find_admissions(seen)),
        }
    if not is_ours and not stays:
        admissions = find_admissions(seen, is_brief=True)
        return {"put_back": put_back, **write_admissions(admissions)}
    if put_back and find_doubt(seen, at) is None:
        return {"put_back": None}
    return {}


def find_doubt(seen: Observed, at: Pass) -> timedelta | None:
    """How long a plugin may still turn out to have started before the labels were put back."""
    applied = seen.records.applied
    if applied is None or applied.put_back is None:
        return None
    left = _find_last_write(seen, at.now) + at.timing.settle - at.now
    # A time further off was written by a clock that is ahead.
    return left if timedelta() < left <= at.timing.settle else None


def _find_last_write(seen: Observed, now: datetime) -> datetime:
    """Of those that put labels back."""
    writes = seen.records.drift.writes if seen.records.drift is not None else ()
    return max(writes, default=now - timedelta(days=1))


def _is_known_again(seen: Observed, applied: Applied) -> bool:
    """Whether the plugin that was to be restarted is another process, which has read our labels."""
    is_other = is_replaced(seen.node, seen.pods, applied)
    return (
        applied.needs_restart and is_other and not may_have_misread(seen.node, seen.pods, applied)
    )


def _note_foreign(seen: Observed, applied: Applied) -> str:
    """Whose plugin a mode has whose label is put back now."""
    theirs = find_mode(applied.edition, find_schedule(applied.edition, seen.node.labels))
    return "SamePlugin" if theirs is not None and _share_plugin(applied, theirs) else "OtherPlugin"


def _share_plugin(applied: Applied, mode: Mode) -> bool:
    return bool(mode.plugin) and MODES[applied.edition, applied.schedule].plugin == mode.plugin
