"""Both webhooks on one cluster: ours as the chart installs it, the floor under another name."""

import base64
import copy
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.bench.admission import server
from tests.bench.admission.certificate import write_certificate
from tests.bench.admission.server import Kind
from tests.bench.admission.webhook import CONFIGURATIONS, Webhook
from tests.bench.api import Api, Json, RefusedError
from tests.bench.partner import running
from tests.bench.waiting import until

OURS, FLOOR = "bench-ours", "bench-floor"
"""Namespaces: each webhook is asked about the pods of its own."""
FLOOR_WEBHOOK = "floor.bench.example"
_SERVED_SECONDS = 60
_NOT_FOUND = 404


@dataclass(frozen=True)
class Side:
    """A webhook, its process, and the namespace whose pods it is asked about."""

    name: str
    pid: int
    namespace: str
    webhooks: Collection[str]
    """Its names in the API server's metrics."""


@asynccontextmanager
async def paired(api: Api, webhook: Webhook, folder: Path) -> AsyncIterator[tuple[Side, Side]]:
    """The floor and ours, in this order; both are asked from now on."""
    certificate, ca = write_certificate(folder)
    for namespace in (OURS, FLOOR):
        # Ours leaves a namespace alone that opted out.
        labels = {"gpushare.io/inject": "disabled"} if namespace == FLOOR else {}
        await create_namespace(api, namespace, labels)
    asked = (Kind.FLOOR, str(certificate), "0")
    async with running(server.__name__, *asked, log=folder / "floor.log") as floor:
        url = f"https://127.0.0.1:{await floor.hear()}/mutate-pods"
        entry = build_floor(webhook.entries[0], url, ca.read_bytes())
        body = {"metadata": {"name": "bench-floor"}, "webhooks": [entry]}
        await api.call("POST", CONFIGURATIONS, body)
        try:
            yield (
                Side("floor", floor.pid, FLOOR, {FLOOR_WEBHOOK}),
                Side("ours", webhook.pid, OURS, webhook.names),
            )
        finally:
            await api.call("DELETE", f"{CONFIGURATIONS}/bench-floor")


def build_floor(ours: Json, url: str, ca: bytes) -> Json:
    """The floor's entry: asked about the same pods as ours, under the same conditions."""
    entry = copy.deepcopy(ours)
    here = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [FLOOR]}
    return entry | {
        "name": FLOOR_WEBHOOK,
        "clientConfig": {"url": url, "caBundle": base64.b64encode(ca).decode()},
        "namespaceSelector": {"matchExpressions": [here]},
    }


async def create_namespace(api: Api, name: str, labels: Json | None = None) -> None:
    """Create a namespace; returns once pods can be created in it."""
    await api.call(
        "POST", "api/v1/namespaces", {"metadata": {"name": name, "labels": labels or {}}}
    )

    async def takes_pods() -> bool:
        try:
            await api.call("GET", f"api/v1/namespaces/{name}/serviceaccounts/default")
        except RefusedError as error:
            if error.status != _NOT_FOUND:
                raise
            return False
        return True

    await until(takes_pods, f"namespace {name} takes pods", seconds=_SERVED_SECONDS)
