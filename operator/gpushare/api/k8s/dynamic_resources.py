"""What Dynamic Resource Allocation (DRA) says of cards: ResourceSlices and ResourceClaims."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpushare.api.k8s.pod_shape import Spec

DRA_DRIVER = "gpu.nvidia.com"
"""Of kubernetes-sigs/dra-driver-nvidia-gpu. Its other driver, `compute-domain.nvidia.com`, gives no
card out and may run beside a device plugin."""


@dataclass(frozen=True, slots=True)
class ResourceSlice:
    """Cards of a node that NVIDIA's DRA driver gives out by ResourceClaims."""

    name: str
    node: str


def parse_resource_slice(raw: Mapping[str, Any]) -> ResourceSlice | None:
    """Parse a ResourceSlice of any served version; None where it offers no card of one node."""
    spec = raw.get("spec") or {}
    if spec.get("driver") != DRA_DRIVER or not spec.get("nodeName") or not spec.get("devices"):
        return None
    return ResourceSlice(raw["metadata"]["name"], spec["nodeName"])


def allocates_cards(raw: Mapping[str, Any]) -> bool | None:
    """Tell whether a ResourceClaim, of any served version, allocates cards of NVIDIA's DRA driver;
    None where it is not allocated. Access for administrators takes no card from anybody."""
    allocation = (raw.get("status") or {}).get("allocation")
    if allocation is None:
        return None
    results = (allocation.get("devices") or {}).get("results") or ()
    return any(each["driver"] == DRA_DRIVER and not each.get("adminAccess") for each in results)


def list_claims(namespace: str, spec: Spec, status: Mapping[str, Any]) -> tuple[str, ...]:
    """List the ResourceClaims of a pod as `namespace/name`: its own, and the one that
    kube-scheduler makes for extended resources."""
    extended = status.get("extendedResourceClaimStatus")
    if not (spec.resource_claims or extended):
        return ()
    of_templates = status.get("resourceClaimStatuses") or ()
    made = {each["name"]: each.get("resourceClaimName") for each in of_templates}
    found = [
        made.get(each["name"], each.get("resourceClaimName", ""))
        for each in spec.resource_claims or ()
    ]
    if extended:
        found.append(extended["resourceClaimName"])
    # Of a template that made none, none is needed (API reference of PodResourceClaimStatus).
    return tuple(f"{namespace}/{name}" for name in found if name is not None)
