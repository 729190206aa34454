"""The caBundle of our MutatingWebhookConfiguration: the one field of it that a process writes."""

import base64
from typing import Any

from gpushare.kube.client import JSON_PATCH, ApiServer, Json

_COLLECTION = "apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


async def apply_ca_bundle(api: ApiServer, name: str, ca_pem: bytes) -> bool:
    """Make every webhook of configuration `name` trust exactly `ca_pem`; True where it wrote.

    Raises `ApiError`: 404 where the configuration is not installed.
    """
    raw = await api.get(f"{_COLLECTION}/{name}")
    patch = plan_ca_bundle(raw, ca_pem)
    if patch:
        await api.patch(f"{_COLLECTION}/{name}", patch, content_type=JSON_PATCH)
    return bool(patch)


def plan_ca_bundle(raw: Json, ca_pem: bytes) -> list[dict[str, Any]]:
    """The JSON patch for that; empty where nothing differs.

    It names the webhooks that it changes: one that moved meanwhile fails it.
    """
    bundle = base64.b64encode(ca_pem).decode()
    patch: list[dict[str, Any]] = []
    for index, webhook in enumerate(raw.get("webhooks") or ()):
        if webhook["clientConfig"].get("caBundle") != bundle:
            path = f"/webhooks/{index}"
            patch += [
                {"op": "test", "path": f"{path}/name", "value": webhook["name"]},
                {"op": "add", "path": f"{path}/clientConfig/caBundle", "value": bundle},
            ]
    return patch
