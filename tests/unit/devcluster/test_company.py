"""Other projects' manifests, as a controller outside of the cluster needs them."""

from base64 import b64encode
from pathlib import Path

import pytest

from devcluster.company.controller import Place, call_by_url
from tests.kit.values.manifests import Json

PLACE = Place("kueue", Path("/nowhere"), 9443, 8081, 8443, b"CA")
AT = {"url": "https://127.0.0.1:9443/path", "caBundle": b64encode(b"CA").decode()}
SERVICE = {"service": {"name": "webhook", "namespace": "system", "path": "/path"}}


@pytest.mark.parametrize("kind", ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"])
def test_webhooks_are_called_at_this_machine(kind: str) -> None:
    manifest: Json = {"kind": kind, "webhooks": [{"name": "a", "clientConfig": SERVICE}]}
    (webhook,) = call_by_url(manifest, PLACE)["webhooks"]
    assert webhook == {"name": "a", "clientConfig": AT}
    assert manifest["webhooks"][0]["clientConfig"] == SERVICE


def test_a_crd_is_converted_at_this_machine_and_keeps_the_rest() -> None:
    webhook = {"clientConfig": SERVICE, "conversionReviewVersions": ["v1"]}
    conversion = {"strategy": "Webhook", "webhook": webhook}
    crd: Json = {
        "kind": "CustomResourceDefinition",
        "spec": {"group": "a.b", "conversion": conversion},
    }
    found = call_by_url(crd, PLACE)["spec"]
    assert found["group"] == "a.b"
    assert found["conversion"] == {
        "strategy": "Webhook",
        "webhook": {"clientConfig": AT, "conversionReviewVersions": ["v1"]},
    }


def test_other_manifests_stay_as_they_are() -> None:
    for manifest in (
        {"kind": "ConfigMap", "data": {}},
        {"kind": "CustomResourceDefinition", "spec": {"conversion": {"strategy": "None"}}},
    ):
        assert call_by_url(manifest, PLACE) == manifest
