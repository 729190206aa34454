"""Reads our MutatingWebhookConfiguration, and writes its caBundle."""

import base64

from gpushare.kube.client import JSON_PATCH, ApiClient, Json
from gpushare.kube.resources.secrets import decode_base64

_COLLECTION = "apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


async def read_configuration(api: ApiClient, name: str) -> Json | None:
    """Read the configuration; None where it is not installed."""
    return await api.find(f"{_COLLECTION}/{name}")


async def apply_ca_bundle(api: ApiClient, name: str, raw: Json, ca_pem: bytes) -> bool:
    """Set the caBundle of every webhook of `raw` to `ca_pem`; return whether that was a change.

    Raises `ApiError`: a 409 where the configuration changed since it was read, so that a delayed
    process does not put back a bundle that others have replaced.
    """
    bundle = base64.b64encode(ca_pem).decode()
    changes = [
        {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": bundle}
        for index, webhook in enumerate(raw.get("webhooks") or ())
        if webhook["clientConfig"].get("caBundle") != bundle
    ]
    if changes:
        version = raw["metadata"]["resourceVersion"]
        test = {"op": "replace", "path": "/metadata/resourceVersion", "value": version}
        await api.patch(f"{_COLLECTION}/{name}", [test, *changes], content_type=JSON_PATCH)
    return bool(changes)


def list_ca_bundles(raw: Json) -> tuple[bytes, ...]:
    """List the configuration's CA bundles in PEM, each once; empty where one is unset."""
    webhooks = raw.get("webhooks") or ()
    return tuple(dict.fromkeys(decode_base64(w["clientConfig"].get("caBundle")) for w in webhooks))
