"""The record of the mode in force, kept up to date while the node rests or waits."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from gpushare.api.pool import Pool
from gpushare.core.deviceplugin.findings import NotYet
from gpushare.core.deviceplugin.verification import verify_mode
from gpushare.core.nodechange.ongoing_change import build_last_applied, owned_labels
from gpushare.core.records.applied_record import LastApplied
from gpushare.core.snapshot.actions import NodeState, StepResult, build_apply
from gpushare.core.snapshot.admissions import find_admissions, write_admissions
from gpushare.core.snapshot.change_policy import build_attempt
from gpushare.core.snapshot.effective_mode import (
    is_replaced,
    may_have_misread,
    may_have_reread,
    running_plugins,
)
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext
from gpushare.editions.edition import Mode
from gpushare.editions.registry import MODES, find_mode, find_schedule
from gpushare.names import Reason


def update_last_applied(
    seen: NodeSnapshot, pool: Pool, mode: Mode, ctx: ReconcileContext
) -> tuple[LastApplied | None, NotYet | None]:
    """`applied` as it should be now that the labels are right, and what is missing for it.

    A mode is recorded only once it is verified. A plugin that starts under the right labels reads
    them, so it is remembered as one that is right: a later drift can then be told from one that a
    plugin has read.
    """
    previous = seen.records.applied
    known = previous if previous is not None and previous.is_of(mode) else None
    if known is None or _is_known_again(seen, known):
        missing = verify_mode(seen.node, seen.pods, mode, ctx)
        if missing is not None:
            # What was in force before is remembered until this is verified.
            return previous, missing
        applied = build_last_applied(seen, pool.name, mode)
        # The same plugin serves both modes, and may have started before somebody wrote the label.
        unknown = known is None and previous is not None and _share_plugin(previous, mode)
        unknown = unknown or (seen.records.mode_unknown and previous is None and mode.reads_label)
        return applied.model_copy(update={"mode_unknown": True if unknown else None}), None
    changes: dict[str, object] = {"pool": pool.name}
    if known.failure and known.failure.attempt != build_attempt(pool, seen.node.retry):
        # Else it would halt the pool again once the retry annotation is taken away.
        changes["failure"] = None
    changes |= note_readings(seen, known, ctx)
    # What was verified once is not written again, but it is said when it no longer holds.
    missing = None if known.restart_pending else verify_mode(seen.node, seen.pods, mode, ctx)
    return known.model_copy(update=changes), missing


def plan_noted(
    seen: NodeSnapshot, held: Mapping[str, str], ctx: ReconcileContext
) -> StepResult | None:
    """What is to be written down on a node that waits for another change; None where nothing is.

    A plugin that restarted has read the labels of the mode in force, which are there and ours.
    Unless that is written down, a label that somebody writes later could have been what it read.
    """
    applied = seen.records.applied
    assert applied is not None
    mode = MODES[applied.edition, applied.schedule]
    intact = held.items() <= seen.node.labels.items() and held.keys() <= seen.node.owned
    intact = intact and mode.labels.items() <= held.items()
    if not intact or applied.restart_pending:
        return None
    if applied.mode_unknown and verify_mode(seen.node, seen.pods, mode, ctx) is not None:
        return None
    changes = note_readings(seen, applied, ctx)
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
    seen: NodeSnapshot, applied: LastApplied, ctx: ReconcileContext, *, stays: bool = False
) -> dict[str, object]:
    """What changes in `applied` by what its plugin has read since, or may have.

    The write that goes out puts the labels of the mode back, unless a foreign one `stays`. Who was
    admitted before is known now; of a plugin that is told of only later, nobody knows which label
    it has read.
    """
    node, pods, mode = seen.node, seen.pods, MODES[applied.edition, applied.schedule]
    is_ours = mode.labels.keys() <= node.owned
    reverted = applied.reverted if is_ours else _note_foreign(seen, applied)
    is_unknown = (
        (seen.is_mode_unsaved and mode.reads_label)
        or may_have_misread(node, pods, applied)
        or may_have_reread(node, pods, applied, ctx.is_brief, stays=stays)
    )
    if is_unknown or is_replaced(node, pods, applied):
        return {
            "plugins": running_plugins(pods, mode),
            "boot_id": node.boot_id,
            "mode_unknown": True if is_unknown else None,
            "reverted": reverted if is_unknown else None,
            **write_admissions(find_admissions(seen)),
        }
    if not is_ours and not stays:
        admissions = find_admissions(seen, is_brief=True)
        return {"reverted": reverted, **write_admissions(admissions)}
    if reverted and find_unknown_mode_wait(seen, ctx) is None:
        return {"reverted": None}
    return {}


def find_unknown_mode_wait(seen: NodeSnapshot, ctx: ReconcileContext) -> timedelta | None:
    """How long a plugin may still turn out to have started before the labels were put back."""
    applied = seen.records.applied
    if applied is None or applied.reverted is None:
        return None
    left = _find_last_write(seen, ctx.now) + ctx.timing.settle - ctx.now
    # A time further off was written by a clock that is ahead.
    return left if timedelta() < left <= ctx.timing.settle else None


def _find_last_write(seen: NodeSnapshot, now: datetime) -> datetime:
    """Of those that put labels back."""
    writes = seen.records.drift.writes if seen.records.drift is not None else ()
    return max(writes, default=now - timedelta(days=1))


def _is_known_again(seen: NodeSnapshot, applied: LastApplied) -> bool:
    """Whether the plugin that was to be restarted is another process, which has read our labels."""
    is_other = is_replaced(seen.node, seen.pods, applied)
    return (
        applied.needs_restart and is_other and not may_have_misread(seen.node, seen.pods, applied)
    )


def _note_foreign(seen: NodeSnapshot, applied: LastApplied) -> str:
    """Whose plugin a mode has whose label is put back now."""
    theirs = find_mode(applied.edition, find_schedule(applied.edition, seen.node.labels))
    return "SamePlugin" if theirs is not None and _share_plugin(applied, theirs) else "OtherPlugin"


def _share_plugin(applied: LastApplied, mode: Mode) -> bool:
    return bool(mode.plugin) and MODES[applied.edition, applied.schedule].plugin == mode.plugin
