"""Parses nodes, pods and pools from the API server's JSON."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from devcluster import names

POOL_LABEL = "gpushare.io/pool"
DECISION = "gpushare.io/decision"


@dataclass(frozen=True)
class Node:
    """A node with its labels and allocatable resources."""

    name: str
    labels: Mapping[str, str]
    allocatable: Mapping[str, str]
    schedulable: bool
    """Whether the node is not cordoned."""
    managers: frozenset[str]
    """Field managers of the node."""
    our_annotations: frozenset[str]
    """Keys of the operator's annotations."""
    boot_id: str
    has_module: bool
    """Whether the cGPU kernel module is loaded, by the simulator (on hardware: /proc/cgpu_km)."""

    def offers(self, resource: str) -> int:
        """Return the allocatable units of an extended resource."""
        return int(self.allocatable.get(resource, "0"))

    def shows(self, *keys: str) -> str:
        """Format the labels ``keys`` as KEY=VALUE."""
        return ", ".join(f"{key}={self.labels.get(key, '(none)')}" for key in keys)


@dataclass(frozen=True)
class Container:
    """A container: its allocation at the pod's admission, and its state.

    The first five fields are the simulator's record (on hardware: `nvidia-smi` and `env` inside).
    """

    isolated: bool
    visible_memory_mib: int
    cards: tuple[int, ...]
    env: Mapping[str, str]
    plugin: str
    ready: bool
    restarts: int
    waiting: str
    last_error: str


@dataclass(frozen=True)
class Pod:
    """A pod of one container."""

    name: str
    uid: str
    node: str
    deleting: bool
    selector: Mapping[str, str]
    """nodeSelector of the pod."""
    annotations: Mapping[str, str]
    container: Container | None
    """None until the node has admitted the pod."""

    @property
    def pool(self) -> str:
        """Pool in the nodeSelector; empty where there is none."""
        return self.selector.get(POOL_LABEL, "")

    @property
    def decision(self) -> Mapping[str, Any]:
        """Admission's annotation on the pod; empty where there is none."""
        noted: Mapping[str, Any] = json.loads(self.annotations.get(DECISION, "{}"))
        return noted

    @property
    def ready(self) -> bool:
        return self.container is not None and self.container.ready

    @property
    def got(self) -> Container:
        """The container of an admitted pod."""
        assert self.container is not None, f"pod {self.name} has not been admitted"
        return self.container


@dataclass(frozen=True)
class Rollout:
    """Progress of a pool's change, by its condition RolloutComplete and its plan."""

    reason: str
    message: str
    plan_hash: str
    plan_summary: str
    left: tuple[str, ...]
    """Nodes that must still be changed, in order."""


@dataclass(frozen=True)
class Isolation:
    """Counts of a pool's containers, and its condition IsolationConsistent."""

    consistent: bool
    message: str
    containers: int
    isolated: int
    stale: int
    unknown: int


@dataclass(frozen=True)
class Pool:
    """A GPUSharePool's status; reason and message are those of its Ready condition."""

    name: str
    matched: int
    ready: bool
    blocked: int
    failed: int
    reason: str
    message: str
    current: bool
    """Whether the status is for the newest spec."""
    samples: Mapping[str, str]
    """Messages of nodes that are not ready, by reason."""
    rollout: Rollout
    isolation: Isolation


def parse_node(raw: Mapping[str, Any]) -> Node:
    """Parse a node from the API server's JSON."""
    metadata = raw["metadata"]
    return Node(
        name=metadata["name"],
        labels=metadata.get("labels", {}),
        allocatable=raw["status"].get("allocatable", {}),
        schedulable=not raw["spec"].get("unschedulable", False),
        managers=frozenset(entry["manager"] for entry in metadata.get("managedFields", ())),
        our_annotations=frozenset(
            key for key in metadata.get("annotations", {}) if key.startswith("gpushare.io/")
        ),
        boot_id=raw["status"]["nodeInfo"]["bootID"],
        has_module=names.MODULE in metadata.get("annotations", {}),
    )


def parse_pod(raw: Mapping[str, Any]) -> Pod:
    """Parse a pod from the API server's JSON."""
    metadata, spec = raw["metadata"], raw["spec"]
    annotations = metadata.get("annotations", {})
    name = spec["containers"][0]["name"]
    record = json.loads(annotations.get(names.CONTAINERS, "{}")).get(name)
    statuses = raw["status"].get("containerStatuses", [])
    status: Mapping[str, Any] = next((item for item in statuses if item["name"] == name), {})
    return Pod(
        name=metadata["name"],
        uid=metadata["uid"],
        node=spec.get("nodeName", ""),
        deleting="deletionTimestamp" in metadata,
        selector=spec.get("nodeSelector", {}),
        annotations=annotations,
        container=_build_container(record, status) if record else None,
    )


def parse_pool(raw: Mapping[str, Any]) -> Pool:
    """Parse a GPUSharePool from the API server's JSON."""
    status = raw.get("status", {})
    conditions = status.get("conditions", [])
    ready = _find_condition(conditions, "Ready")
    nodes = status.get("nodes", {})
    return Pool(
        name=raw["metadata"]["name"],
        matched=nodes.get("matched", 0),
        ready=ready.get("status") == "True",
        blocked=nodes.get("blocked", 0),
        failed=nodes.get("failed", 0),
        reason=ready.get("reason", ""),
        message=ready.get("message", ""),
        current=status.get("observedGeneration") == raw["metadata"]["generation"],
        samples={item["reason"]: item.get("message", "") for item in status.get("samples", [])},
        rollout=_build_rollout(
            _find_condition(conditions, "RolloutComplete"), status.get("plan", {})
        ),
        isolation=_build_isolation(
            _find_condition(conditions, "IsolationConsistent"), status.get("isolation", {})
        ),
    )


def _find_condition(conditions: Iterable[Mapping[str, Any]], kind: str) -> Mapping[str, Any]:
    return next((item for item in conditions if item["type"] == kind), {})


def _build_rollout(complete: Mapping[str, Any], plan: Mapping[str, Any]) -> Rollout:
    return Rollout(
        reason=complete.get("reason", ""),
        message=complete.get("message", ""),
        plan_hash=plan.get("hash", ""),
        plan_summary=plan.get("summary", ""),
        left=tuple(step["node"] for step in plan.get("steps", [])),
    )


def _build_isolation(consistent: Mapping[str, Any], counts: Mapping[str, int]) -> Isolation:
    return Isolation(
        consistent=consistent.get("status") == "True",
        message=consistent.get("message", ""),
        containers=counts.get("containers", 0),
        isolated=counts.get("isolated", 0),
        stale=counts.get("stale", 0),
        unknown=counts.get("unknown", 0),
    )


def _build_container(record: Mapping[str, Any], status: Mapping[str, Any]) -> Container:
    waiting = status.get("state", {}).get("waiting", {})
    terminated = status.get("lastState", {}).get("terminated", {})
    return Container(
        isolated=record["isolated"],
        visible_memory_mib=record["visible_memory_mib"],
        cards=tuple(record["cards"]),
        env=record["env"],
        plugin=record["plugin"],
        ready=status.get("ready", False),
        restarts=status.get("restartCount", 0),
        waiting=waiting.get("reason", ""),
        last_error=terminated.get("message", ""),
    )
