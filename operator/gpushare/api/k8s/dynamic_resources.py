"""Parses ResourceSlices and ResourceClaims of Dynamic Resource Allocation (DRA) for cards."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpushare.api.k8s.pod_shape import Spec

DRA_DRIVER = "gpu.nvidia.com"
"""Driver of kubernetes-sigs/dra-driver-nvidia-gpu for cards. Its other driver,
`compute-domain.nvidia.com`, gives out no cards and may run beside a device plugin."""


@dataclass(frozen=True, slots=True)
class ResourceSlice:
    """Cards of a node that NVIDIA's DRA driver gives out by ResourceClaims."""

    name: str
    node: str


def parse_resource_slice(raw: Mapping[str, Any]) -> ResourceSlice | None:
    """Parse a ResourceSlice of any served version; None where it offers no cards of a node."""
    spec = raw.get("spec") or {}
    if spec.get("driver") != DRA_DRIVER or not spec.get("nodeName") or not spec.get("devices"):
        return None
    return ResourceSlice(raw["metadata"]["name"], spec["nodeName"])


def allocates_cards(raw: Mapping[str, Any]) -> bool | None:
    """Tell whether a ResourceClaim, of any served version, allocates cards of NVIDIA's DRA driver;
    None where it is not allocated. Admin access does not count: it takes no card from others."""
    allocation = (raw.get("status") or {}).get("allocation")
    if allocation is None:
        return None
    results = (allocation.get("devices") or {}).get("results") or ()
    return any(each["driver"] == DRA_DRIVER and not each.get("adminAccess") for each in results)


def list_claims(namespace: str, spec: Spec, status: Mapping[str, Any]) -> tuple[str, ...]:
    """List the ResourceClaims of a pod as `namespace/name`, with the one that kube-scheduler makes
    for extended resources."""
    extended = status.get("extendedResourceClaimStatus")
    if not (spec.resource_claims or extended):
        return ()
    of_templates = status.get("resourceClaimStatuses") or ()
    made = {each["name"]: each.get("resourceClaimName") for each in of_templates}
    claims = [
        made.get(each["name"], each.get("resourceClaimName", ""))
        for each in spec.resource_claims or ()
    ]
    if extended:
        claims.append(extended["resourceClaimName"])
    # A template without a claim needs none (API reference of PodResourceClaimStatus).
    return tuple(f"{namespace}/{name}" for name in claims if name is not None)
