"""Calls to the webhook's server, without TLS."""

import contextlib
from collections.abc import AsyncIterator
from io import BytesIO
from typing import Any

import orjson
from aiohttp.test_utils import RawTestServer, TestClient

from gpushare.observe.metrics import Metrics
from gpushare.webhook.server import PODS_PATH, AdmissionServer
from tests.kit.values.manifests import encode
from tests.kit.values.webhook_server import build_webhook

Client = TestClient[Any, Any]


@contextlib.asynccontextmanager
async def connected(server: AdmissionServer | None = None) -> AsyncIterator[Client]:
    """Who calls it, or one that knows two pools."""
    client: Client = TestClient(RawTestServer((server or build_webhook()).handle))
    async with client:
        yield client


async def ask(client: Client, review: Any, path: str = PODS_PATH) -> tuple[int, Any]:
    """The status, and the answer's JSON; where it is no 200, its text."""
    # With the query that the API server adds.
    async with client.post(f"{path}?timeout=3s", data=BytesIO(encode(review))) as response:
        body = await response.read()
        return response.status, orjson.loads(body) if response.status == 200 else body.decode()


def count(metrics: Metrics, reason: str) -> float | None:
    """How many calls about pods ended so."""
    asked = "gpushare_admission_requests_total"
    return metrics.registry.get_sample_value(asked, {"reason": reason})
