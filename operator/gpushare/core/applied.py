"""The record of the mode in force, kept up to date while the node rests or waits."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from gpushare import names
from gpushare.api.pool import Pool, Schedule
from gpushare.core.actions import NodePlan, NodeState, build_apply
from gpushare.core.admitted import find_admissions, write_admissions
from gpushare.core.change import build_applied, owned_labels
from gpushare.core.diagnosis import NotYet
from gpushare.core.drift import Verdict
from gpushare.core.inforce import is_replaced, may_have_misread, running_plugins
from gpushare.core.modes import MODES, Mode, find_schedule
from gpushare.core.observed import Observed, Pass
from gpushare.core.policy import build_attempt
from gpushare.core.records import Applied
from gpushare.core.verify import verify_mode
from gpushare.names import Reason


def update_applied(
    seen: Observed, pool: Pool, mode: Mode, verdict: Verdict, at: Pass
) -> tuple[Applied | None, NotYet | None]:
    """`applied` as it should be now that the labels are right, and what is missing for it.

    A mode is recorded only once it is verified. A plugin that starts under the right labels reads
    them, so it is remembered as one that is right: a later drift can then be told from one that a
    plugin has read.
    """
    previous = seen.records.applied
    known = previous if previous is not None and previous.is_of(mode) else None
    replaced = known is not None and is_replaced(seen.node, seen.pods, known)
    if known is None or (known.awaits_restart and replaced):
        missing = verify_mode(seen.node, seen.pods, mode, at)
        if missing is not None:
            # What was in force before is remembered until this is verified.
            return previous, missing
        applied = build_applied(seen, pool.name, mode)
        # The same plugin serves both modes, and may have started before somebody wrote the label.
        unsure = known is None and previous is not None and _share_plugin(previous, mode)
        return applied.model_copy(update={"unsure": True if unsure else None}), None
    changes: dict[str, object] = {"pool": pool.name}
    if known.failure and known.failure.attempt != build_attempt(pool, seen.node.retry):
        # Else it would halt the pool again once the retry annotation is taken away.
        changes["failure"] = None
    if replaced:
        changes |= _note_restart(seen, known)
    changes |= note_repair(seen, known, verdict, at)
    # What was verified once is not written again, but it is said when it no longer holds.
    missing = None if known.awaits_restart else verify_mode(seen.node, seen.pods, mode, at)
    return known.model_copy(update=changes), missing


def plan_noted(
    seen: Observed, held: Mapping[str, str], verdict: Verdict, at: Pass
) -> NodePlan | None:
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
    changes = note_repair(seen, applied, verdict, at)
    if is_replaced(seen.node, seen.pods, applied):
        changes |= _note_restart(seen, applied)
        if may_have_misread(seen.node, seen.pods, applied):
            changes["unsure"] = True
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


def note_repair(seen: Observed, applied: Applied, verdict: Verdict, at: Pass) -> dict[str, object]:
    """What changes in `applied` where a label of the mode is put back now, or was a moment ago.

    Who was admitted before that is known now; of a plugin that is told of only later, nobody knows
    which label it has read.
    """
    if verdict.puts_back and not MODES[applied.edition, applied.schedule].labels.keys() <= (
        seen.node.owned
    ):
        said = find_schedule(applied.edition, seen.node.labels)
        theirs = MODES.get((applied.edition, Schedule(said))) if said in set(Schedule) else None
        shared = theirs is not None and _share_plugin(applied, theirs)
        put_back = "SamePlugin" if shared else "OtherPlugin"
        return {"put_back": put_back, **write_admissions(find_admissions(seen))}
    if applied.put_back and find_doubt(seen, at) is None:
        return {"put_back": None}
    return {}


def find_doubt(seen: Observed, at: Pass) -> timedelta | None:
    """How long a plugin may still turn out to have started before the labels were put back."""
    applied = seen.records.applied
    if applied is None or applied.put_back is None:
        return None
    left = _find_last_repair(seen, at.now) + at.timing.settle - at.now
    # A time further off was written by a clock that is ahead.
    return left if timedelta() < left <= at.timing.settle else None


def _find_last_repair(seen: Observed, now: datetime) -> datetime:
    repairs = seen.records.drift.repairs if seen.records.drift is not None else ()
    times = [repair.at for repair in repairs if repair.key in names.MODE_LABELS]
    return max(times, default=now - timedelta(days=1))


def _note_restart(seen: Observed, applied: Applied) -> dict[str, object]:
    """Another process of the plugin has read the labels that are there."""
    running = running_plugins(seen.pods, MODES[applied.edition, applied.schedule])
    # In a new boot the kubelet admitted every pod anew, under these labels.
    booted = applied.is_of_another_boot(seen.node)
    admissions = {} if booted else find_admissions(seen)
    return {
        "plugins": running,
        "boot_id": seen.node.boot_id,
        "unsure": None,
        "put_back": None,
        **write_admissions(admissions),
    }


def _share_plugin(applied: Applied, mode: Mode) -> bool:
    return bool(mode.plugin) and MODES[applied.edition, applied.schedule].plugin == mode.plugin
