"""Which configuration a node's plugin has loaded, where a ConfigMap defines its modes.

The plugin follows its label at once. Of the edited content of a key it loads nothing before its
next restart. Pods keep the devices of what was loaded when they were admitted, so what was loaded
while pods came is left as a mode is: without pods.
"""

from datetime import timedelta

from gpushare.core.snapshot.node import NodeSnapshot, ReconcileContext
from gpushare.core.snapshot.plugin_reading import PluginReading
from gpushare.editions.registry import EDITIONS, find_schedule

_SKEW = timedelta(seconds=5)
"""By which the clocks of a node and of the operator may differ."""


def find_followed_mode(reading: PluginReading, ctx: ReconcileContext) -> str | None:
    """Find the mode of another manager's label that the plugin has followed while pods came; None
    where there is none, or it is put back at once.

    Of a label that was removed, or has our value again, nobody knows when.
    """
    applied, moments = reading.applied, reading.overwritten_at
    if not applied.mode.follows_label:
        return None
    is_brief = bool(moments) and all(at is not None and ctx.is_brief(at) for at in moments)
    has_pods = any(pod.is_live and pod.requests for pod in reading.pods)
    if not applied.mode_unknown and (reading.is_ours or is_brief or not has_pods):
        return None
    return find_schedule(applied.edition, reading.node.labels)


def has_doubtful_pods(seen: NodeSnapshot, ctx: ReconcileContext) -> bool:
    """Tell whether a pod may hold devices of another configuration than the recorded one: a label
    of others stood when it was admitted, until it was put back, or the plugin offers more and has
    loaded edited content.

    It may offer less where a card is unhealthy, and GPU feature discovery restarts by itself.
    """
    reading, drift = seen.reading, seen.records.drift
    if reading is None or not reading.applied.mode.follows_label:
        return False
    mode = reading.applied.mode
    if reading.applied.mode_unknown:
        return True
    starts = [p.started for p in seen.pods if p.is_live and p.started is not None]
    reverts = [r.at for r in drift.reverts if r.key in mode.labels] if drift is not None else []
    stood = ctx.timing.reread + _SKEW
    if any(at - stood <= start <= at + _SKEW for at in reverts for start in starts):
        return True
    if ctx.plugin_daemonsets.defines(mode):
        return False
    plugins = [p.ready_since for p in seen.pods if p.daemonset == mode.plugin and p.ready_since]
    _, amounts = EDITIONS[mode.edition].find_expected_state(seen.node, mode)
    offers_more = any(seen.node.allocatable.get(r, 0) > n for r, n in amounts.items())
    return offers_more and any(at - _SKEW <= start for at in plugins[:1] for start in starts)


def find_brief_end(reading: PluginReading, ctx: ReconcileContext) -> timedelta | None:
    """Find when such a label is no longer put back at once; None where that does not change."""
    moments = reading.overwritten_at if reading.applied.mode.follows_label else ()
    known = [at for at in moments if at is not None and ctx.is_brief(at)]
    # The moment itself is still brief.
    return min(known) + ctx.timing.reread - ctx.now + timedelta(seconds=1) if known else None
