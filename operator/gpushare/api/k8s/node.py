"""Parses a Node, and the ConfigMap of its unhealthy cards."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from sys import intern
from typing import Any, NamedTuple, cast

from gpushare import names
from gpushare.api.k8s.card_annotations import parse_number
from gpushare.api.k8s.interning import share, share_mapping
from gpushare.api.k8s.resources.host import UNLIMITED, HostResources, parse_allocatable
from gpushare.api.k8s.resources.quantity import parse_quantity
from gpushare.api.k8s.taint import MIRRORED_KEYS, Taint, parse_taints

MAX_CARDS = 1024
"""Limit of the cards of a node, against the cost of wrong numbers."""
MAX_UNHEALTHY_TEXT = 8192
"""Limit of a list of unhealthy cards in characters, twice that of a thousand cards."""
_MIG_CONFIG = "nvidia.com/mig.config"
_PRODUCT = "nvidia.com/gpu.product"
"""Label of GPU feature discovery; with `-MIG-` where MIG devices are offered as cards."""


@dataclass(frozen=True, slots=True)
class Node:
    """The fields of a Node that decisions need; equal when none of them changed."""

    name: str
    uid: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Our annotations (`names.NODE_ANNOTATIONS`)."""
    ready: bool = True
    ready_since: datetime | None = None
    """Time of the last transition to Ready, by the API server's clock; None while not Ready."""
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    """Taints that keep pods away, except those of `ready` and `unschedulable`."""
    boot_id: str = ""
    os_image: str = ""
    operating_system: str = ""
    """Operating system reported by the kubelet: `linux` or `windows`."""
    provider_id: str = ""
    """ID of the machine, set by the cloud controller manager; empty outside of a cloud."""
    machine_id: str = ""
    kernel_version: str = ""
    container_runtime: str = ""
    """Name and version of the container runtime, such as `containerd://2.1.0`."""
    allocatable: Mapping[str, int] = field(default_factory=dict)
    """GPU resources, in the device plugin's units."""
    host: HostResources = UNLIMITED
    """CPU and memory for pods."""
    capacity: Mapping[str, int] = field(default_factory=dict)
    """GPU resources with those of unhealthy cards, which `allocatable` leaves out; a resource
    stays, with 0, when its device plugin leaves."""
    gpu_count: int = 0
    """Number of cards reported by the device plugin; it stays when the plugin leaves."""
    resource_version: str = field(default="", compare=False)
    """Version that was read; a write that was decided on it fails once there is a newer one."""
    owned: frozenset[str] = frozenset()
    """Keys of labels and annotations that our field manager owns."""
    managers: Mapping[str, str] = field(default_factory=dict)
    """Other field managers of our labels, by label."""
    written_at: Mapping[str, datetime] = field(default_factory=dict)
    """Times of the last write of other field managers of mode labels, by label and the API
    server's clock, where known."""
    retry: str = ""
    """Value of the annotation `names.ANNOTATION_RETRY`, set by users."""
    teardown: str = ""
    """Value of the annotation `names.ANNOTATION_TEARDOWN`, set by users."""
    maintenance_annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations of other controllers (`names.MAINTENANCE_ANNOTATIONS`)."""
    deleting: bool = False
    """Whether the Node is being deleted; a finalizer keeps it until its machine has ended."""
    owns_cordon: bool = False
    """Whether the node is cordoned and our field manager among the owners of the cordon."""
    cordoned_by: frozenset[str] = frozenset()
    """Other owners of `spec.unschedulable`."""

    @property
    def carries_ours(self) -> bool:
        """Whether the node has labels, records or a cordon of ours, so that it must be released."""
        records = self.annotations.keys() & names.RELEASED_ANNOTATIONS
        return bool(self.owned or self.owns_cordon or records)

    def has_kept(self, labels: Mapping[str, str]) -> bool:
        """Tell whether no other manager wrote one of these labels of ours.

        Each label is ours, or has our value and no manager since managedFields were cleared.
        """
        lost = {key: ours for key, ours in labels.items() if key not in self.owned}
        first = names.BEFORE_FIRST_APPLY
        return lost.items() <= self.labels.items() and all(
            self.managers.get(key, first) == first for key in lost
        )

    @property
    def is_control_plane(self) -> bool:
        return not names.CONTROL_PLANE_LABELS.isdisjoint(self.labels)

    @property
    def has_gpus(self) -> bool:
        """Whether the node has cards, by a label of ACK or resources of a device plugin."""
        inventory = names.LABEL_CARDS in self.labels
        return inventory or any(self.allocatable.values()) or self.gpu_count > 0

    @property
    def mig_labels(self) -> list[str]:
        """Keys of labels that show MIG devices, also named as whole cards (strategy `single` of
        NVIDIA's device plugin)."""
        shows_mig = {
            _MIG_CONFIG: self.labels.get(_MIG_CONFIG, "") not in ("", "all-disabled"),
            _PRODUCT: "-MIG-" in self.labels.get(_PRODUCT, ""),
        }
        return [key for key, is_shown in shows_mig.items() if is_shown]

    @property
    def offers_mig(self) -> bool:
        """Whether the node offers MIG devices, by its labels or its resources."""
        by_resource = any(r.startswith(names.RESOURCE_MIG_PREFIX) for r in self.allocatable)
        return by_resource or bool(self.mig_labels)


def parse_node(raw: dict[str, Any]) -> Node:
    """Parse a Node from the API server's JSON."""
    meta = raw["metadata"]
    spec, status = raw.get("spec") or {}, raw.get("status") or {}
    annotations, capacity = meta.get("annotations") or {}, status.get("capacity") or {}
    allocatable = status.get("allocatable") or {}
    info = status.get("nodeInfo") or {}
    ownership = _read_ownership(meta.get("managedFields") or ())
    condition = _find_ready(status)
    ready = condition.get("status") == "True"
    return Node(
        name=meta["name"],
        uid=meta["uid"],
        # Most values are the same on all nodes.
        labels={key: intern(value) for key, value in (meta.get("labels") or {}).items()},
        annotations={k: annotations[k] for k in names.NODE_ANNOTATIONS if k in annotations},
        resource_version=meta.get("resourceVersion", ""),
        ready=ready,
        ready_since=_parse_moment(condition.get("lastTransitionTime")) if ready else None,
        unschedulable=bool(spec.get("unschedulable")),
        taints=_find_taints(raw) if spec.get("taints") else (),
        boot_id=info.get("bootID", ""),
        os_image=intern(info.get("osImage", "")),
        operating_system=intern(info.get("operatingSystem", "")),
        provider_id=spec.get("providerID", ""),
        machine_id=info.get("machineID", ""),
        kernel_version=intern(info.get("kernelVersion", "")),
        container_runtime=intern(info.get("containerRuntimeVersion", "")),
        allocatable=_parse_resources(allocatable, names.RESOURCE_MIG_PREFIX, names.GPU_RESOURCES),
        host=parse_allocatable(str(allocatable.get("cpu")), str(allocatable.get("memory"))),
        capacity=_parse_resources(capacity, names.CARD_RESOURCE_PREFIXES),
        gpu_count=min(parse_quantity(capacity.get(names.RESOURCE_GPU_COUNT, 0)) or 0, MAX_CARDS),
        owned=ownership.owned,
        managers=ownership.managers,
        written_at=ownership.written_at,
        retry=annotations.get(names.ANNOTATION_RETRY, ""),
        teardown=annotations.get(names.ANNOTATION_TEARDOWN, ""),
        maintenance_annotations=_read_maintenance(annotations),
        deleting="deletionTimestamp" in meta,
        owns_cordon=bool(spec.get("unschedulable")) and ownership.owns_cordon,
        cordoned_by=ownership.cordoned_by,
    )


def _find_ready(status: Mapping[str, Any]) -> Mapping[str, Any]:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "Ready":
            return cast(Mapping[str, Any], condition)
    return {}


def _find_taints(raw: Mapping[str, Any]) -> tuple[Taint, ...]:
    """Find the taints except those of readiness and cordon, which Kubernetes adds and removes a
    moment later than the condition or the cordon."""
    return share(tuple(taint for taint in parse_taints(raw) if taint.key not in MIRRORED_KEYS))


def _read_maintenance(annotations: Mapping[str, str]) -> Mapping[str, str]:
    keys = names.MAINTENANCE_ANNOTATIONS
    return share_mapping(tuple([(key, annotations[key]) for key in keys if key in annotations]))


def _parse_resources(
    amounts: Mapping[str, Any], prefixes: str | tuple[str, ...], full_names: Collection[str] = ()
) -> Mapping[str, int]:
    kept = [each for each in amounts if each in full_names or each.startswith(prefixes)]
    return share_mapping(tuple([(each, parse_quantity(amounts[each]) or 0) for each in kept]))


class _Ownership(NamedTuple):
    """Fields of a `Node` that are read from its managedFields."""

    owned: frozenset[str]
    owns_cordon: bool
    managers: Mapping[str, str]
    written_at: Mapping[str, datetime]
    cordoned_by: frozenset[str]


def _read_ownership(entries: Iterable[Mapping[str, Any]]) -> _Ownership:
    ours: dict[str, Any] = {}
    cordoned_by: set[str] = set()
    managers: dict[str, str] = {}
    written_at: dict[str, datetime] = {}
    for entry in entries:
        fields = entry.get("fieldsV1") or {}
        if is_our_entry(entry):
            ours = fields
            continue
        if "f:unschedulable" in (fields.get("f:spec") or {}):
            cordoned_by.add(entry.get("manager") or "")
        labels = (fields.get("f:metadata") or {}).get("f:labels") or {}
        for key in names.NODE_LABELS:
            if f"f:{key}" in labels:
                managers[key] = entry.get("manager") or ""
                if key in names.MODE_LABELS and (moment := _parse_moment(entry.get("time"))):
                    written_at[key] = min(moment, written_at.get(key, moment))
    return _Ownership(
        share(_list_owned(ours)),
        "f:unschedulable" in ours.get("f:spec", {}),
        share_mapping(tuple(managers.items())),
        share_mapping(tuple(written_at.items())),
        share(frozenset(cordoned_by)),
    )


def _list_owned(ours: Mapping[str, Any]) -> frozenset[str]:
    metadata = ours.get("f:metadata", {})
    keys = (*metadata.get("f:labels", ()), *metadata.get("f:annotations", ()))
    return frozenset([key.removeprefix("f:") for key in keys if key != "."])


def _parse_moment(value: object) -> datetime | None:
    """Parse a time of the API; None for an invalid one."""
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def is_our_entry(entry: Mapping[str, Any]) -> bool:
    """Tell whether a managedFields entry records what we applied."""
    return (
        entry.get("manager") == names.FIELD_MANAGER
        and entry.get("operation") == "Apply"
        and not entry.get("subresource")
    )


@dataclass(frozen=True, slots=True)
class UnhealthyCards:
    """The unhealthy cards of one node."""

    node: str
    cards: frozenset[int]


def parse_unhealthy_cards(raw: Mapping[str, Any]) -> UnhealthyCards | None:
    """Parse the ConfigMap of a node's unhealthy cards; None for any other ConfigMap.

    An index that is no number, such as ` 1` after a comma and a blank, stands for card 0, as in the
    extender (`getUnhealthyGPUs`, pkg/cache/nodeinfo.go of
    AliyunContainerService/gpushare-scheduler-extender).
    """
    name = raw["metadata"]["name"]
    if not name.startswith(names.UNHEALTHY_PREFIX):
        return None
    text = (raw.get("data") or {}).get(names.UNHEALTHY_KEY)
    cards = (
        (parse_number(each) for each in text[:MAX_UNHEALTHY_TEXT].split(","))
        if text is not None
        else ()
    )
    return UnhealthyCards(
        name.removeprefix(names.UNHEALTHY_PREFIX), frozenset(card or 0 for card in cards)
    )
