"""Simulates the ownership of a node's fields by managers ("Server-Side Apply"), for labels,
annotations and the cordon."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from gpushare import names
from gpushare.api.k8s.node import Node, parse_node
from tests.kit.histories.machine import ONE_CARD, Json, Machine

CORDON = "spec.unschedulable"
_RELEASED = names.RELEASED_ANNOTATIONS | {names.ANNOTATION_RETRY}
_ANNOTATIONS = _RELEASED | names.NODE_ANNOTATIONS | {names.ANNOTATION_TEARDOWN}


@dataclass(frozen=True, slots=True)
class Field:
    """A value with the managers that own it."""

    value: str
    managers: frozenset[str] = frozenset()
    at: datetime | None = None
    """Time of the last write that was no apply."""


@dataclass(frozen=True, slots=True)
class SimulatedNode:
    """A node with the owners of its fields."""

    name: str
    uid: str
    version: int = field(default=1, compare=False)
    fields: Mapping[str, Field] = field(default_factory=dict)
    ready: bool = True
    boot: int = 1
    allocatable: Mapping[str, int] = field(default_factory=dict)
    capacity: Mapping[str, int] = field(default_factory=dict)
    """Resources that the node has ever offered, also with 0."""
    machine: Machine = ONE_CARD

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

    @property
    def offers_by_card(self) -> dict[str, float]:
        return {key: offered / self.machine.healthy for key, offered in self.allocatable.items()}

    def owners(self, key: str) -> frozenset[str]:
        """Return the managers of a field; empty where it is absent."""
        known = self.fields.get(key)
        return known.managers if known is not None else frozenset()


def apply_fields(
    node: SimulatedNode, wanted: Mapping[str, str], manager: str = names.FIELD_MANAGER
) -> SimulatedNode:
    """Apply with force on the server side: the manager owns exactly `wanted` afterwards.

    Ownership of an equal value is shared, that of another one is taken over; a field that the
    manager leaves out is removed, unless another manager owns it too.
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
    """Write or remove (None) a field, as `kubectl label`, `annotate` and `cordon` do. An equal
    value changes nothing, also no owner."""
    before = node.fields.get(key)
    if (before.value if before is not None else None) == value:
        return node
    fields = {other: known for other, known in node.fields.items() if other != key}
    if value is not None:
        fields[key] = Field(value, frozenset({manager}), at)
    return replace(node, fields=fields)


def release_fields(node: SimulatedNode, removed: Mapping[str, str]) -> SimulatedNode:
    """Release a node: remove our ownership, our records, and those labels in `removed` that our
    manager still owns with this value."""
    fields: dict[str, Field] = {}
    for key, known in node.fields.items():
        is_removed = removed.get(key) == known.value and names.FIELD_MANAGER in known.managers
        if key not in _RELEASED and not is_removed:
            fields[key] = replace(known, managers=known.managers - {names.FIELD_MANAGER})
    return replace(node, fields=fields)


def observe_node(node: SimulatedNode) -> Node:
    """Parse the node as the operator's informers do."""
    return parse_node(build_manifest(node))


def build_manifest(node: SimulatedNode) -> Json:
    """Build the Node of the API server."""
    machine = node.machine
    return {
        "metadata": {
            "name": node.name,
            "uid": node.uid,
            "resourceVersion": str(node.version),
            "labels": node.labels,
            "annotations": node.annotations,
            "managedFields": [*_build_managed_fields(node)],
        },
        "spec": {
            **({"unschedulable": True} if CORDON in node.fields else {}),
            **({"taints": [dict(taint) for taint in machine.taints]} if machine.taints else {}),
        },
        "status": {
            "capacity": _build_quantities({**node.capacity, **machine.resources}),
            "allocatable": _build_quantities({**node.allocatable, **machine.resources}),
            "conditions": [{"type": "Ready", "status": str(node.ready)}],
            "nodeInfo": {
                "bootID": f"boot-{node.boot}",
                "operatingSystem": machine.operating_system,
                "architecture": machine.architecture,
            },
        },
    }


def _build_quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    return {resource: str(amount) for resource, amount in amounts.items()}


def _build_managed_fields(node: SimulatedNode) -> Iterator[Json]:
    """Build an entry for each manager and time; that of the first manager by name is the last."""
    owned: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for key, known in node.fields.items():
        for manager in known.managers:
            is_ours = manager == names.FIELD_MANAGER
            owned[manager, known.at.isoformat() if known.at and not is_ours else ""].append(key)
    for (manager, at), keys in sorted(owned.items(), reverse=True):
        metadata: defaultdict[str, Json] = defaultdict(dict)
        for key in keys:
            if key != CORDON:
                metadata["f:annotations" if key in _ANNOTATIONS else "f:labels"][f"f:{key}"] = {}
        yield {
            "manager": manager,
            "operation": "Apply" if manager == names.FIELD_MANAGER else "Update",
            "time": at,
            "fieldsV1": {
                "f:metadata": dict(metadata),
                **({"f:spec": {"f:unschedulable": {}}} if CORDON in keys else {}),
            },
        }
