"""Builds pod and node status as a kubelet does, from the simulator's decisions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from devcluster.apiobject import Object
from devcluster.simulator.objects import Node, Pod, Shown

NOT_READY_MESSAGE = "held back by the simulator"


@dataclass(frozen=True)
class Look:
    """Planned status of a container."""

    shown: Shown
    waiting_message: str = ""
    last_message: str = ""  # of the last termination; empty if there was none, or nothing to say
    exit_code: int = 1  # of the last termination


@dataclass(frozen=True)
class PodStatus:
    """Planned status of a pod."""

    phase: str
    containers: Mapping[str, Look] = field(default_factory=dict)
    reason: str = ""
    message: str = ""
    init: Mapping[str, Look] = field(default_factory=dict)

    @property
    def ready(self) -> bool:
        """Whether every container is ready."""
        return self.phase == "Running" and all(c.shown.ready for c in self.containers.values())

    def is_shown_by(self, pod: Pod) -> bool:
        """Tell whether the pod in the API server has this status already."""
        shown = {name: look.shown for name, look in self.containers.items()}
        return (pod.phase, pod.ready, dict(pod.shown)) == (self.phase, self.ready, shown)


def build_pod_status(pod: Pod, status: PodStatus, now: float) -> Object:
    """Build the body of a pod's status that a kubelet would send."""
    time = _timestamp(now)
    body: Object = {"phase": status.phase, "startTime": pod.started or time}
    if status.reason:
        body |= {"reason": status.reason, "message": status.message}
    if status.phase == "Failed" and not status.containers:
        if pod.ready:  # until its node rebooted
            body["conditions"] = [{"type": "Ready", "status": "False", "lastTransitionTime": time}]
        return body | {"containerStatuses": None}
    ready = "True" if status.ready else "False"
    initialized = "False" if any(look.shown.waiting for look in status.init.values()) else "True"
    body["conditions"] = [
        {"type": "Initialized", "status": initialized, "lastTransitionTime": time},
        {"type": "ContainersReady", "status": ready, "lastTransitionTime": time},
        {"type": "Ready", "status": ready, "lastTransitionTime": time},
    ]
    body["containerStatuses"] = [
        _build_container(name, look, time) for name, look in status.containers.items()
    ]
    if status.init:
        body["initContainerStatuses"] = [
            _build_container(name, look, time) for name, look in status.init.items()
        ]
    return body


def build_ready_condition(node: Node, wanted: bool, now: float) -> Object | None:
    """Build the condition Ready of a node; None if it is up to date.

    Only a False that the simulator wrote itself is replaced.
    """
    if wanted:
        if node.ready != "False" or node.ready_message != NOT_READY_MESSAGE:
            return None
        status, reason, message = "True", "KubeletReady", "kubelet is posting ready status"
    else:
        if node.ready == "False" and node.ready_message == NOT_READY_MESSAGE:
            return None
        status, reason, message = "False", "KubeletNotReady", NOT_READY_MESSAGE
    time = _timestamp(now)
    return {
        "type": "Ready",
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": time,
        "lastTransitionTime": time,
    }


def parse_timestamp(text: str) -> float:
    """Parse an API timestamp into seconds; 0 if it is empty."""
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def _build_container(name: str, look: Look, time: str) -> Object:
    ended = {
        "exitCode": look.exit_code,
        "reason": "Error" if look.exit_code else "Completed",
        "message": look.last_message,
        "finishedAt": time,
    }
    if look.shown.running:
        state: Object = {"running": {"startedAt": time}}
    elif look.shown.waiting:
        state = {"waiting": {"reason": look.shown.waiting, "message": look.waiting_message}}
    else:
        state = {"terminated": ended}
    return {
        "name": name,
        "image": "simulated",
        "imageID": "",
        "ready": look.shown.ready,
        "started": look.shown.running,
        "restartCount": look.shown.restarts,
        "state": state,
        "lastState": {"terminated": ended} if look.last_message and look.shown.waiting else {},
    }


def _timestamp(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
