"""Finds which labels the device plugin on a node has read: not always the current ones.

The facts that this rests on:

- A plugin reads the labels when it starts: another pod, or another count of its restarts, tells of
  that. It reads them again each time its kubelet restarts, and on SIGHUP (open-source
  gpushare-device-plugin: the kubelet's socket is watched): nothing in the API tells of that.
- `LastApplied` says which mode's labels were read, by which processes, and in which boot.
- A label that is ours has had our value since we wrote it. Of any other only the last write is
  known, also where another manager put our own value back. Where managedFields were emptied or
  replaced, nothing tells who wrote one that has our value: only who looked on saw that nobody did.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Literal

from gpushare.api.k8s.node import Node
from gpushare.api.k8s.pod import Pod
from gpushare.api.pool import ModeName
from gpushare.core.records.applied_record import LastApplied
from gpushare.editions.edition import Mode
from gpushare.editions.registry import find_mode, find_schedule

IsBrief = Callable[[datetime | None], bool]
"""Whether a label that was written then, or at a time unknown, has been seen at once, and is put
back: `ReconcileContext.is_brief`."""


@dataclass(frozen=True)
class PluginReading:
    """The labels that a node's plugin has read; derived values are computed once, on demand."""

    node: Node
    pods: Sequence[Pod]
    applied: LastApplied

    def may_have_misread(self, is_brief: IsBrief | None = None, *, stays: bool = False) -> bool:
        """Tell whether the plugin may have read another mode's label since the record was written.

        The first case that holds decides. A foreign label that `is_brief` is read by nobody, unless
        it `stays`; without `is_brief`, any may be.
        """
        applied, mode = self.applied, self.applied.mode
        if not (self.running and mode.reads_label):
            # Whatever the labels say, it serves nothing else.
            return False
        if self.is_replaced:
            # It started, and maybe before our labels were there: they are not ours now, or were put
            # back a moment ago. Not so a new pod where the label had been another plugin's: that
            # took the pod away, and ours brought it back.
            restarted = any(self.running.get(uid, n) != n for uid, n in applied.plugins.items())
            is_late = applied.reverted == "SamePlugin" or (applied.reverted and restarted)
            return not self.is_ours or bool(is_late)
        # The recorded process reads them again if its kubelet restarts, or has done so.
        if self.is_ours:
            return False
        moments = self.overwritten_at
        is_lost = not self.node.owned or self.node.has_kept(mode.labels)
        if not moments and is_lost and is_brief is not None:
            # managedFields were emptied or replaced. A controller that watched would have seen
            # another value; of the time before that nothing tells who wrote this one.
            return not is_brief(None)
        if not moments or is_brief is None:
            # Another manager set our value: it had another one before, for an unknown time.
            return True
        if (said := self._said) is mode:
            # It says the same in other words. What it said before, nobody has seen who has only
            # begun to watch.
            return not is_brief(None)
        # Of a label that was removed nothing tells when. By a value of another plugin's mode the
        # DaemonSets take this plugin away, and it reads ours when it comes back.
        leaves = said is not None and not self.shares_plugin(said)
        return not all(map(is_brief, moments)) or (not leaves and (stays or None in moments))

    @property
    def overwritten_at(self) -> list[datetime | None]:
        """Time at which others changed the recorded mode's labels; None where it is not known."""
        node, labels = self.node, self.applied.mode.labels.items()
        return [node.written_at.get(key) for key, value in labels if node.labels.get(key) != value]

    @property
    def is_replaced(self) -> bool:
        """Whether the plugin that serves the recorded mode is not the process that was recorded."""
        return bool(self.running) and self.running != self._recorded

    @property
    def is_as_applied(self) -> bool:
        """Whether labels and plugin are those that were recorded, so no change has gone further."""
        is_labelled = self.applied.mode.labels.items() <= self.node.labels.items()
        return is_labelled and self.is_ours and self.running == self._recorded

    @property
    def is_unknown(self) -> bool:
        """Whether the mode that new pods get is not known."""
        return self.may_have_misread() or bool(self.applied.mode_unknown and not self.is_replaced)

    @cached_property
    def effective_mode(self) -> ModeName:
        """The mode that the node is in: the recorded one, unless a plugin that is not recorded
        serves the one that the labels say."""
        recorded, said = self.applied.schedule, self._said
        # What follows its label is told by `find_doubtful_mode`.
        if said is None or said.schedule == recorded or self.applied.mode.follows_label:
            return recorded
        # Another DaemonSet's pod serves nothing before it runs, and goes with the label.
        is_same = self.shares_plugin(said)
        pods = [pod for pod in self.pods if is_same or pod.phase == "Running"]
        is_served = running_plugins(pods, said).items() - self._recorded.items()
        return said.schedule if is_served else recorded

    def find_served(self, is_brief: IsBrief | None) -> ModeName | None:
        """Find the mode that pods get which come now; None where that is unknown."""
        # Also in another boot, until that is noted: who is listed may have come before it.
        if self.applied.needs_restart or self.may_have_misread(is_brief):
            return None
        recorded = self.applied.schedule
        return recorded if self.effective_mode == recorded else None

    @property
    def reverted(self) -> Literal["SamePlugin", "OtherPlugin"] | None:
        """`LastApplied.reverted`, as it is once our labels are there again."""
        if self.is_ours:
            return self.applied.reverted
        return "SamePlugin" if self.shares_plugin(self._said) else "OtherPlugin"

    @cached_property
    def running(self) -> Mapping[str, int]:
        """The plugin's pods of the recorded mode."""
        return running_plugins(self.pods, self.applied.mode)

    @property
    def is_ours(self) -> bool:
        """Whether the operator's field manager owns all labels of the recorded mode."""
        return self.applied.mode.labels.keys() <= self.node.owned

    def shares_plugin(self, mode: Mode | None) -> bool:
        """Tell whether the recorded mode's plugin serves `mode`, too."""
        return mode is not None and mode.plugin == self.applied.mode.plugin != ""

    @property
    def _recorded(self) -> Mapping[str, int]:
        """The recorded processes. In another boot none of them is left, whatever the counts say."""
        return {} if self.applied.is_of_another_boot(self.node) else self.applied.plugins

    @cached_property
    def _said(self) -> Mode | None:
        """The mode that the labels say; None for a value that is none."""
        edition, mode = self.applied.edition, self.applied.mode
        if mode.labels.items() <= self.node.labels.items():
            # Where a ConfigMap defines it, the label alone does not tell which mode.
            return mode
        return find_mode(edition, find_schedule(edition, self.node.labels))


def running_plugins(pods: Sequence[Pod], mode: Mode) -> dict[str, int]:
    """Map the UIDs of `mode`'s plugin pods to their container restarts; equal: no restart."""
    return {
        pod.uid: pod.restarts
        for pod in sorted(pods, key=lambda pod: pod.uid)
        if mode.plugin and pod.daemonset == mode.plugin and not pod.deleting
    }


def describe_unknown(plugin: str, advice: str = "") -> str:
    """Tell that the mode which DaemonSet `plugin` serves is unknown, what to do, and why."""
    return (
        f"The mode that DaemonSet {plugin} serves is unknown. {advice}The plugin may have read "
        "another field manager's label, for example when the kubelet restarted"
    )
