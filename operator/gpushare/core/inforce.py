"""Which mode is in force on a node: not always the one that its labels say.

A plugin reads the labels when it starts and never again, so after a label was changed by hand the
node says one thing and does another. `applied` remembers what the plugin has read.
"""

from collections.abc import Sequence

from gpushare.api.node import Node
from gpushare.api.pod import Pod
from gpushare.api.pool import Edition, Schedule
from gpushare.core.modes import MODES, Mode, find_schedule
from gpushare.core.records import Applied


def running_plugins(pods: Sequence[Pod], mode: Mode) -> dict[str, int]:
    """The plugin's pods of `mode`: UID and container restarts; equal means nothing restarted."""
    return {
        pod.uid: pod.restarts
        for pod in sorted(pods, key=lambda pod: pod.uid)
        if mode.plugin and pod.daemonset == mode.plugin and not pod.deleting
    }


def is_replaced(node: Node, pods: Sequence[Pod], applied: Applied) -> bool:
    """Whether the plugin that serves the recorded mode is not the process that was recorded.

    In another boot none is, whatever the counters say.
    """
    running = running_plugins(pods, MODES[applied.edition, applied.schedule])
    return bool(running) and (running != applied.plugins or applied.is_of_another_boot(node))


def find_in_force(
    edition: Edition, node: Node, pods: Sequence[Pod], applied: Applied | None
) -> str:
    """The mode that `node` is in: a Schedule, or a label's own unknown value.

    Without a record, what the labels say. With one, the recorded mode, unless a plugin that is
    not the recorded one serves the mode that the labels say.
    """
    said = find_schedule(edition, node.labels)
    if applied is None or applied.edition is not edition or said == applied.schedule:
        return said
    if said in set(Schedule) and (mode := MODES.get((edition, Schedule(said)))):
        if mode.plugin != MODES[edition, applied.schedule].plugin:
            # Another DaemonSet's pod serves nothing before it runs, and goes with the label.
            pods = [pod for pod in pods if pod.phase == "Running"]
        running = running_plugins(pods, mode)
        booted = bool(running) and applied.is_of_another_boot(node)
        if booted or any(applied.plugins.get(uid) != count for uid, count in running.items()):
            return said
    return applied.schedule


def may_have_misread(node: Node, pods: Sequence[Pod], applied: Applied) -> bool:
    """Whether the plugin may have started while the recorded mode's labels were not there.

    They are there now, but not as ours: somebody took them away and put them back; or we did so a
    moment ago. And the plugin is not the recorded one.
    """
    if not is_replaced(node, pods, applied):
        return False
    mode = MODES[applied.edition, applied.schedule]
    if not mode.labels.keys() <= node.owned or applied.put_back == "SamePlugin":
        return True
    running = running_plugins(pods, mode)
    restarted = any(running.get(uid, count) != count for uid, count in applied.plugins.items())
    return applied.put_back is not None and restarted
