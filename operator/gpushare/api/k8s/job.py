"""Parses the Job of a node's teardown."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

NODE_FIELD = "metadata.name"


class JobState(StrEnum):
    """State of a Job."""

    RUNNING = "Running"
    COMPLETE = "Complete"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class Job:
    """The fields of a Job for one node that decisions need."""

    namespace: str
    name: str
    uid: str
    node: str
    state: JobState = JobState.RUNNING
    message: str = ""
    """Message of the condition Complete or Failed."""
    args: tuple[str, ...] = ()
    """Arguments of the container."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def parse_job(raw: Mapping[str, Any]) -> Job | None:
    """Parse a Job from the API server's JSON; None for one that is not pinned to a node."""
    meta = raw["metadata"]
    pod = raw["spec"]["template"].get("spec") or {}
    node = _find_node(pod)
    if not node:
        return None
    args = tuple(arg for container in pod["containers"] for arg in container.get("args") or ())
    job = Job(meta["namespace"], meta["name"], meta["uid"], node, args=args)
    for condition in (raw.get("status") or {}).get("conditions") or ():
        if condition.get("status") == "True" and condition.get("type") in ("Complete", "Failed"):
            state, message = JobState(condition["type"]), condition.get("message") or ""
            return replace(job, state=state, message=message)
    return job


def _find_node(spec: Mapping[str, Any]) -> str:
    """Find the node to which required affinity pins a pod, as for pods of a DaemonSet."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for requirement in term.get("matchFields") or ():
            if requirement.get("key") == NODE_FIELD and len(requirement.get("values") or ()) == 1:
                return str(requirement["values"][0])
    return ""
