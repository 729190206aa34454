"""Which configuration a node's plugin has loaded, where a ConfigMap defines its modes.

The plugin follows its label at once. Of the edited content of a key it loads nothing before its
next restart. Pods keep the devices of what was loaded when they were admitted, so what was loaded
for a while is left as a mode is: without pods.
"""

from datetime import timedelta

from gpushare.core.snapshot.node import ReconcileContext
from gpushare.core.snapshot.plugin_reading import PluginReading
from gpushare.editions.registry import find_schedule


def find_followed_mode(reading: PluginReading, ctx: ReconcileContext) -> str | None:
    """Find the mode of another manager's label that the plugin has followed; None where there is
    none, or it is put back at once: then hardly a pod was admitted in between.

    Of a label that was removed nobody knows when.
    """
    moments = reading.overwritten_at if reading.applied.mode.follows_label else ()
    if all(at is not None and ctx.is_brief(at) for at in moments):
        return None
    return find_schedule(reading.applied.edition, reading.node.labels)


def find_brief_end(reading: PluginReading, ctx: ReconcileContext) -> timedelta | None:
    """Find when such a label is no longer put back at once; None where that does not change."""
    moments = reading.overwritten_at if reading.applied.mode.follows_label else ()
    known = [at for at in moments if at is not None and ctx.is_brief(at)]
    # The moment itself is still brief.
    return min(known) + ctx.timing.reread - ctx.now + timedelta(seconds=1) if known else None
