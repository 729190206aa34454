"""Whether a node has become what its mode says."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpushare.api.node import Node
from gpushare.api.pod import Pod
from gpushare.core.modes import MODES, Mode
from gpushare.core.records import Change
from gpushare.names import Reason


@dataclass(frozen=True, slots=True)
class NotYet:
    """What is still missing, in a sentence; `wait` is when to look again without an event."""

    reason: Reason
    message: str
    wait: timedelta | None = None


def verify_mode(
    node: Node, pods: Sequence[Pod], mode: Mode, *, replaced: Collection[str] = ()
) -> NotYet | None:
    """What `node` still lacks to be in `mode`; pods with a UID in `replaced` do not count.

    A plugin's pod that is Ready proves nothing: the resource must be allocatable.
    """
    for component in mode.components:
        if not any(_serves(pod, component) for pod in pods):
            return NotYet(Reason.COMPONENT_NOT_READY, f"{component} is not Ready on the node")
    if mode.plugin and not _serving(pods, mode, replaced):
        return NotYet(Reason.PLUGIN_RESTARTING, f"{mode.plugin} is not Ready on the node")
    if mode.resource and not node.allocatable.get(mode.resource):
        return NotYet(
            Reason.RESOURCE_NOT_READY, f"the node does not offer {mode.resource} (allocatable is 0)"
        )
    return None


def verify_return(
    node: Node,
    pods: Sequence[Pod],
    *,
    change: Change,
    was_zero: bool,
    settle: timedelta,
    now: datetime,
) -> NotYet | None:
    """What `node` still lacks for `change` to be complete; None when nothing does.

    The kubelet reports a resource late, so a value that could be left from the old plugin is
    believed only after it went through zero (`was_zero`), or when the new plugin has been Ready
    for `settle`. What the old mode offered must be gone.
    """
    of, to = MODES[change.edition, change.of], MODES[change.edition, change.to]
    replaced = {plugin.uid for plugin in change.plugins}
    if (missing := verify_mode(node, pods, to, replaced=replaced)) is not None:
        return missing
    if change.restart and not was_zero:
        serving = _serving(pods, to, replaced)
        ready_since = max(pod.ready_since for pod in serving if pod.ready_since)
        if (left := ready_since + settle - now) > timedelta():
            return NotYet(
                Reason.RESOURCE_NOT_READY,
                f"{to.plugin} is Ready; {to.resource} is believed {settle.total_seconds():g} s "
                "after that",
                left,
            )
    if of.plugin and of.plugin != to.plugin and any(pod.daemonset == of.plugin for pod in pods):
        return NotYet(Reason.PLUGIN_RESTARTING, f"{of.plugin} is still on the node")
    if of.resource and of.resource != to.resource and node.allocatable.get(of.resource):
        return NotYet(
            Reason.RESOURCE_NOT_READY,
            f"the node still offers {of.resource}; its cards could be given out twice",
        )
    return None


def _serving(pods: Sequence[Pod], mode: Mode, replaced: Collection[str]) -> list[Pod]:
    return [pod for pod in pods if _serves(pod, mode.plugin) and pod.uid not in replaced]


def _serves(pod: Pod, daemonset: str) -> bool:
    return pod.daemonset == daemonset and pod.ready and not pod.deleting
