"""What the kept parts of all objects have in common."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Annotated, ClassVar, TypeVar

import msgspec
from msgspec import Meta, field
from msgspec.structs import force_setattr

Value = TypeVar("Value")
Strings = dict[str, str]
Name = Annotated[str, Meta(min_length=1)]
GPU_PREFIXES = ("aliyun.com/", "nvidia.com/")


class Kept(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Some fields of an object of the Kubernetes API."""


class KeptObject(Kept, frozen=True, kw_only=True):
    """An object."""


def only(values: Mapping[str, Value] | None, keys: Collection[str]) -> dict[str, Value] | None:
    kept = {key: value for key, value in (values or {}).items() if key in keys}
    return kept or None


def only_gpus(values: Mapping[str, Value] | None) -> dict[str, Value] | None:
    kept = {key: value for key, value in (values or {}).items() if key.startswith(GPU_PREFIXES)}
    return kept or None


class Metadata(Kept, frozen=True, kw_only=True):
    """Of any object."""

    annotations_kept: ClassVar[frozenset[str]] = frozenset()

    name: Name
    uid: str
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: Strings | None = None
    annotations: Strings | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "annotations", only(self.annotations, self.annotations_kept))


class Condition(Kept, frozen=True, kw_only=True):
    """Of a node or pod."""

    type: str
    status: str
    reason: str | None = None
    message: str | None = None
    last_transition_time: datetime | None = None


Conditions = tuple[Condition, ...]


def only_conditions(conditions: Conditions | None, kinds: Collection[str]) -> Conditions | None:
    return tuple(each for each in conditions or () if each.type in kinds) or None


class Requirement(Kept, frozen=True, kw_only=True):
    """Of a node affinity."""

    key: str
    operator: str
    values: tuple[str, ...] | None = None


class Term(Kept, frozen=True, kw_only=True):
    """Of a node affinity."""

    match_expressions: tuple[Requirement, ...] | None = None
    match_fields: tuple[Requirement, ...] | None = None


class RequiredNodes(Kept, frozen=True, kw_only=True):
    """Of a node affinity."""

    node_selector_terms: tuple[Term, ...] | None = None


class NodeAffinity(Kept, frozen=True, kw_only=True):
    """What a pod demands of its node's labels."""

    required: RequiredNodes | None = field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Kept, frozen=True, kw_only=True):
    """Of a pod."""

    node_affinity: NodeAffinity | None = None
