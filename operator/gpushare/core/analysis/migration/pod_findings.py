"""What is said of a pod: why it is left to ask for what it asks for, and what to look at in one
that shares a card."""

from collections.abc import Iterator, Sequence
from typing import Any

from gpushare import names
from gpushare.api.k8s.node import parse_quantity
from gpushare.api.k8s.node_selection import NodeSelection
from gpushare.api.k8s.pod_request import PodRequest
from gpushare.core.analysis.migration.finding import Code, Finding

Json = dict[str, Any]
PARTS = ("limits", "requests")
_NVIDIA, _WHOLE = "nvidia.com/", names.RESOURCE_WHOLE_GPU
_SHARED = frozenset({*names.SHARED_RESOURCES, names.RESOURCE_TOPOLOGY_GPU})


def list_containers(spec: Json) -> list[Json]:
    """Init containers too."""
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def count_cards(container: Json) -> int | None:
    """Whole cards that it asks for; None where that is no number."""
    asked = _read_resources(container).get(_WHOLE)
    return 0 if asked is None else parse_quantity(asked)


def _read_resources(container: Json) -> Json:
    """By resource what it asks for; where the limit is another than the request, the limit."""
    resources = container.get("resources") or {}
    return {**(resources.get("requests") or {}), **(resources.get("limits") or {})}


def _asks_oddly(container: Json) -> bool:
    """Requests of extended resources may be left out, and else must equal the limits."""
    resources = container.get("resources") or {}
    limits, requests = ((resources.get(part) or {}).get(_WHOLE) for part in PARTS)
    return requests is not None and (
        limits is None or parse_quantity(limits) != parse_quantity(requests)
    )


def find_skip_reasons(pod: Json) -> Iterator[Finding]:
    """What keeps a pod, or a template of one, from asking for memory."""
    spec = pod["spec"]
    containers = list_containers(spec)
    asked = {key for container in containers for key in _read_resources(container)}
    for key in sorted(asked - {_WHOLE}):
        if key.startswith(names.RESOURCE_MIG_PREFIX):
            message = (
                f"it asks for {key}: a partition has no counterpart; pools leave nodes with MIG "
                "alone"
            )
            yield Finding(Code.MIG_RESOURCE, message)
        elif key.startswith(_NVIDIA):
            message = (
                f"it asks for {key}, of which nothing says how much memory it stands for; ask for "
                f"{names.RESOURCE_GPU_MEMORY}"
            )
            yield Finding(Code.OTHER_NVIDIA_RESOURCE, message)
    counts = [count for container in containers if (count := count_cards(container)) != 0]
    if not counts:
        return
    if None in counts:
        yield Finding(Code.UNREADABLE, f"what it asks of {_WHOLE} is no whole number")
    if any(map(_asks_oddly, containers)):
        yield Finding(Code.UNREADABLE, f"a container's requests of {_WHOLE} are not its limits")
    if any(map(count_cards, spec.get("initContainers") or ())):
        message = "an init container asks for a card; do its work in the container that has the GPU"
        yield Finding(Code.INIT_CONTAINER, message)
    if both := sorted(asked & _SHARED):
        message = f"it asks for {_WHOLE} and {', '.join(both)}; no node has both: take one away"
        yield Finding(Code.MIXED_RESOURCES, message)
    yield from _find_uneven(pod, counts)


def _find_uneven(pod: Json, counts: Sequence[int | None]) -> Iterator[Finding]:
    """The label spreads the memory of each of a pod's containers over as many cards."""
    labels = (pod.get("metadata") or {}).get("labels") or {}
    label = labels.get(names.LABEL_CARD_COUNT)
    if len(set(counts)) > 1:
        message = (
            "its containers ask for different numbers of cards; make pods of their own of them"
        )
        yield Finding(Code.UNEVEN_CARDS, message)
    elif label not in (None, str(counts[0])):
        message = (
            f"its label {names.LABEL_CARD_COUNT} says {label} cards, and it asks for {counts[0]}; "
            "take one away"
        )
        yield Finding(Code.UNEVEN_CARDS, message)


def note_sharing(request: PodRequest) -> Iterator[Finding]:
    """Of any pod that asks for memory: what defeats its share."""
    if request.names_cards:
        message = f"a container sets {names.ENV_VISIBLE_DEVICES}; leave that to the device plugin"
        yield Finding(Code.VISIBLE_DEVICES, message)
    if request.asks_for_card_count:
        message = (
            f"the resource {names.RESOURCE_GPU_COUNT} gives a container no card, and keeps other "
            "pods off the node; take it out"
        )
        yield Finding(Code.CARD_COUNT_LIMIT, message)


def note_migration(
    spec: Json, selection: NodeSelection, pool: str, *, containers: int, cards: int
) -> Iterator[Finding]:
    """Of a pod that asked for whole cards until now; `pool` is the one that it asks for by name."""
    if cards > 1:
        label = f"{names.LABEL_CARD_COUNT}={cards}"
        message = (
            f"the label {label} spreads its memory over cards on the Professional edition alone"
        )
        yield Finding(Code.SEVERAL_CARDS, message)
    if containers > 1:
        message = (
            f"{containers} of its containers ask for memory: on nodes with several cards the "
            "device plugin of the older editions starts none of them"
        )
        yield Finding(Code.SEVERAL_CONTAINERS, message)
    if "nvidia" in (name := str(spec.get("runtimeClassName"))):
        message = (
            f"it has the runtimeClassName {name}, which the vendor's nodes don't need; take it out "
            "unless the cluster has that RuntimeClass and its nodes the handler"
        )
        yield Finding(Code.RUNTIME_CLASS, message)
    if labels := sorted(key for key in selection.keys if key.startswith(_NVIDIA)):
        message = (
            f"it selects by {', '.join(labels)}, which NVIDIA's GPU feature discovery writes; "
            "where that does not run, select by aliyun.accelerator/nvidia_name"
        )
        yield Finding(Code.NVIDIA_NODE_LABEL, message)
    if pool:
        message = f"it names pool {pool}, which must be one that shares memory from now on"
        yield Finding(Code.POOL_NAMED, message)
