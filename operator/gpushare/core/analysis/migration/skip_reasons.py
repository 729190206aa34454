"""Why a pod is left to ask for what it asks for: nothing is guessed."""

from collections.abc import Iterator, Sequence
from typing import Any

from gpushare import names
from gpushare.api.k8s.node import parse_quantity
from gpushare.core.analysis.migration.finding import Code, Finding

Json = dict[str, Any]
PARTS = ("limits", "requests")
_VENDOR = "nvidia.com/"
_OTHERS = frozenset({*names.SHARED_RESOURCES, names.RESOURCE_TOPOLOGY_GPU})


def list_containers(spec: Json) -> list[Json]:
    """Init containers too."""
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def read_resources(container: Json) -> Json:
    """By resource what it asks for; of two words the limit counts."""
    resources = container.get("resources") or {}
    asked: Json = {}
    for part in reversed(PARTS):
        asked |= resources.get(part) or {}
    return asked


def count_cards(container: Json) -> int | None:
    """Whole cards that it asks for; None where that is no number."""
    asked = read_resources(container).get(names.RESOURCE_WHOLE_GPU)
    return 0 if asked is None else parse_quantity(asked)


def _asks_oddly(container: Json) -> bool:
    """Requests of extended resources may be left out, and else must equal the limits."""
    resources = container.get("resources") or {}
    limits, requests = ((resources.get(part) or {}).get(names.RESOURCE_WHOLE_GPU) for part in PARTS)
    return requests is not None and (
        limits is None or parse_quantity(limits) != parse_quantity(requests)
    )


def find_skip_reasons(pod: Json) -> Iterator[Finding]:
    """What keeps a pod, or a template of one, from asking for memory."""
    spec = pod["spec"]
    containers = list_containers(spec)
    asked = {key for container in containers for key in read_resources(container)}
    yield from _find_other_resources(asked)
    counts = [count for container in containers if (count := count_cards(container)) != 0]
    if not counts:
        return
    if None in counts:
        yield Finding(
            Code.UNREADABLE,
            f"left as it is: what it asks of {names.RESOURCE_WHOLE_GPU} is no whole number",
        )
    if any(map(_asks_oddly, containers)):
        yield Finding(
            Code.UNREADABLE,
            f"left as it is: a container's requests of {names.RESOURCE_WHOLE_GPU} are not its "
            "limits, which the API server refuses of such a resource",
        )
    if any(map(count_cards, spec.get("initContainers") or ())):
        yield Finding(
            Code.INIT_CONTAINER,
            "an init container asks for a card: the device plugins hand memory out once per pod, "
            "so the other containers might get none; do its work in the container that has the GPU",
        )
    if both := sorted(asked & _OTHERS):
        yield Finding(
            Code.MIXED_RESOURCES,
            f"it asks for {names.RESOURCE_WHOLE_GPU} and {', '.join(both)}, which no node has both;"
            " take one away",
        )
    yield from _find_uneven(pod, counts)


def _find_other_resources(asked: set[str]) -> Iterator[Finding]:
    for key in sorted(asked - {names.RESOURCE_WHOLE_GPU}):
        if key.startswith(names.RESOURCE_MIG_PREFIX):
            yield Finding(
                Code.MIG_RESOURCE,
                f"it asks for {key}: a partition has no counterpart; nodes with MIG are left alone "
                "by pools",
            )
        elif key.startswith(_VENDOR):
            yield Finding(
                Code.OTHER_NVIDIA_RESOURCE,
                f"it asks for {key}, of which nothing says how much memory it stands for; ask for "
                f"{names.RESOURCE_GPU_MEMORY}",
            )


def _find_uneven(pod: Json, counts: Sequence[int | None]) -> Iterator[Finding]:
    """A pod's memory is spread over as many cards for each of its containers."""
    labels = (pod.get("metadata") or {}).get("labels") or {}
    label = labels.get(names.LABEL_CARD_COUNT)
    if len(set(counts)) > 1:
        yield Finding(
            Code.UNEVEN_CARDS,
            "its containers ask for different numbers of cards, and the label "
            f"{names.LABEL_CARD_COUNT} holds for all of them; make pods of their own of them",
        )
    elif label not in (None, str(counts[0])):
        yield Finding(
            Code.UNEVEN_CARDS,
            f"its label {names.LABEL_CARD_COUNT}={label} spreads memory over so many cards, and it "
            f"asks for {counts[0]}; take one away",
        )
