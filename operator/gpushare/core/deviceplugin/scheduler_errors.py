"""Reads kube-scheduler's messages about volumes and the scheduler extender (OpenSource and Basic).

The extender counts a node's cards once, and not again before it restarts (`GetNodeInfo` in
gpushare-scheduler-extender, pkg/cache/cache.go).
"""

import re

from gpushare import names
from gpushare.names import Reason

_KUBECTL = f"kubectl -n {names.EXTENDER_NAMESPACE}"
RESTART = f"{_KUBECTL} rollout restart deployment/{names.EXTENDER}"
RESTART_CHECKED = (
    "First check the pods' annotations (docs/runbooks.md#gpushareextenderstale), then run: "
    f"{RESTART}"
)
"""Instructions for a restart: a restarted extender trusts annotations that a user edited."""
# kube-scheduler, pkg/scheduler/extender.go: net/http's error, or `send`'s own. An error of a plugin
# that could not reach the API server or a webhook has the plugin's name in front.
_UNREACHED = re.compile(r'(?:binding rejected: )?Post "(https?://[^"]+)": (.*)', re.DOTALL)
_ANSWERED = re.compile(r"failed (\w+) with extender at URL ([^\s,]+), code (\d+)")
_REFUSED = re.compile(r"(\d+) Insufficient GPU Memory in one device")
# kube-scheduler, pkg/scheduler/framework/plugins: volumebinding (the first: older versions) and
# volumezone.
_VOLUME = re.compile(
    r"\d+ node\(s\) (?:had volume node affinity conflict|had no available volume zone"
    r"|didn't match PersistentVolume's node affinity)"
)
_NODES = re.compile(r"0/(\d+) nodes are available")
_NOT_ROOMY = re.compile(
    r"(\d+) node\(s\) "
    r"(?:didn't match Pod's node affinity/selector|were unschedulable|had untolerated taint)"
)
"""Matches counts of nodes that are not in the pool, or take no pods.

A tainted or cordoned node, such as each of the control plane's, is refused by its taint before the
scheduler checks whether the pod selects it.
"""


def explain_scheduler_error(message: str) -> tuple[Reason, str]:
    """Explain what a pod waits for that has a condition `SchedulerError` with this `message`."""
    if found := _UNREACHED.match(message):
        place, why = found.groups()
    elif found := _ANSWERED.search(message):
        verb, place, code = found.groups()
        why = f"HTTP {code}"
        if (verb, code) == ("bind", "500"):
            return Reason.UNSCHEDULABLE, (
                f"The scheduler extender at {place} refuses to bind the pod ({why}). To see why, "
                f"run: {_KUBECTL} logs deployment/{names.EXTENDER}"
            )
    else:
        return Reason.UNSCHEDULABLE, f"The scheduler failed: {message}"
    return Reason.SCHEDULER_UNAVAILABLE, (
        f"kube-scheduler gets no valid answer from its extender at {place} ({why}), and schedules "
        "no pod that requests GPU memory. It resumes automatically once the extender answers. To "
        f"check the extender, run: {_KUBECTL} get pods -l component={names.EXTENDER}"
    )


def find_volume_conflict(message: str) -> str:
    """Return the scheduler's words on how many nodes a pod's bound volume keeps it from.

    Empty where the message has none, or where a node that lacks resources may fit the volume: the
    scheduler checks selectors, taints and resources before volumes.
    """
    found = _VOLUME.search(message)
    return found[0] if found is not None and "Insufficient" not in message else ""


def count_refused(message: str) -> tuple[int, int]:
    """Count the nodes that the extender refused for lack of memory, and those refused for another
    reason although the pod selects and tolerates them, by the scheduler's `message`."""
    refused, all_nodes = (
        int(found[1]) if (found := pattern.search(message)) else 0 for pattern in (_REFUSED, _NODES)
    )
    others = sum(int(count) for count in _NOT_ROOMY.findall(message))
    return refused, max(all_nodes - others - refused, 0)
