"""What is kept of pools, DaemonSets, namespaces, ConfigMaps, and the operator's Deployments."""

import json
from datetime import datetime
from typing import Any

from msgspec import field
from msgspec.structs import force_setattr

from gpushare import names
from gpushare.api import variables
from gpushare.api.k8s.daemonset import shorten_image
from gpushare.api.pruned.pods import Variable
from gpushare.api.pruned.shape import Affinity, Kept, KeptObject, Metadata, Name, Strings, only

_VARIABLES = frozenset(variables.Variable)


class ManagedPoolFields(Kept, frozen=True, kw_only=True):
    """What a manager owns of a pool's spec."""

    spec: dict[str, Any] | None = field(default=None, name="f:spec")


class ManagedPoolEntry(Kept, frozen=True, kw_only=True):
    """Who owns what."""

    manager: str | None = None
    operation: str | None = None
    fields: ManagedPoolFields | None = field(default=None, name="fieldsV1")


class PoolMetadata(Metadata, frozen=True, kw_only=True):
    """Of a pool."""

    annotations_kept = frozenset({names.ANNOTATION_LAST_APPLIED, names.ANNOTATION_RETRY})

    creation_timestamp: datetime
    generation: int = 0
    finalizers: tuple[str, ...] | None = None
    managed_fields: tuple[ManagedPoolEntry, ...] | None = None

    def __post_init__(self) -> None:
        Metadata.__post_init__(self)
        if applied := (self.annotations or {}).get(names.ANNOTATION_LAST_APPLIED):
            # A whole manifest, with whatever labels and annotations its owner put there.
            shown = {names.ANNOTATION_LAST_APPLIED: _keep_spec(applied)}
            force_setattr(self, "annotations", {**(self.annotations or {}), **shown})


def _keep_spec(manifest: str) -> str:
    try:
        return json.dumps({"spec": json.loads(manifest)["spec"]})
    except (ValueError, TypeError, KeyError):
        return "{}"


class KeptPool(KeptObject, frozen=True, kw_only=True):
    """A GPUSharePool, all of it."""

    metadata: PoolMetadata
    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] | None = None


class DaemonSetMetadata(Metadata, frozen=True, kw_only=True):
    """Of a DaemonSet."""

    namespace: Name


class ComponentContainer(Kept, frozen=True, kw_only=True):
    """Of a DaemonSet: its image, without registry and tag."""

    image: str = ""

    def __post_init__(self) -> None:
        force_setattr(self, "image", shorten_image(self.image))


class TemplateSpec(Kept, frozen=True, kw_only=True):
    """What the pods of a DaemonSet run, on which nodes, and how easily they are displaced."""

    priority_class_name: str | None = None
    containers: tuple[ComponentContainer, ...] | None = None
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


class KeptConfigMap(KeptObject, frozen=True, kw_only=True):
    """A ConfigMap that tells the scheduler extender of a node's unhealthy cards."""

    metadata: Metadata
    data: Strings | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "data", only(self.data, (names.UNHEALTHY_KEY,)))


class DeploymentMetadata(Metadata, frozen=True, kw_only=True):
    """Of a Deployment."""

    namespace: Name


class OperatorContainer(Kept, frozen=True, kw_only=True):
    """Of the operator."""

    name: str
    env: tuple[Variable, ...] | None = None

    def __post_init__(self) -> None:
        shown = tuple(each for each in self.env or () if each.name in _VARIABLES)
        force_setattr(self, "env", shown or None)


class OperatorTemplateSpec(Kept, frozen=True, kw_only=True):
    """Of the operator's pods."""

    containers: tuple[OperatorContainer, ...] | None = None


class OperatorTemplate(Kept, frozen=True, kw_only=True):
    """Of the operator's pods."""

    spec: OperatorTemplateSpec | None = None


class DeploymentSpec(Kept, frozen=True, kw_only=True):
    """Of a Deployment."""

    template: OperatorTemplate | None = None


class KeptDeployment(KeptObject, frozen=True, kw_only=True):
    """A Deployment of the operator: how it is set."""

    metadata: DeploymentMetadata
    spec: DeploymentSpec | None = None
