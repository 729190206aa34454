"""Who owns which field of a node, as the API server keeps it ("Server-Side Apply"). Labels,
annotations and the cordon are fields alike: a value, and the managers that own it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from gpushare import names
from gpushare.api.k8s.node import Node

CORDON = "spec.unschedulable"
_RELEASED = names.RELEASED_ANNOTATIONS | {names.ANNOTATION_RETRY}
_ANNOTATIONS = _RELEASED | names.NODE_ANNOTATIONS | {names.ANNOTATION_TEARDOWN}


@dataclass(frozen=True, slots=True)
class Field:
    """A value, and the managers that own it."""

    value: str
    managers: frozenset[str] = frozenset()
    at: datetime | None = None
    """When somebody wrote that plainly."""


@dataclass(frozen=True, slots=True)
class SimulatedNode:
    """A node, with the owners of its fields."""

    name: str
    uid: str
    version: int = field(default=1, compare=False)
    fields: Mapping[str, Field] = field(default_factory=dict)
    ready: bool = True
    boot: int = 1
    allocatable: Mapping[str, int] = field(default_factory=dict)

    @property
    def labels(self) -> dict[str, str]:
        return {
            key: known.value
            for key, known in self.fields.items()
            if key != CORDON and key not in _ANNOTATIONS
        }

    @property
    def annotations(self) -> dict[str, str]:
        return {k: f.value for k, f in self.fields.items() if k in _ANNOTATIONS}

    def owners(self, key: str) -> frozenset[str]:
        """Managers of a field; none where it is absent."""
        known = self.fields.get(key)
        return known.managers if known is not None else frozenset()


def apply_fields(
    node: SimulatedNode, wanted: Mapping[str, str], manager: str = names.FIELD_MANAGER
) -> SimulatedNode:
    """A server-side apply with force: exactly `wanted` is the manager's afterwards.

    An equal value is shared with its owners, another one is taken from them; what the manager
    leaves out goes, unless somebody else owns it too.
    """
    fields: dict[str, Field] = {}
    for key, known in node.fields.items():
        others = known.managers - {manager}
        if key in wanted or others or manager not in known.managers:
            fields[key] = replace(known, managers=others)
    for key, value in wanted.items():
        before = fields.get(key)
        others = before.managers if before is not None and before.value == value else frozenset()
        fields[key] = Field(value, others | {manager})
    return replace(node, fields=fields)


def write_field(
    node: SimulatedNode, key: str, value: str | None, manager: str, at: datetime | None = None
) -> SimulatedNode:
    """A plain write of one field, as `kubectl label`, `annotate` and `cordon` do (None: away). A
    value that is there already changes nothing, and makes nobody an owner."""
    before = node.fields.get(key)
    if (before.value if before is not None else None) == value:
        return node
    fields = {other: known for other, known in node.fields.items() if other != key}
    if value is not None:
        fields[key] = Field(value, frozenset({manager}), at)
    return replace(node, fields=fields)


def release_fields(node: SimulatedNode, removed: Mapping[str, str]) -> SimulatedNode:
    """Our manager owns nothing any more: our records go, and the labels in `removed`. Of those only
    the ones that still are the manager's, with this value; all else stays."""
    fields: dict[str, Field] = {}
    for key, known in node.fields.items():
        is_removed = removed.get(key) == known.value and names.FIELD_MANAGER in known.managers
        if key not in _RELEASED and not is_removed:
            fields[key] = replace(known, managers=known.managers - {names.FIELD_MANAGER})
    return replace(node, fields=fields)


def observe_node(node: SimulatedNode) -> Node:
    """The node as the operator's caches show it."""
    ours = frozenset(k for k, f in node.fields.items() if names.FIELD_MANAGER in f.managers)
    return Node(
        name=node.name,
        uid=node.uid,
        labels=node.labels,
        annotations={k: v for k, v in node.annotations.items() if k in names.NODE_ANNOTATIONS},
        ready=node.ready,
        unschedulable=CORDON in node.fields,
        boot_id=f"boot-{node.boot}",
        allocatable=node.allocatable,
        resource_version=str(node.version),
        owned=ours - {CORDON},
        managers={
            key: min(others)
            for key in names.NODE_LABELS
            if (others := node.owners(key) - {names.FIELD_MANAGER})
        },
        written_at={
            key: known.at
            for key in names.MODE_LABELS
            if (known := node.fields.get(key)) is not None
            and known.at is not None
            and known.managers - {names.FIELD_MANAGER}
        },
        retry=node.annotations.get(names.ANNOTATION_RETRY, ""),
        teardown=node.annotations.get(names.ANNOTATION_TEARDOWN, ""),
        owns_cordon=CORDON in ours,
    )
