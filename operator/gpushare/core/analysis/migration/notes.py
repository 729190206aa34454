"""What a person should look at in a pod that shares a card."""

from collections.abc import Iterator
from typing import Any

from gpushare import names
from gpushare.api.k8s.node_selection import NodeSelection
from gpushare.api.k8s.pod_request import PodRequest
from gpushare.core.analysis.migration.finding import Code, Finding

Json = dict[str, Any]
_NVIDIA = "nvidia"


def note_sharing(request: PodRequest) -> Iterator[Finding]:
    """Of any pod that asks for memory: what defeats its share."""
    if request.names_cards:
        yield Finding(
            Code.VISIBLE_DEVICES,
            f"a container sets {names.ENV_VISIBLE_DEVICES}, and so sees cards that it was not "
            "given; take it out, the device plugin sets it",
        )
    if request.asks_for_card_count:
        yield Finding(
            Code.CARD_COUNT_LIMIT,
            f"a container asks for the resource {names.RESOURCE_GPU_COUNT}, which gives no card "
            "and keeps other pods off the node; take it out",
        )


def note_migration(
    spec: Json, selection: NodeSelection, pool: str, *, containers: int, cards: int
) -> Iterator[Finding]:
    """Of a pod that asked for whole cards until now; `pool` is the one that it asks for by name."""
    if cards > 1:
        yield Finding(
            Code.SEVERAL_CARDS,
            f"the label {names.LABEL_CARD_COUNT}={cards} spreads its memory over so many cards, on "
            "the Professional edition alone; others give a pod one card",
        )
    if containers > 1:
        yield Finding(
            Code.SEVERAL_CONTAINERS,
            f"{containers} of its containers ask for memory: on nodes with several cards the "
            "device plugin of the older editions starts none of them",
        )
    if _NVIDIA in (name := str(spec.get("runtimeClassName"))):
        yield Finding(
            Code.RUNTIME_CLASS,
            f"it has the runtimeClassName {name}, which the vendor's nodes don't need; take it "
            "out unless the cluster has that RuntimeClass and its nodes the handler",
        )
    if labels := sorted(key for key in _list_keys(selection) if key.startswith(f"{_NVIDIA}.com/")):
        yield Finding(
            Code.NVIDIA_NODE_LABEL,
            f"it selects by {', '.join(labels)}, which NVIDIA's GPU feature discovery writes; "
            "where that does not run, select by aliyun.accelerator/nvidia_name",
        )
    if pool:
        yield Finding(
            Code.POOL_NAMED,
            f"it names pool {pool}, which must be one that shares memory from now on",
        )


def _list_keys(selection: NodeSelection) -> set[str]:
    return {*selection.labels, *(key for term in selection.terms or () for key in term)}
