"""What a pod asks of GPUs, counted as kube-scheduler counts it."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from gpushare import names
from gpushare.api.node import parse_quantity

Amounts = Mapping[str, int]
"""By GPU resource."""
NO_AMOUNTS: Amounts = MappingProxyType({})
_VENDOR = "nvidia.com/"


def count_gpu_requests(spec: Mapping[str, Any]) -> Amounts:
    """GPU resources that a pod spec asks for.

    As kube-scheduler counts: containers and sidecars run together; an init container runs beside
    the sidecars started before it; the larger of the two is needed ("Sidecar Containers" in the
    Kubernetes documentation).
    """
    together = add_amounts(count_container(container) for container in spec.get("containers") or ())
    if not (starting := spec.get("initContainers")):
        return together
    return raise_to_start(
        together, ((count_container(container), is_sidecar(container)) for container in starting)
    )


def count_container(container: Mapping[str, Any]) -> Amounts:
    """GPU resources of one container; limits go before requests."""
    resources = container.get("resources") or {}
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    if names.GPU_RESOURCES.isdisjoint(limits) and names.GPU_RESOURCES.isdisjoint(requests):
        return NO_AMOUNTS
    amounts = {}
    for resource in names.GPU_RESOURCES:
        quantity = limits.get(resource, requests.get(resource))
        if quantity is None:
            continue
        amount = parse_quantity(quantity)
        # What is not understood is not nothing: it must hold a change up like any other request.
        if amount is None or amount > 0:
            amounts[resource] = 1 if amount is None else amount
    return amounts


def asks_for_other_gpu(container: Mapping[str, Any]) -> bool:
    """Whether it asks for a GPU under another name, such as `nvidia.com/mig-1g.5gb`.

    Of extended resources there is no request without a limit.
    """
    for resource, quantity in ((container.get("resources") or {}).get("limits") or {}).items():
        if resource.startswith(_VENDOR) and parse_quantity(quantity) != 0:
            return True
    return False


def asks_for_card_count(container: Mapping[str, Any]) -> bool:
    """Whether it asks for `aliyun.com/gpu-count`, which nodes offer and which gives no card."""
    resources = container.get("resources") or {}
    return names.RESOURCE_GPU_COUNT in (resources.get("limits") or ()) or (
        names.RESOURCE_GPU_COUNT in (resources.get("requests") or ())
    )


def is_sidecar(container: Mapping[str, Any]) -> bool:
    """Whether an init container keeps running beside the others."""
    return bool(container.get("restartPolicy") == "Always")


def add_amounts(containers: Iterable[Amounts]) -> dict[str, int]:
    """What containers that run together ask for."""
    together: dict[str, int] = {}
    for amounts in containers:
        for resource, amount in amounts.items():
            together[resource] = together.get(resource, 0) + amount
    return together


def raise_to_start(
    together: Mapping[str, int], starting: Iterable[tuple[Amounts, bool]]
) -> dict[str, int]:
    """`together`, or what its init containers need while it starts, where that is more.

    `starting` says of each, in their order, what it asks for and whether it is a sidecar.
    """
    sidecars: dict[str, int] = {}
    highest: dict[str, int] = {}
    for amounts, stays in starting:
        for resource, amount in amounts.items():
            beside = sidecars.get(resource, 0) + amount
            highest[resource] = max(highest.get(resource, 0), beside)
            if stays:
                sidecars[resource] = beside
    needed = add_amounts((together, sidecars))
    for resource, amount in highest.items():
        needed[resource] = max(needed.get(resource, 0), amount)
    return needed
