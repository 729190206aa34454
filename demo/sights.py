"""What there is to see in the cluster: nodes, pods and pools, from the API server's JSON."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from devcluster import names

POOL_LABEL = "gpushare.io/pool"
DECISION = "gpushare.io/decision"


@dataclass(frozen=True)
class Node:
    """A node: its labels, and how much of each resource may be given out."""

    name: str
    labels: Mapping[str, str]
    allocatable: Mapping[str, str]
    schedulable: bool
    """Not cordoned."""
    managers: frozenset[str]
    """Who owns something on it, by its managedFields."""
    our_annotations: frozenset[str]
    """Keys of the operator's annotations."""
    boot_id: str
    has_module: bool
    """The cGPU kernel module is loaded, by the simulator's record (on hardware: /proc/cgpu_km)."""

    def offers(self, resource: str) -> int:
        """Units of an extended resource that are allocatable; 0 where there are none."""
        return int(self.allocatable.get(resource, "0"))

    def shows(self, *keys: str) -> str:
        """The labels ``keys`` as KEY=VALUE, for a person."""
        return ", ".join(f"{key}={self.labels.get(key, '(none)')}" for key in keys)


@dataclass(frozen=True)
class Container:
    """A container: what it got when its pod was admitted, and how it fares.

    The first five are the simulator's record (on hardware: `nvidia-smi` and `env` inside it).
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
    """Its nodeSelector."""
    annotations: Mapping[str, str]
    container: Container | None
    """None until the node has admitted the pod."""

    @property
    def pool(self) -> str:
        """The pool that its nodeSelector names; empty where it names none."""
        return self.selector.get(POOL_LABEL, "")

    @property
    def decision(self) -> Mapping[str, Any]:
        """What admission noted on it; empty where it noted nothing."""
        noted: Mapping[str, Any] = json.loads(self.annotations.get(DECISION, "{}"))
        return noted

    @property
    def ready(self) -> bool:
        return self.container is not None and self.container.ready

    @property
    def got(self) -> Container:
        """The container of a pod that has been admitted."""
        assert self.container is not None, f"pod {self.name} has not been admitted"
        return self.container


@dataclass(frozen=True)
class Rollout:
    """How far a pool's change is, by its condition RolloutComplete, and what is left to do."""

    reason: str
    message: str
    plan_hash: str
    plan_summary: str
    left: tuple[str, ...]
    """Nodes that are still to be changed, in that order."""


@dataclass(frozen=True)
class Isolation:
    """What a pool says of its containers, and of that by its condition IsolationConsistent."""

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
    """The status speaks of the newest spec."""
    samples: Mapping[str, str]
    """Why nodes are not ready: a message for each reason."""
    rollout: Rollout
    isolation: Isolation


def parse_node(raw: Mapping[str, Any]) -> Node:
    """A node from the API server's JSON."""
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
    """A pod from the API server's JSON."""
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
    """A GPUSharePool from the API server's JSON."""
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
