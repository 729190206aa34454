"""Builds a pod's status as the kubelet does."""

from dataclasses import dataclass
from datetime import UTC, datetime

from devcluster.apiobject import Object
from devcluster.processnode.pod import Pod


@dataclass(frozen=True)
class Ended:
    """The end of a run of the container."""

    exit_code: int
    """Exit code, or 128 plus the number of a signal."""
    started_at: str
    finished_at: str


@dataclass(frozen=True)
class State:
    """State of the container; without a process and `ended` the pod waits for its start."""

    phase: str = "Pending"
    pid: int | None = None
    started_at: str = ""
    is_started: bool = False
    """Whether the startup probe succeeded, or there is none."""
    is_ready: bool = False
    ready_changed_at: str = ""
    restarts: int = 0
    ended: Ended | None = None
    """The last ended run."""
    waits_for: tuple[str, str] = ("ContainerCreating", "")
    """Reason and message while the container does not run."""


def now() -> str:
    """Return the time in the API's format."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def build_status(
    pod: Pod, container: str, image: str, state: State, *, address: str, since: str
) -> Object:
    """Build the pod's status; `since` is the time of the kubelet's admission."""
    is_over = state.phase in ("Succeeded", "Failed")
    ready = {
        "status": "True" if state.is_ready else "False",
        "lastTransitionTime": state.ready_changed_at or since,
    }
    return {
        "phase": state.phase,
        "startTime": since,
        "podIP": address,
        "podIPs": [{"ip": address}],
        # Merged by type: PodScheduled is the scheduler's and stays.
        "conditions": [
            {"type": "Initialized", "status": "True", "lastTransitionTime": since},
            {"type": "ContainersReady", **ready},
            {"type": "Ready", **ready},
        ],
        "containerStatuses": [
            {
                "name": container,
                "image": image,
                "imageID": "",
                # Who wants to kill a container needs its process.
                **({"containerID": f"process://{state.pid}"} if state.pid else {}),
                "ready": state.is_ready,
                "started": state.is_started,
                "restartCount": state.restarts,
                "state": _build_state(state, is_over=is_over),
                "lastState": {} if is_over else _build_terminated(state),
            }
        ],
    }


def _build_state(state: State, *, is_over: bool) -> Object:
    if is_over:
        return _build_terminated(state)
    if state.pid:
        return {"running": {"startedAt": state.started_at}}
    reason, message = state.waits_for
    return {"waiting": {"reason": reason, "message": message}}


def _build_terminated(state: State) -> Object:
    if state.ended is None:
        return {}
    return {
        "terminated": {
            "exitCode": state.ended.exit_code,
            "reason": "Error" if state.ended.exit_code else "Completed",
            "startedAt": state.ended.started_at,
            "finishedAt": state.ended.finished_at,
        }
    }
