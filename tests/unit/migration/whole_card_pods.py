"""Pods that ask for whole cards, and nodes that offer them."""

from collections.abc import Mapping
from typing import Any

from gpushare.analysis.migration.cards import Cards, observe_cards
from gpushare.api.k8s.node import Node

Json = dict[str, Any]
WHOLE, MEMORY = "nvidia.com/gpu", "aliyun.com/gpu-mem"
MODE = "ack.node.gpu.schedule"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
CARDS_LABEL = "aliyun.accelerator/nvidia_count"
CARD_LABEL = "aliyun.accelerator/nvidia_mem"


def build_gpu_container(gpus: Any = 1, name: str = "main", **more: Any) -> Json:
    """A container that asks for so many cards; None: for none."""
    resources = {} if gpus is None else {"resources": {"limits": {"cpu": "1", WHOLE: gpus}}}
    return {"name": name, "image": "app", **resources, **more}


def build_whole_pod(
    *containers: Json, labels: Mapping[str, str] | None = None, **spec: Any
) -> Json:
    """A pod of these containers, or of one that asks for one card."""
    metadata = {"name": "trainer", **({"labels": dict(labels)} if labels else {})}
    main = {"containers": [*(containers or (build_gpu_container(),))]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**main, **spec}}


def need(key: str, operator: str, *values: str) -> Json:
    """One requirement of a node affinity."""
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def require(*terms: list[Json]) -> Json:
    """The affinity for nodes of one of these terms, of requirements each."""
    listed = [{"matchExpressions": term} for term in terms]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": listed}}}


def prefer(*needs: Json) -> Json:
    preference = {"matchExpressions": list(needs)}
    return {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": preference}]}}


def a_card_node(
    name: str,
    mib: int | None = 16280,
    *,
    cards: int = 1,
    offers: Mapping[str, int] | None = None,
    labels: Mapping[str, str] | None = None,
) -> Node:
    """A node whose label says that a card has so much memory."""
    known = {CARDS_LABEL: str(cards)}
    if mib is not None:
        known[CARD_LABEL] = f"{mib}MiB"
    return Node(
        name,
        f"uid-{name}",
        labels={**known, **(labels or {})},
        allocatable=offers if offers is not None else {WHOLE: cards},
        gpu_count=cards,
    )


def see_cards(*nodes: Node, unit: str = "GiB") -> Cards:
    """The cards of these nodes, or of two equal ones with 15 GiB."""
    return observe_cards(nodes or (a_card_node("n1"), a_card_node("n2")), unit)
