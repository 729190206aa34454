"""Calls to the webhook's server, without TLS and, of a crowd, with it."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from io import BytesIO
from typing import Any

import aiohttp
import orjson
from aiohttp.test_utils import RawTestServer, TestClient

from gpushare.observe.metrics import Metrics
from gpushare.webhook.server import PODS_PATH, AdmissionServer
from tests.kit.values.certificates import build_tls
from tests.kit.values.manifests import build_gpu_pod, build_review, encode
from tests.kit.values.webhook_server import build_webhook

Client = TestClient[Any, Any]
BODY = encode(build_review(build_gpu_pod()))


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


class Crowd:
    """Clients who each have a connection of their own."""

    def __init__(self, port: int, trusting: ssl.SSLContext) -> None:
        self.port = port
        self._trusting = trusting
        self._opened: list[asyncio.StreamWriter] = []

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection on which nothing was said yet."""
        streams = await asyncio.open_connection("127.0.0.1", self.port, ssl=self._trusting)
        self._opened.append(streams[1])
        return streams

    async def begin_call(
        self, body: bytes = b"{", length: int = 1000
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A call whose body does not go on."""
        reader, writer = await self.open()
        writer.write(build_call(body, length=length))
        await writer.drain()
        return reader, writer

    async def ask(self, session: aiohttp.ClientSession, body: bytes = BODY) -> int:
        """The status of a whole call."""
        url = f"https://127.0.0.1:{self.port}{PODS_PATH}"
        async with session.post(url, data=BytesIO(body)) as response:
            await response.read()
            return response.status

    def disperse(self) -> None:
        """Close all."""
        for writer in self._opened:
            writer.transport.abort()


def build_call(body: bytes = BODY, *fields: str, length: int | None = None) -> bytes:
    """A call as bytes, which says that its body is so long."""
    said = f"Content-Length: {len(body) if length is None else length}"
    head = (f"POST {PODS_PATH} HTTP/1.1", "Host: x", said, *fields, "", "")
    return "\r\n".join(head).encode() + body


@contextlib.asynccontextmanager
async def crowded(server: AdmissionServer) -> AsyncIterator[tuple[Crowd, aiohttp.ClientSession]]:
    """A crowd around `server`, and an API server's own session."""
    tls, trusting, _ = build_tls()
    async with (
        server.listening(tls, host="127.0.0.1", port=0) as port,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as session,
    ):
        crowd = Crowd(port, trusting)
        try:
            yield crowd, session
        finally:
            crowd.disperse()
