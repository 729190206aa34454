"""Nodes and pods with GPU memory, as the API server has them."""

import json
from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]

MEMORY = "aliyun.com/gpu-mem"
COUNT = "aliyun.com/gpu-count"
ALLOCATION = "scheduler.framework.gpushare.allocation"
CARD = "ALIYUN_COM_GPU_MEM_IDX"


def build_card_node(
    name: str, *, gpus: int | None, total: int | None, address: str | None = None
) -> Json:
    """A node that offers `total` units of GPU memory on so many cards; None: it says nothing."""
    offered = {
        key: str(value) for key, value in ((COUNT, gpus), (MEMORY, total)) if value is not None
    }
    addresses = [{"type": "Hostname", "address": name}]
    if address is not None:
        addresses.append({"type": "InternalIP", "address": address})
    return {
        "metadata": {"name": name, "uid": f"node-{name}"},
        "status": {"allocatable": offered, "capacity": offered, "addresses": addresses},
    }


def build_holder(
    name: str,
    node: str,
    *limits: int,
    card: str | None = None,
    allocation: Mapping[str, Mapping[str, int]] | str | None = None,
    namespace: str = "default",
    phase: str = "Running",
) -> Json:
    """A pod on `node` whose containers have these limits, with what a scheduler wrote on it."""
    annotations: dict[str, str] = {}
    if card is not None:
        annotations[CARD] = card
    if allocation is not None:
        text = allocation if isinstance(allocation, str) else json.dumps(allocation)
        annotations[ALLOCATION] = text
    containers = [
        {"name": f"c{index}", "resources": {"limits": {MEMORY: str(limit)}}}
        for index, limit in enumerate(limits)
    ]
    return {
        "metadata": {
            "namespace": namespace,
            "name": name,
            "uid": f"pod-{namespace}-{name}",
            "annotations": annotations,
        },
        "spec": {"nodeName": node, "containers": containers},
        "status": {"phase": phase},
    }
