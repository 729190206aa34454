"""Whether a node has become what its mode says."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpushare.api.node import Node
from gpushare.api.pod import Pod
from gpushare.core.modes import Mode
from gpushare.core.records import Change
from gpushare.names import Reason


@dataclass(frozen=True, slots=True)
class NotYet:
    """What is still missing, in a sentence; `wait` is when to look again without an event."""

    reason: Reason
    message: str
    wait: timedelta | None = None


def verify_return(
    node: Node,
    pods: Sequence[Pod],
    *,
    change: Change,
    of: Mode | None,
    to: Mode,
    was_zero: bool,
    settle: timedelta,
    now: datetime,
) -> NotYet | None:
    """What `node` still lacks to be in mode `to`; None when nothing does.

    A plugin's pod that is Ready proves nothing: the resource must be allocatable. The kubelet
    reports it late, so a value that could be left from the old plugin is believed only after it
    went through zero (`was_zero`), or when the new plugin has been Ready for `settle`.
    """
    for component in to.components:
        if not any(_serves(pod, component) for pod in pods):
            return NotYet(Reason.COMPONENT_NOT_READY, f"{component} is not Ready on the node")
    if to.plugin:
        replaced = {plugin.uid for plugin in change.plugins}
        serving = [pod for pod in pods if _serves(pod, to.plugin) and pod.uid not in replaced]
        if not serving:
            return NotYet(Reason.PLUGIN_RESTARTING, f"{to.plugin} is not Ready on the node")
        if change.restart and not was_zero:
            ready_since = max(pod.ready_since for pod in serving if pod.ready_since)
            if (left := ready_since + settle - now) > timedelta():
                return NotYet(
                    Reason.RESOURCE_NOT_READY,
                    f"{to.plugin} is Ready; {to.resource} is believed "
                    f"{settle.total_seconds():g} s after that",
                    left,
                )
    if to.resource and not node.allocatable.get(to.resource):
        return NotYet(
            Reason.RESOURCE_NOT_READY, f"the node does not offer {to.resource} (allocatable is 0)"
        )
    if of is not None and not to.plugin and of.plugin:
        if any(pod.daemonset == of.plugin for pod in pods):
            return NotYet(Reason.PLUGIN_RESTARTING, f"{of.plugin} is still on the node")
        if of.resource != to.resource and node.allocatable.get(of.resource):
            return NotYet(Reason.RESOURCE_NOT_READY, f"the node still offers {of.resource}")
    return None


def _serves(pod: Pod, daemonset: str) -> bool:
    return pod.daemonset == daemonset and pod.ready and not pod.deleting
