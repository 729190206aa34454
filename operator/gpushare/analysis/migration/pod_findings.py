"""Finds why a pod can't be migrated, and what to check in one that shares a card."""

from collections.abc import Iterator, Sequence
from typing import Any

from gpushare import names
from gpushare.analysis.migration.finding import MigrationCode, MigrationFinding
from gpushare.api.k8s.gpu_request import find_invalid_requests
from gpushare.api.k8s.node_selection import NodeSelection
from gpushare.api.k8s.pod_request import PodRequest
from gpushare.api.k8s.pod_shape import PodShape, Spec
from gpushare.api.k8s.resources.quantity import parse_quantity

Json = dict[str, Any]
PARTS = ("limits", "requests")
_NVIDIA, _WHOLE = "nvidia.com/", names.RESOURCE_WHOLE_GPU
_SHARED = frozenset({*names.SHARED_RESOURCES, names.RESOURCE_TOPOLOGY_GPU})


def list_containers(spec: Json) -> list[Json]:
    """List all containers, init containers too."""
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def count_cards(container: Json) -> int | None:
    """Count the whole cards that it asks for; None where that is no number."""
    asked = _read_resources(container).get(_WHOLE)
    return 0 if asked is None else parse_quantity(asked)


def _read_resources(container: Json) -> Json:
    """Return what a container asks for by resource; the limit where it differs from the request."""
    resources = container.get("resources") or {}
    return {**(resources.get("requests") or {}), **(resources.get("limits") or {})}


def find_skip_reasons(pod: Json, shape: PodShape) -> Iterator[MigrationFinding]:
    """Find what keeps a pod, or a template of one, from asking for memory."""
    spec = pod["spec"]
    invalid = list(find_invalid_requests(shape.spec or Spec()))
    for message in invalid:
        yield MigrationFinding(
            MigrationCode.UNREADABLE, f"The API server refuses such a pod: {message}"
        )
    containers = list_containers(spec)
    asked = {key for container in containers for key in _read_resources(container)}
    for key in sorted(asked - {_WHOLE}):
        if key.startswith(names.RESOURCE_MIG_PREFIX):
            message = (
                f"The pod asks for {key}, which has no counterpart: pools do not change nodes with "
                "MIG"
            )
            yield MigrationFinding(MigrationCode.MIG_RESOURCE, message)
        elif key.startswith(_NVIDIA):
            message = (
                f"The pod asks for {key}, whose amount of memory is unknown. Ask for "
                f"{names.RESOURCE_GPU_MEMORY}"
            )
            yield MigrationFinding(MigrationCode.OTHER_NVIDIA_RESOURCE, message)
    counts = [count for container in containers if (count := count_cards(container)) != 0]
    if not counts:
        return
    if None in counts and not invalid:
        yield MigrationFinding(
            MigrationCode.UNREADABLE, f"The amount of {_WHOLE} is not written as a whole number"
        )
    if any(map(count_cards, spec.get("initContainers") or ())):
        message = "An init container asks for a card. Do its work in the container that has the GPU"
        yield MigrationFinding(MigrationCode.INIT_CONTAINER, message)
    if both := sorted(asked & _SHARED):
        message = (
            f"The pod asks for {_WHOLE} and {', '.join(both)}, but no node has both. Remove one"
        )
        yield MigrationFinding(MigrationCode.MIXED_RESOURCES, message)
    yield from _find_uneven(pod, counts)


def _find_uneven(pod: Json, counts: Sequence[int | None]) -> Iterator[MigrationFinding]:
    """Find unequal card counts: the label spreads each container's memory over as many cards."""
    labels = (pod.get("metadata") or {}).get("labels") or {}
    label = labels.get(names.LABEL_CARD_COUNT)
    if len(set(counts)) > 1:
        message = "The containers ask for different numbers of cards. Split them into several pods"
        yield MigrationFinding(MigrationCode.UNEVEN_CARDS, message)
    elif label not in (None, str(counts[0])):
        message = (
            f"Label {names.LABEL_CARD_COUNT} is {label}, but the pod asks for {counts[0]} cards. "
            "Remove one of them"
        )
        yield MigrationFinding(MigrationCode.UNEVEN_CARDS, message)


def note_sharing(request: PodRequest) -> Iterator[MigrationFinding]:
    """Find what defeats the share of any pod that asks for memory."""
    if request.names_cards:
        message = (
            f"A container sets {names.ENV_VISIBLE_DEVICES}, which the device plugin sets. Remove it"
        )
        yield MigrationFinding(MigrationCode.VISIBLE_DEVICES, message)
    if request.asks_for_card_count:
        message = (
            f"Resource {names.RESOURCE_GPU_COUNT} gives a container no card, and a node takes only "
            "as many pods that request it as it has cards. Remove it"
        )
        yield MigrationFinding(MigrationCode.CARD_COUNT_LIMIT, message)


def note_migration(
    spec: Json, selection: NodeSelection, pool: str, *, containers: int, cards: int
) -> Iterator[MigrationFinding]:
    """Find what to check in a pod that asked for whole cards; `pool` is the one that it names."""
    if cards > 1:
        label = f"{names.LABEL_CARD_COUNT}={cards}"
        message = (
            f"Label {label} spreads the pod's memory over cards only on the Professional edition"
        )
        yield MigrationFinding(MigrationCode.SEVERAL_CARDS, message)
    if containers > 1:
        message = (
            f"{containers} containers ask for memory. On nodes with several cards the device "
            "plugin of the older editions starts none of them"
        )
        yield MigrationFinding(MigrationCode.SEVERAL_CONTAINERS, message)
    if "nvidia" in (name := str(spec.get("runtimeClassName"))):
        message = (
            f"runtimeClassName is {name}, which the vendor's nodes don't need. Remove it, unless "
            "the cluster has that RuntimeClass and its nodes the handler"
        )
        yield MigrationFinding(MigrationCode.RUNTIME_CLASS, message)
    if labels := sorted(key for key in selection.keys if key.startswith(_NVIDIA)):
        message = (
            f"The pod selects {', '.join(labels)}, which NVIDIA's GPU feature discovery sets. "
            "Where that does not run, select aliyun.accelerator/nvidia_name"
        )
        yield MigrationFinding(MigrationCode.NVIDIA_NODE_LABEL, message)
    if pool:
        message = f"The pod names pool {pool}, which must share memory from now on"
        yield MigrationFinding(MigrationCode.POOL_NAMED, message)
