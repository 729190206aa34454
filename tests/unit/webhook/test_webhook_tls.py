"""TLS of the running webhook."""

import asyncio
import contextlib
import ssl
from datetime import UTC, datetime

import aiohttp

from gpushare.certs.issue import issue_identity
from gpushare.webhook.certificate import load_identity
from gpushare.webhook.server import PODS_PATH
from tests.kit.values.certificates import HOST, build_tls
from tests.kit.values.manifests import build_gpu_pod, build_review, encode
from tests.kit.values.webhook_server import build_memory, build_webhook, until


async def served_certificate(port: int, trusting: ssl.SSLContext, name: str) -> bytes:
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting, server_hostname=name)
    try:
        certificate: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return certificate
    finally:
        writer.close()
        await writer.wait_closed()


async def test_a_new_certificate_holds_for_new_connections_and_cuts_none() -> None:
    server, trusting, authority = build_tls()
    webhook = build_webhook(build_memory(pools=()))
    async with (
        webhook.listening(server, host="127.0.0.1", port=0) as port,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting, limit=1)) as session,
    ):
        url, body = f"https://127.0.0.1:{port}{PODS_PATH}", encode(build_review(build_gpu_pod()))
        async with session.post(url, data=body) as response:
            assert response.status == 200
        before = await served_certificate(port, trusting, HOST)
        load_identity(server, issue_identity(authority, (HOST, "127.0.0.1"), datetime.now(UTC)))
        assert await served_certificate(port, trusting, HOST) != before
        async with session.post(url, data=body) as response:
            assert response.status == 200


async def test_a_request_under_way_when_the_server_stops_is_answered() -> None:
    server, trusting, _ = build_tls()
    webhook = build_webhook(build_memory(pools=()))
    body = encode(build_review(build_gpu_pod()))
    stack = contextlib.AsyncExitStack()
    port = await stack.enter_async_context(webhook.listening(server, host="127.0.0.1", port=0))
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
    head = f"POST {PODS_PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode())
    await until(lambda: webhook.calls.count)
    stopping = asyncio.create_task(stack.aclose())
    while await is_listening(port):
        continue
    writer.write(body)
    answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert b"Connection: close" in answer
    writer.close()
    await stopping


async def is_listening(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
