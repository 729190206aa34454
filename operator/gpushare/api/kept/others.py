"""What is kept of pools, DaemonSets and namespaces."""

from datetime import datetime
from typing import Any

from msgspec import field

from gpushare import names
from gpushare.api.kept.shape import Affinity, Kept, KeptObject, Metadata, Name, Strings


class PoolMetadata(Metadata, frozen=True, kw_only=True):
    """Of a pool."""

    annotations_kept = frozenset({names.ANNOTATION_RETRY})

    creation_timestamp: datetime
    generation: int = 0
    finalizers: tuple[str, ...] | None = None


class KeptPool(KeptObject, frozen=True, kw_only=True):
    """A GPUSharePool, all of it."""

    metadata: PoolMetadata
    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] | None = None


class DaemonSetMetadata(Metadata, frozen=True, kw_only=True):
    """Of a DaemonSet."""

    namespace: Name


class TemplateSpec(Kept, frozen=True, kw_only=True):
    """On which nodes the pods of a DaemonSet run."""

    node_selector: Strings | None = None
    affinity: Affinity | None = None


class Template(Kept, frozen=True, kw_only=True):
    """Of a DaemonSet's pods."""

    spec: TemplateSpec | None = None


class DaemonSetSpec(Kept, frozen=True, kw_only=True):
    """Of a DaemonSet."""

    template: Template | None = None


class DaemonSetStatus(Kept, frozen=True, kw_only=True):
    """Of a DaemonSet."""

    desired_number_scheduled: int = 0
    number_ready: int = 0


class KeptDaemonSet(KeptObject, frozen=True, kw_only=True):
    """A DaemonSet of the device plugins' namespace."""

    metadata: DaemonSetMetadata
    spec: DaemonSetSpec | None = None
    status: DaemonSetStatus | None = None


class KeptNamespace(KeptObject, frozen=True, kw_only=True):
    """A namespace."""

    metadata: Metadata
