"""What is kept of a node."""

from typing import Any

from msgspec import field
from msgspec.structs import force_setattr

from gpushare import names
from gpushare.api.pruned.shape import (
    Conditions,
    Kept,
    KeptObject,
    Metadata,
    only,
    only_conditions,
    only_gpus,
)

_NODE_ANNOTATIONS = names.NODE_ANNOTATIONS | {names.ANNOTATION_RETRY, names.ANNOTATION_TEARDOWN}
_MANAGED = frozenset(f"f:{key}" for key in names.NODE_LABELS | _NODE_ANNOTATIONS)


class ManagedMetadata(Kept, frozen=True, kw_only=True):
    """Of the labels and annotations that concern the operator, those that a manager owns."""

    labels: dict[str, Any] | None = field(default=None, name="f:labels")
    annotations: dict[str, Any] | None = field(default=None, name="f:annotations")

    def __post_init__(self) -> None:
        force_setattr(self, "labels", only(self.labels, _MANAGED))
        force_setattr(self, "annotations", only(self.annotations, _MANAGED))


class ManagedSpec(Kept, frozen=True, kw_only=True):
    """Whether a manager owns the cordon."""

    unschedulable: Any = field(default=None, name="f:unschedulable")


class ManagedFields(Kept, frozen=True, kw_only=True):
    """What a manager owns."""

    metadata: ManagedMetadata | None = field(default=None, name="f:metadata")
    spec: ManagedSpec | None = field(default=None, name="f:spec")


class ManagedEntry(Kept, frozen=True, kw_only=True):
    """Who owns what."""

    manager: str | None = None
    operation: str | None = None
    subresource: str | None = None
    time: str | None = None
    fields: ManagedFields | None = field(default=None, name="fieldsV1")


class NodeMetadata(Metadata, frozen=True, kw_only=True):
    """Of a node."""

    annotations_kept = _NODE_ANNOTATIONS

    managed_fields: tuple[ManagedEntry, ...] | None = None


class Taint(Kept, frozen=True, kw_only=True):
    """Of a node."""

    key: str
    effect: str
    value: str | None = None


class NodeSpec(Kept, frozen=True, kw_only=True):
    """Of a node."""

    unschedulable: bool | None = None
    provider_id: str | None = field(default=None, name="providerID")
    taints: tuple[Taint, ...] | None = None


class Address(Kept, frozen=True, kw_only=True):
    """Of a node."""

    type: str
    address: str


class NodeInfo(Kept, frozen=True, kw_only=True):
    """What the kubelet says of its machine."""

    boot_id: str | None = field(default=None, name="bootID")
    container_runtime_version: str | None = None
    kernel_version: str | None = None
    kubelet_version: str | None = None
    os_image: str | None = None
    machine_id: str | None = field(default=None, name="machineID")


class NodeStatus(Kept, frozen=True, kw_only=True):
    """Of a node; its GPU resources, and the condition Ready."""

    addresses: tuple[Address, ...] | None = None
    allocatable: dict[str, str | int] | None = None
    capacity: dict[str, str | int] | None = None
    conditions: Conditions | None = None
    node_info: NodeInfo | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "allocatable", only_gpus(self.allocatable))
        force_setattr(self, "capacity", only_gpus(self.capacity))
        force_setattr(self, "conditions", only_conditions(self.conditions, ("Ready",)))


class KeptNode(KeptObject, frozen=True, kw_only=True):
    """A node."""

    metadata: NodeMetadata
    spec: NodeSpec | None = None
    status: NodeStatus | None = None
