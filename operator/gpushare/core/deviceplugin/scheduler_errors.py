"""Reads what kube-scheduler's messages report of volumes, and of the scheduler extender (OpenSource
and Basic).

The extender counts a node's cards once, and never again before it restarts (`GetNodeInfo` in
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
"""A restarted extender believes an annotation that a user edited."""
# kube-scheduler, pkg/scheduler/extender.go: net/http's error, or `send`'s own. What a plugin could
# not reach, such as the API server or its webhooks, has the plugin's name in front.
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
"""Of nodes that are not in the pool, or take no pods: a tainted or cordoned node is refused by its
taint before anybody looks whether the pod selects it, such as each of the control plane's."""


def explain_scheduler_error(message: str) -> tuple[Reason, str]:
    """Explain what a pod waits for whose condition is a `SchedulerError` with this message."""
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
    """Find how many nodes a pod's bound volume keeps it from, in the scheduler's words; empty where
    there is none, or where a node that lacks resources may be the right one.

    Whether the pod selects and tolerates a node, and whether that has the resources, the scheduler
    asks before it looks at volumes.
    """
    found = _VOLUME.search(message)
    return found[0] if found is not None and "Insufficient" not in message else ""


def count_refused(message: str) -> tuple[int, int]:
    """Count by the scheduler's message nodes that the extender refused for lack of memory, and
    those that something else refused although the pod selects and tolerates them."""
    refused, all_nodes = (
        int(found[1]) if (found := pattern.search(message)) else 0 for pattern in (_REFUSED, _NODES)
    )
    others = sum(int(count) for count in _NOT_ROOMY.findall(message))
    return refused, max(all_nodes - others - refused, 0)
