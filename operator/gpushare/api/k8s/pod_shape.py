"""Declares the fields of a Pod's JSON that decisions about its pool read.

Other fields are skipped, so that fields of a newer Kubernetes do no harm. Any field may be null.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

Strings = dict[str, str]


class Shape(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Base of the declared fields of an object of the Kubernetes API, with the API's types."""


class Resources(Shape, frozen=True):
    """Quantities by resource, such as `"3"`."""

    limits: dict[str, Any] | None = None
    requests: dict[str, Any] | None = None


class EnvVar(Shape, frozen=True):
    """A variable of a container's environment."""

    name: str | None = None
    value: str | None = None
    value_from: dict[str, Any] | None = None


class Container(Shape, frozen=True):
    """A container or init container of a pod."""

    name: str | None = None
    env: tuple[EnvVar, ...] | None = None
    resources: Resources | None = None
    restart_policy: str | None = None


class Owner(Shape, frozen=True):
    """A reference to an owner."""

    kind: str | None = None
    controller: bool | None = None
    uid: str | None = None


class Requirement(Shape, frozen=True):
    """A requirement of a node affinity on one label or field."""

    key: str | None = None
    operator: str | None = None
    values: tuple[str, ...] | None = None


class Term(Shape, frozen=True):
    """A term of a node affinity."""

    match_expressions: tuple[Requirement, ...] | None = None
    match_fields: tuple[Requirement, ...] | None = None


class RequiredNodes(Shape, frozen=True):
    """Node selector terms, of which one must match."""

    node_selector_terms: tuple[Term, ...] | None = None


class Preferred(Shape, frozen=True):
    """A preferred term with its weight."""

    weight: int | None = None
    preference: Term | None = None


class NodeAffinity(Shape, frozen=True):
    """Node affinity."""

    required: RequiredNodes | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[Preferred, ...] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Shape, frozen=True):
    """Affinity of a pod, without that between pods."""

    node_affinity: NodeAffinity | None = None


class SchedulingGate(Shape, frozen=True):
    """A scheduling gate: a pod that has one is not scheduled."""

    name: str | None = None


class SchedulingGroup(Shape, frozen=True):
    """The group with which a pod is scheduled (Kubernetes 1.36 and newer)."""

    pod_group_name: str | None = None


class Written(Shape, frozen=True):
    """An entry of managedFields: what one field manager wrote."""

    fields_v1: dict[str, Any] | None = None


class Metadata(Shape, frozen=True):
    """Metadata of an object."""

    name: str | None = None
    generate_name: str | None = None
    """Prefix of the name that the API server generates for an object without one."""
    labels: Strings | None = None
    annotations: Strings | None = None
    owner_references: tuple[Owner, ...] | None = None
    managed_fields: tuple[Written, ...] | None = None


class Spec(Shape, frozen=True):
    """Spec of a pod."""

    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None
    node_selector: Strings | None = None
    affinity: Affinity | None = None
    tolerations: tuple[dict[str, Any], ...] | None = None
    scheduler_name: str | None = None
    scheduling_gates: tuple[SchedulingGate, ...] | None = None
    scheduling_group: SchedulingGroup | None = None
    node_name: str | None = None
    resource_claims: tuple[Any, ...] | None = None
    host_ipc: bool | None = msgspec.field(default=None, name="hostIPC")


class PodShape(Shape, frozen=True):
    """A pod, or a workload's template of one."""

    metadata: Metadata | None = None
    spec: Spec | None = None


class MalformedPodError(ValueError):
    """The object is no valid Pod; the message names the field."""


def parse_pod_shape(raw: Mapping[str, Any]) -> PodShape:
    """Parse the shape of a pod from its JSON. Raises `MalformedPodError`."""
    try:
        return msgspec.convert(raw, PodShape)
    except msgspec.ValidationError as error:
        raise MalformedPodError(f"not a valid Pod: {error}") from error
