"""Which pods a Service sends connections to, as its EndpointSlices had it."""

from datetime import datetime
from typing import Any

from devcluster.installation import NAMESPACE
from tests.kit.cluster.watch_recording import Recording

Json = dict[str, Any]

SLICES = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"
_SERVICE_OF = "kubernetes.io/service-name"


def listed_until(watch: Recording, service: str, address: str, since: datetime) -> datetime:
    """When, after `since`, the Service first listed the pod of this address as ready no more.

    `watch` is one of `SLICES`; raises StopIteration where it always did.
    """
    return next(
        at
        for at, found in zip(watch.heard_at, watch.history, strict=True)
        if at > since
        and found["metadata"]["labels"].get(_SERVICE_OF) == service
        and address not in list_ready(found)
    )


def list_ready(slice_: Json) -> set[str]:
    """Addresses that get new connections."""
    return {
        address
        for endpoint in slice_.get("endpoints") or ()
        if endpoint["conditions"].get("ready", True)
        for address in endpoint["addresses"]
    }
