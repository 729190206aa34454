"""The shape of a Pod's JSON, as far as decisions about its pool read it.

Fields that are not listed are skipped, whatever is in them, so that those of a newer Kubernetes do
no harm. null may stand for any field.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

Strings = dict[str, str]


class Shape(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Some fields of an object of the Kubernetes API, each of the kind that the API gives it."""


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
    """A term that a pod prefers, and how much."""

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


class Metadata(Shape, frozen=True):
    """Metadata of an object."""

    name: str | None = None
    generate_name: str | None = None
    """What the API server makes its name of, where it has none."""
    labels: Strings | None = None
    annotations: Strings | None = None
    owner_references: tuple[Owner, ...] | None = None


class Spec(Shape, frozen=True):
    """Spec of a pod."""

    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None
    node_selector: Strings | None = None
    affinity: Affinity | None = None
    tolerations: tuple[dict[str, Any], ...] | None = None
    scheduler_name: str | None = None
    scheduling_gates: tuple[SchedulingGate, ...] | None = None
    node_name: str | None = None
    resource_claims: tuple[Any, ...] | None = None
    host_ipc: bool | None = msgspec.field(default=None, name="hostIPC")


class PodShape(Shape, frozen=True):
    """A pod, or a workload's template of one."""

    metadata: Metadata | None = None
    spec: Spec | None = None


class MalformedPodError(ValueError):
    """Not a Pod: the message says which field is not what the API has there."""


def parse_pod_shape(raw: Mapping[str, Any]) -> PodShape:
    """Parse the shape of a pod from its JSON. Raises `MalformedPodError`."""
    try:
        return msgspec.convert(raw, PodShape)
    except msgspec.ValidationError as error:
        raise MalformedPodError(f"not a valid Pod: {error}") from error
