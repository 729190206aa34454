"""What is kept of a pod."""

from datetime import datetime
from typing import Any

from msgspec import field
from msgspec.structs import force_setattr

from gpushare import names
from gpushare.api.pruned.shape import (
    Affinity,
    Conditions,
    Kept,
    KeptObject,
    Metadata,
    Name,
    Strings,
    only_conditions,
    only_gpus,
)

_POD_ANNOTATIONS = frozenset(
    {
        names.ANNOTATION_ALLOCATION,
        names.ANNOTATION_CARD,
        names.ANNOTATION_CARD_UNITS,
        names.ANNOTATION_DECISION,
        names.ANNOTATION_INJECT,
        names.ANNOTATION_ISOLATION,
        names.ANNOTATION_POOL,
        "kubernetes.io/config.mirror",
        "kubernetes.io/config.source",
    }
)


class Owner(Kept, frozen=True, kw_only=True):
    """Of a pod."""

    kind: str
    name: str
    uid: str
    controller: bool | None = None


class PodMetadata(Metadata, frozen=True, kw_only=True):
    """Of a pod."""

    annotations_kept = _POD_ANNOTATIONS

    namespace: Name
    owner_references: tuple[Owner, ...] | None = None


class Resources(Kept, frozen=True, kw_only=True):
    """GPU resources of a container."""

    limits: dict[str, str | int] | None = None
    requests: dict[str, str | int] | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "limits", only_gpus(self.limits))
        force_setattr(self, "requests", only_gpus(self.requests))


class Variable(Kept, frozen=True, kw_only=True):
    """Of a container's environment: one of the few that are kept."""

    name: str
    value: str | None = None
    value_from: dict[str, Any] | None = None
    """That its value is read from elsewhere, such as a Secret; not from which."""

    def __post_init__(self) -> None:
        if self.value_from:
            force_setattr(self, "value_from", {kind: {} for kind in self.value_from})


class Container(Kept, frozen=True, kw_only=True):
    """Of a pod."""

    name: str
    env: tuple[Variable, ...] | None = None
    resources: Resources | None = None
    restart_policy: str | None = None

    def __post_init__(self) -> None:
        shown = tuple(each for each in self.env or () if each.name in names.GPU_ENVIRONMENT)
        force_setattr(self, "env", shown or None)


class Toleration(Kept, frozen=True, kw_only=True):
    """Of a pod."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class Named(Kept, frozen=True, kw_only=True):
    """A scheduling gate or a resource claim of a pod."""

    name: str


class PodSpec(Kept, frozen=True, kw_only=True):
    """Of a pod."""

    node_name: str | None = None
    node_selector: Strings | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    scheduler_name: str | None = None
    scheduling_gates: tuple[Named, ...] | None = None
    resource_claims: tuple[Named, ...] | None = None
    host_ipc: bool | None = field(default=None, name="hostIPC")
    init_containers: tuple[Container, ...] | None = None
    containers: tuple[Container, ...] | None = None


class ContainerStatus(Kept, frozen=True, kw_only=True):
    """Of a container."""

    name: str
    restart_count: int = 0


class PodStatus(Kept, frozen=True, kw_only=True):
    """Of a pod; the conditions PodScheduled and Ready."""

    phase: str | None = None
    start_time: datetime | None = None
    conditions: Conditions | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None

    def __post_init__(self) -> None:
        kinds = ("PodScheduled", "Ready")
        force_setattr(self, "conditions", only_conditions(self.conditions, kinds))


class KeptPod(KeptObject, frozen=True, kw_only=True):
    """A pod."""

    metadata: PodMetadata
    spec: PodSpec | None = None
    status: PodStatus | None = None
