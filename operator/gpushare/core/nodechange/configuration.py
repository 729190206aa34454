"""Which configuration a node's plugin has loaded, where a ConfigMap defines its modes.

The plugin follows its label at once. Of the edited content of a key it loads nothing before its
next restart. Pods keep the devices of what was loaded when they were admitted, so what was loaded
for a while is left as a mode is: without pods.
"""

from datetime import datetime, timedelta

from gpushare.api.k8s.node import Node
from gpushare.core.snapshot.node import ReconcileContext
from gpushare.core.snapshot.plugin_reading import PluginReading
from gpushare.editions.edition import Mode
from gpushare.editions.registry import find_schedule, shows_another


def find_joined_mode(node: Node, said: str, resolved: Mode, named: str) -> str:
    """Find the mode in which a node joins whose label says `said`, to a pool that names its mode
    `named`, which is `resolved` now: that one, unless the node shows something else."""
    is_loaded = said == named and resolved.is_resolved and not shows_another(node, resolved)
    return resolved.schedule if is_loaded else said


def find_followed_mode(reading: PluginReading, ctx: ReconcileContext) -> str | None:
    """Find the mode of another manager's label that the plugin has followed; None where there is
    none, or it is put back at once: then hardly a pod was admitted in between.

    Of a label that was removed nobody knows when.
    """
    foreign = _find_foreign(reading)
    if not foreign or all(at is not None and ctx.is_brief(at) for at in foreign):
        return None
    return find_schedule(reading.applied.edition, reading.node.labels)


def find_brief_end(reading: PluginReading, ctx: ReconcileContext) -> timedelta | None:
    """Find when such a label is no longer put back at once; None where that does not change."""
    known = [at for at in _find_foreign(reading) if at is not None and ctx.is_brief(at)]
    # The moment itself is still brief.
    return min(known) + ctx.timing.reread - ctx.now + timedelta(seconds=1) if known else None


def _find_foreign(reading: PluginReading) -> list[datetime | None]:
    """List when others wrote the labels of the recorded mode, where its plugin follows those."""
    node, mode = reading.node, reading.applied.mode
    if not mode.follows_label:
        return []
    foreign = (key for key, value in mode.labels.items() if node.labels.get(key) != value)
    return [node.written_at.get(key) for key in foreign]
