"""Which configuration a node's plugin has loaded, where a ConfigMap defines its modes.

The plugin follows its label at once. Of the edited content of a key it loads nothing before its
next restart. Pods keep the devices of what was loaded when they were admitted, so what was loaded
while pods came is left as a mode is: without pods.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from gpushare.api.pool import ModeName
from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext
from gpushare.core.snapshot.plugin_reading import PluginReading
from gpushare.editions.registry import EDITIONS, find_schedule

_SKEW = timedelta(seconds=5)
"""By which the clocks of a node and of the operator may differ."""


def find_doubtful_mode(reading: PluginReading, ctx: ReconcileContext) -> ModeName | None:
    """Find the mode that a node's label says, where pods may hold devices of another configuration
    than the recorded one; None where they do not, or the label is put back at once.

    Of a label that was removed, or has our value again, nobody knows when.
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
    """Tell whether a pod may hold devices of another configuration than the recorded one."""
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
    """Tell whether a pod came since the plugin started that offers more than recorded, or just what
    the key says now.

    It may offer less where a card is unhealthy, and for a while more where a label was put back.
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
    """Find when such a label is no longer put back at once; None where that does not change."""
    moments = reading.overwritten_at if reading.applied.mode.follows_label else ()
    known = [at for at in moments if at is not None and ctx.is_brief(at)]
    # The moment itself is still brief.
    return min(known) + ctx.timing.reread - ctx.now + timedelta(seconds=1) if known else None
