"""Parses the fields of a Node and of a Pod that the simulator needs."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from devcluster import names
from devcluster.apiobject import Object

CARD_RESOURCES = (
    names.GPU_MEM,
    names.GPU_CORE,
    names.TOPOLOGY_CARD,
    names.WHOLE_CARD,
    names.SHARED_CARD,
)
KEPT_PREFIXES = (
    names.PREFIX,
    "ALIYUN_COM_GPU_",
    "scheduler.framework.gpushare.",
    "gpushare.alibabacloud.com/",
    names.CONFIG_MIRROR,
)
SUFFIXES = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


@dataclass(frozen=True)
class Node:
    """A Node, with the cards of its annotations and its state in the API server."""

    name: str
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    boot_id: str = ""
    capacity: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    ready: str = "True"  # status of the condition Ready
    ready_message: str = ""
    version: int = 0  # resourceVersion

    @property
    def has_static_plugin(self) -> bool:
        """Whether the kubelet's folder has the manifest of the static whole-card plugin."""
        return self.annotations.get(names.STATIC_MANIFEST) == "true"

    @property
    def sees_label(self) -> bool:
        """Whether an init container of NVIDIA's config-manager sees the node's label."""
        return self.annotations.get(names.SEES_LABEL) == "true"

    @property
    def kubelet_restarts(self) -> int:
        """Number of requested restarts of the kubelet."""
        return count(self.annotations.get(names.RESTART_KUBELET))

    @property
    def cards(self) -> int:
        """Number of GPU cards."""
        return count(self.annotations.get(names.CARDS))

    @property
    def card_memory_gib(self) -> int:
        """Memory of a card in whole GiB."""
        return count(self.annotations.get(names.CARD_MEMORY_GIB))


@dataclass(frozen=True)
class Container:
    """A container of a pod's spec."""

    name: str
    limits: Mapping[str, int] = field(default_factory=dict)  # extended GPU resources only, 0 too
    env: Mapping[str, str] = field(default_factory=dict)
    args: tuple[str, ...] = ()

    @property
    def is_unaccounted(self) -> bool:
        """Whether the container uses GPUs without a request (guide 001, 2.2.3)."""
        reaches = names.CGPU_DISABLE in self.env or names.VISIBLE_DEVICES in self.env
        return reaches and not any(self.limits.values())


@dataclass(frozen=True)
class Shown:
    """The fields of a container's status that the simulator writes."""

    running: bool = False
    ready: bool = False
    restarts: int = 0
    waiting: str = ""  # reason


@dataclass(frozen=True)
class Pod:
    """A Pod that the simulator plays or accounts for."""

    uid: str
    name: str
    namespace: str = "default"
    node: str = ""
    created: str = ""
    started: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    component: str = ""  # of an edition: the name of its DaemonSet or static pod, else empty
    containers: tuple[Container, ...] = ()
    init_containers: tuple[str, ...] = ()
    configs: str = ""  # of a config-manager: the ConfigMap, `namespace/name`
    node_selector: Mapping[str, str] = field(default_factory=dict)
    node_affinity: tuple[Object, ...] = ()  # required nodeSelectorTerms
    restart_policy: str = "Always"
    phase: str = "Pending"
    ready: bool = False
    shown: Mapping[str, Shown] = field(default_factory=dict)
    terminating: bool = False
    version: int = 0  # resourceVersion

    @property
    def key(self) -> str:
        """`namespace/name`, for log lines."""
        return f"{self.namespace}/{self.name}"

    @property
    def default_config(self) -> str:
        """Key of a config-manager for a node without the label."""
        return next(filter(None, (c.env.get(names.DEFAULT_CONFIG) for c in self.containers)), "")

    @property
    def is_component(self) -> bool:
        """Whether the pod is a part of an edition, or a plugin: of a DaemonSet, or static."""
        return bool(self.component) and names.PLAYED in self.annotations

    @property
    def process(self) -> str:
        """Identity of the running containers, which stays when a mirror pod is replaced."""
        return self.annotations.get(names.CONFIG_MIRROR, self.uid)

    @property
    def is_teardown(self) -> bool:
        """Whether the pod removes isolation from its node, or verifies that."""
        return self.labels.get(names.COMPONENT) == names.ISOLATION_TEARDOWN

    @property
    def is_workload(self) -> bool:
        """Whether the pod is neither a component nor a teardown."""
        return not self.is_component and not self.is_teardown

    @property
    def is_played(self) -> bool:
        """Whether the simulator writes the pod's status; KWOK plays other pods."""
        asks = any(c.limits for c in self.containers)
        return asks or self.is_teardown or names.PLAYED in self.annotations

    @property
    def is_unaccounted(self) -> bool:
        """Whether one of the containers uses GPUs without a request."""
        return any(c.is_unaccounted for c in self.containers)

    @property
    def is_finished(self) -> bool:
        """Whether the phase is final."""
        return self.phase in ("Succeeded", "Failed")

    def demand(self, resource: str) -> int:
        """Sum the units of a resource that all containers request."""
        return sum(c.limits.get(resource, 0) for c in self.containers)


def parse_node(raw: Object) -> Node:
    """Parse a Node."""
    meta, status = raw["metadata"], raw.get("status") or {}
    conditions = {c["type"]: c for c in status.get("conditions") or ()}
    ready = conditions.get("Ready", {})
    return Node(
        name=meta["name"],
        uid=meta.get("uid", ""),
        labels=meta.get("labels") or {},
        annotations=_kept(meta),
        boot_id=(status.get("nodeInfo") or {}).get("bootID", ""),
        capacity=_gpu_only(status.get("capacity")),
        allocatable=_gpu_only(status.get("allocatable")),
        ready=ready.get("status", ""),
        ready_message=ready.get("message", ""),
        version=int(meta.get("resourceVersion", 0)),
    )


def parse_pod(raw: Object) -> Pod:
    """Parse a Pod."""
    meta, spec, status = raw["metadata"], raw["spec"], raw.get("status") or {}
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    conditions = {c["type"]: c["status"] for c in status.get("conditions") or ()}
    return Pod(
        uid=meta.get("uid", ""),
        name=meta.get("name", ""),
        namespace=meta.get("namespace", "default"),
        node=spec.get("nodeName") or "",
        created=meta.get("creationTimestamp") or "",
        started=status.get("startTime") or "",
        labels=meta.get("labels") or {},
        annotations=_kept(meta),
        component=_find_component(meta),
        containers=tuple(_container(c) for c in spec.get("containers") or ()),
        init_containers=tuple(c["name"] for c in spec.get("initContainers") or ()),
        configs=_find_configs(meta, spec),
        node_selector=spec.get("nodeSelector") or {},
        node_affinity=tuple(required.get("nodeSelectorTerms") or ()),
        restart_policy=spec.get("restartPolicy", "Always"),
        phase=status.get("phase", "Pending"),
        ready=conditions.get("Ready") == "True",
        shown={c["name"]: _shown(c) for c in status.get("containerStatuses") or ()},
        terminating="deletionTimestamp" in meta,
        version=int(meta.get("resourceVersion", 0)),
    )


def parse_quantity(text: object) -> int:
    """Parse a whole quantity ("15", "10G"); 0 for anything else."""
    value = str(text)
    for suffix, factor in SUFFIXES.items():
        if value.endswith(suffix) and value[: -len(suffix)].isdigit():
            return int(value[: -len(suffix)]) * factor
    return int(value) if value.isdigit() else 0


def count(text: str | None) -> int:
    """Parse the number in an annotation; 0 if it is absent or invalid."""
    return parse_quantity(text or "0")


def parse_object(text: str | None) -> Object | None:
    """Parse a JSON object in an annotation; None if it is absent or invalid."""
    try:
        value = json.loads(text or "")
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _kept(meta: Object) -> dict[str, str]:
    annotations = meta.get("annotations") or {}
    return {k: v for k, v in annotations.items() if k.startswith(KEPT_PREFIXES)}


def _gpu_only(amounts: Mapping[str, str] | None) -> dict[str, str]:
    managed = (*CARD_RESOURCES, names.GPU_COUNT)
    return {k: v for k, v in (amounts or {}).items() if k in managed}


def _find_component(meta: Object) -> str:
    if runs := (meta.get("annotations") or {}).get(names.RUNS):
        return str(runs)
    if meta.get("namespace") != names.SYSTEM_NAMESPACE:
        return ""
    if names.CONFIG_MIRROR in (meta.get("annotations") or {}):
        component: str = (meta.get("labels") or {}).get("component", "")
        return component
    owners: Iterator[str] = (
        o["name"] for o in meta.get("ownerReferences") or () if o["kind"] == "DaemonSet"
    )
    return next(owners, "")


def _find_configs(meta: Object, spec: Object) -> str:
    volumes = {volume["name"]: volume for volume in spec.get("volumes") or ()}
    config_map = volumes.get(names.CONFIGS_VOLUME, {}).get("configMap")
    return f"{meta.get('namespace', 'default')}/{config_map['name']}" if config_map else ""


def _container(raw: Object) -> Container:
    limits = (raw.get("resources") or {}).get("limits") or {}
    asked = {r: parse_quantity(limits[r]) for r in CARD_RESOURCES if r in limits}
    return Container(
        name=raw["name"],
        limits=asked,
        env={e["name"]: e["value"] for e in raw.get("env") or () if "value" in e},
        args=tuple(raw.get("args") or ()),
    )


def _shown(raw: Object) -> Shown:
    state = raw.get("state") or {}
    return Shown(
        running="running" in state,
        ready=bool(raw.get("ready")),
        restarts=int(raw.get("restartCount", 0)),
        waiting=(state.get("waiting") or {}).get("reason", ""),
    )
