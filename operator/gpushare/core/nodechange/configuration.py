"""Finds which configuration a node's plugin has loaded, where a ConfigMap defines its modes.

The plugin follows its label at once, but loads edited content of a key only at its next restart.
Pods keep the devices of the configuration that was loaded when they were admitted. A configuration
under which pods came is therefore left like a mode: only when those pods are gone.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from gpushare.api.pool import ModeName
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext
from gpushare.core.snapshot.plugin_reading import PluginReading
from gpushare.editions.registry import EDITIONS, find_schedule

_SKEW = timedelta(seconds=5)
"""The largest difference assumed between the clocks of a node and of the operator."""


def find_doubtful_mode(reading: PluginReading, ctx: ReconcileContext) -> ModeName | None:
    """Return the mode of the node's label, if pods may hold devices of a configuration other than
    the recorded one; None where they hold none, or the label is put back at once.

    When a label was overwritten is unknown once it is removed, or has the operator's value again.
    """
    applied = reading.applied
    if not applied.mode.follows_label:
        return None
    moments = reading.overwritten_at
    is_brief = bool(moments) and all(at is not None and ctx.is_brief(at) for at in moments)
    has_pods = any(pod.is_live and pod.requests for pod in reading.pods)
    may_return = not has_pods and ctx.plugin_daemonsets.defines(applied.mode)
    # No pod outlives a boot.
    is_marked = applied.mode_unknown and not applied.is_of_another_boot(reading.node)
    if not is_marked and (reading.is_ours or is_brief or may_return):
        return None
    return find_schedule(applied.edition, reading.node.labels)


def has_doubtful_pods(seen: NodeSnapshot, ctx: ReconcileContext) -> bool:
    """Return whether a pod may hold devices of a configuration other than the recorded one."""
    reading, drift = seen.reading, seen.records.drift
    if reading is None or not reading.applied.mode.follows_label:
        return False
    if find_doubtful_mode(reading, ctx) is not None:
        return True
    if reading.applied.is_of_another_boot(seen.node):
        return False
    keys = reading.applied.mode.labels.keys()
    reverts = [r.at for r in drift.reverts if r.key in keys] if drift is not None else []
    starts = [p.started for p in seen.pods if p.is_live and p.started is not None]
    before, after = ctx.timing.reread + _SKEW, ctx.timing.settle + _SKEW
    if any(at - before <= start <= at + after for at in reverts for start in starts):
        return True
    return reading.is_ours and _came_with_edited_content(reading, starts, reverts, ctx)


def _came_with_edited_content(
    reading: PluginReading,
    starts: Iterable[datetime],
    reverts: Iterable[datetime],
    ctx: ReconcileContext,
) -> bool:
    """Return whether a pod started under a plugin that seems to have loaded edited content.

    That is so where the plugin offers more than the recorded content, or exactly what the key's
    present content gives. A plugin offers less where a card is unhealthy, and more for a while
    after a label was put back: neither is a sign of edited content.
    """
    node, mode = reading.node, reading.applied.mode
    ready = [p.ready_since for p in reading.pods if p.uid in reading.running and p.ready_since]
    if not ready:
        return False
    since = max(ready) - _SKEW
    if any(at >= since for at in reverts) or all(start < since for start in starts):
        return False
    find = EDITIONS[mode.edition].find_expected_state
    (_, recorded), (_, now) = find(node, mode), find(node, ctx.plugin_daemonsets.resolve(mode))
    offered = {resource: node.allocatable.get(resource, 0) for resource in recorded}
    return offered != recorded and (
        offered == now or any(offered[resource] > amount for resource, amount in recorded.items())
    )


def find_brief_end(reading: PluginReading, ctx: ReconcileContext) -> timedelta | None:
    """Return how long an overwritten label still counts as brief, and so is put back at once.

    None where no overwritten label of the recorded mode counts as brief.
    """
    moments = reading.overwritten_at if reading.applied.mode.follows_label else ()
    known = [at for at in moments if at is not None and ctx.is_brief(at)]
    # The moment itself is still brief.
    return min(known) + ctx.timing.reread - ctx.now + timedelta(seconds=1) if known else None
