"""Tracks the cGPU kernel module on a node: it outlives the mode that loaded it.

A plugin that reads `share` still isolates while the module is loaded (vendor's guide on node pools,
Professional edition). Neither a label that was set by hand, nor another boot, nor another pool
unloads it. Only a teardown, or a replaced system disk (`system_disk`), shows that it is gone.
"""

from gpushare import names
from gpushare.api.pool import Edition, Schedule
from gpushare.core.nodechange.step import write_records
from gpushare.core.records.change_record import Change
from gpushare.core.records.node_records import NodeRecords
from gpushare.core.snapshot.actions import ApplyNode
from gpushare.core.snapshot.admissions import find_admissions, write_admissions
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext
from gpushare.editions.edition import Mode
from gpushare.editions.registry import EDITIONS, INSTALLERS, find_mode, find_schedule, get_mode


def may_have_module(seen: NodeSnapshot, mode: Mode) -> bool:
    """Return whether the module may be loaded on a node that is in `mode`, or changing to it.

    A running installer loads it, whoever set the label that brought the installer there, and the
    installer of a label that the node had before may have loaded it.
    """
    if seen.records.module:
        return True
    if not EDITIONS[mode.edition].tracks_module:
        return False
    return mode.isolated or _is_known(seen, mode.edition) or _is_installing(seen)


def is_isolation_left(seen: NodeSnapshot, to: Mode) -> bool:
    """Return whether isolation may stay on in mode `to`, which has none; a teardown removes it."""
    return to.keeps_isolation and may_have_module(seen, to)


def note_module(
    seen: NodeSnapshot, records: NodeRecords, mode: Mode, ctx: ReconcileContext | None = None
) -> NodeRecords:
    """Return `records`, with the module noted if it may be loaded on a node in or nearing `mode`.

    Once the module may be loaded, it is unknown whether a plugin that reads `share` isolates, so
    the pods admitted before that are recorded. A write that may find labels of others on the node
    passes `ctx`, which has the time of the write.
    """
    is_unseen = ctx is not None and _is_newly_unknown(seen, records, mode, ctx)
    is_known = may_have_module(seen, mode) or is_unseen
    if records.module or not is_known:
        return records
    update: dict[str, object] = {"module": True}
    applied = records.applied
    if applied is not None and applied.schedule is Schedule.SHARE:
        update["applied"] = applied.model_copy(update=write_admissions(find_admissions(seen)))
    return records.model_copy(update=update)


def is_left_loaded(seen: NodeSnapshot, change: Change) -> bool:
    """Return whether the module may be loaded once `change` is completed."""
    if change.teardown is not None:
        # The module was verified to be gone: only an installer can have brought it back.
        return _is_installing(seen)
    return may_have_module(seen, change.mode)


def plan_module_note(seen: NodeSnapshot, mode: Mode) -> ApplyNode | None:
    """Build the write of the module's record; None where it is not outdated.

    The record is outdated if an unrecorded installer runs, or the system disk or kernel differs
    from the noted one.
    """
    if not EDITIONS[mode.edition].tracks_module:
        return None
    noted = seen.node.annotations.get(names.ANNOTATION_MODULE)
    is_news = noted is None and _is_installing(seen) and not _is_known(seen, mode.edition)
    is_outdated = noted is not None and not (seen.records.module and noted == seen.records.disk)
    if not (is_news or is_outdated):
        return None
    records = note_module(seen, seen.records, mode)
    message = f"the cGPU kernel module {'may be' if records.module else 'is not'} loaded"
    return write_records(seen, records, message)


def _is_known(seen: NodeSnapshot, edition: Edition) -> bool:
    """Return whether the records, or without any the node's label, name an isolating mode."""
    change, applied = seen.records.change, seen.records.applied
    if change is None and applied is None:
        labelled = find_mode(edition, find_schedule(edition, seen.node.labels))
        return labelled is not None and labelled.isolated
    modes = [] if applied is None else [applied.mode]
    if change is not None:
        modes.append(get_mode(change.edition, change.from_mode))
        if change.is_labelled:
            modes.append(change.mode)
    return any(mode.isolated for mode in modes)


def _is_newly_unknown(
    seen: NodeSnapshot, records: NodeRecords, mode: Mode, ctx: ReconcileContext
) -> bool:
    """Return whether the mode's label went unobserved: an installer may have come and gone."""
    applied, was, node = records.applied, seen.records.applied, seen.node
    if not EDITIONS[mode.edition].tracks_module or applied is None or was is None:
        return False
    if mode.labels.keys() <= node.owned or not applied.mode_unknown or was.mode_unknown:
        return False
    foreign = [key for key, value in mode.labels.items() if node.labels.get(key) != value]
    is_seen = bool(foreign) and all(ctx.saw(node.written_at.get(key)) for key in foreign)
    return seen.is_mode_unsaved or not is_seen


def _is_installing(seen: NodeSnapshot) -> bool:
    """Return whether an installer's pod has started, and so may have loaded the module.

    A pod that is still Pending, as under a label that was reverted at once, has loaded nothing.
    """
    return any(pod.daemonset in INSTALLERS and pod.phase != "Pending" for pod in seen.pods)
