"""Which mode is in force on a node: not always the one that its labels say.

A plugin reads the labels when it starts, so after a label was changed by hand the node says one
thing and does another. `applied` remembers what the plugin has read. It reads them again each time
its kubelet restarts, and on SIGHUP (open-source gpushare-device-plugin: the kubelet's socket is
watched): neither the pod's UID nor its restarts nor anything else in the API tells of that. So
while another value stands, nobody knows what the plugin has read.
"""

from collections.abc import Callable, Sequence
from datetime import datetime

from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import Edition
from gpushare.core.records.applied_record import LastApplied
from gpushare.editions.edition import Mode
from gpushare.editions.registry import find_mode, find_schedule


def running_plugins(pods: Sequence[Pod], mode: Mode) -> dict[str, int]:
    """The plugin's pods of `mode`: UID and container restarts; equal means nothing restarted."""
    return {
        pod.uid: pod.restarts
        for pod in sorted(pods, key=lambda pod: pod.uid)
        if mode.plugin and pod.daemonset == mode.plugin and not pod.deleting
    }


def is_replaced(node: Node, pods: Sequence[Pod], applied: LastApplied) -> bool:
    """Whether the plugin that serves the recorded mode is not the process that was recorded.

    In another boot none is, whatever the counters say.
    """
    running = running_plugins(pods, applied.mode)
    return bool(running) and (running != applied.plugins or applied.is_of_another_boot(node))


def find_effective_mode(
    edition: Edition, node: Node, pods: Sequence[Pod], applied: LastApplied | None
) -> str:
    """The mode that `node` is in: a Schedule, or a label's own unknown value.

    Without a record, what the labels say. With one, the recorded mode, unless a plugin that is
    not the recorded one serves the mode that the labels say.
    """
    said = find_schedule(edition, node.labels)
    if applied is None or applied.edition is not edition or said == applied.schedule:
        return said
    if (mode := find_mode(edition, said)) is not None:
        if mode.plugin != applied.mode.plugin:
            # Another DaemonSet's pod serves nothing before it runs, and goes with the label.
            pods = [pod for pod in pods if pod.phase == "Running"]
        running = running_plugins(pods, mode)
        booted = bool(running) and applied.is_of_another_boot(node)
        if booted or any(applied.plugins.get(uid) != count for uid, count in running.items()):
            return said
    return applied.schedule


def is_mode_unknown(node: Node, pods: Sequence[Pod], applied: LastApplied) -> bool:
    """Whether nobody knows which mode pods get that come now."""
    if is_replaced(node, pods, applied):
        return may_have_misread(node, pods, applied)
    return bool(applied.mode_unknown) or is_exposed(node, pods, applied)


def is_exposed(node: Node, pods: Sequence[Pod], applied: LastApplied) -> bool:
    """Whether the recorded plugin reads another mode if its kubelet restarts, or may have done so.

    Somebody else's value stands there that says another mode; or the right one stands there, and
    somebody else put it back.
    """
    mode = applied.mode
    is_ours = mode.labels.keys() <= node.owned
    if is_ours or not mode.reads_label or not running_plugins(pods, mode):
        return False
    is_back = mode.labels.items() <= node.labels.items()
    return is_back or find_schedule(applied.edition, node.labels) != applied.schedule


def may_have_reread(
    node: Node,
    pods: Sequence[Pod],
    applied: LastApplied,
    is_brief: Callable[[datetime | None], bool],
    *,
    stays: bool = False,
) -> bool:
    """Whether the plugin `is_exposed`, and not by a value that was written at a time that
    `is_brief` and does not stay (`stays`).

    Of a label that was removed nothing tells when. A value of another plugin's mode has the
    DaemonSets take this plugin away, and it reads ours when it comes back.
    """
    if not is_exposed(node, pods, applied):
        return False
    mode = applied.mode
    foreign = [key for key, value in mode.labels.items() if node.labels.get(key) != value]
    if not foreign:
        return True
    theirs = find_mode(applied.edition, find_schedule(applied.edition, node.labels))
    leaves = theirs is not None and theirs.plugin != mode.plugin
    moments = [node.written_at.get(key) for key in foreign]
    return not all(map(is_brief, moments)) or (not leaves and (stays or None in moments))


def may_have_misread(node: Node, pods: Sequence[Pod], applied: LastApplied) -> bool:
    """Whether the plugin may have started while the recorded mode's labels were not there.

    They are there now, but not as ours: somebody took them away and put them back; or we did so a
    moment ago. And the plugin is not the recorded one.
    """
    mode = applied.mode
    if not mode.reads_label or not is_replaced(node, pods, applied):
        return False
    if not mode.labels.keys() <= node.owned or applied.reverted == "SamePlugin":
        return True
    running = running_plugins(pods, mode)
    restarted = any(running.get(uid, count) != count for uid, count in applied.plugins.items())
    return applied.reverted is not None and restarted


def describe_unknown(applied: LastApplied) -> str:
    """What it means that a node's mode is unknown, and how that came."""
    plugin = applied.mode.plugin
    return (
        f"which mode {plugin} gives is unknown: it may have read a label that somebody else wrote "
        "(it does when its kubelet restarts, and nothing tells of that)"
    )
