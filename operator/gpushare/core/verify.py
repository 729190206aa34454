"""Whether a node has become what its mode says."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from gpushare import names
from gpushare.api.node import Node
from gpushare.api.pod import Pod
from gpushare.api.pool import Edition, Schedule
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
    for resource in mode.resources:
        if not node.allocatable.get(resource):
            return NotYet(
                Reason.RESOURCE_NOT_READY, f"the node does not offer {resource} (allocatable is 0)"
            )
    return None


def find_missing_whole_card(node: Node, mode: Mode) -> NotYet | None:
    """Whether a node that shares its cards no more offers whole ones, where nobody owes us that.

    Open-source gpushare brings no whole-card plugin: leaving share is complete without it (pods
    that ask for gpu-mem go elsewhere), but a node that offers no GPU at all is worth a word.
    """
    whole_cards = (mode.edition, mode.schedule) == (Edition.OPEN_SOURCE, Schedule.DEFAULT)
    if not whole_cards or node.allocatable.get(names.RESOURCE_WHOLE_GPU):
        return None
    return NotYet(
        Reason.WHOLE_CARD_PLUGIN_MISSING,
        f"sharing is off, and no plugin offers {names.RESOURCE_WHOLE_GPU} on the node; put the "
        "whole-card plugin back",
    )


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
    if change.restart and to.plugin and not was_zero:
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
    for resource in of.resources:
        if resource not in to.resources and node.allocatable.get(resource):
            return NotYet(
                Reason.RESOURCE_NOT_READY,
                f"the node still offers {resource}; its cards could be given out twice",
            )
    return None


def _serving(pods: Sequence[Pod], mode: Mode, replaced: Collection[str]) -> list[Pod]:
    return [pod for pod in pods if _serves(pod, mode.plugin) and pod.uid not in replaced]


def _serves(pod: Pod, daemonset: str) -> bool:
    return pod.daemonset == daemonset and pod.ready and not pod.deleting
