"""TLS of the running webhook."""

import asyncio
import contextlib
import ssl
from datetime import UTC, datetime

import aiohttp

from gpushare.certs.issue import issue_identity
from gpushare.webhook.certificates import load_identity
from tests.kit.values.certificates import HOST, build_tls
from tests.kit.values.webhook_server import build_webhook, until
from tests.unit.webhook.webhook_client import BODY, Crowd, build_call


async def served_certificate(port: int, trusting: ssl.SSLContext) -> bytes:
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting, server_hostname=HOST)
    try:
        certificate: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return certificate
    finally:
        writer.close()
        await writer.wait_closed()


async def test_a_new_certificate_holds_for_new_connections_and_cuts_none() -> None:
    server, trusting, authority = build_tls()
    webhook = build_webhook()
    async with (
        webhook.listening(server, host="127.0.0.1", port=0) as port,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting, limit=1)) as session,
    ):
        crowd = Crowd(port, trusting)
        assert await crowd.ask(session) == 200
        before = await served_certificate(port, trusting)
        load_identity(server, issue_identity(authority, (HOST, "127.0.0.1"), datetime.now(UTC)))
        assert await served_certificate(port, trusting) != before
        assert await crowd.ask(session) == 200


async def test_a_request_under_way_when_the_server_stops_is_answered() -> None:
    server, trusting, _ = build_tls()
    webhook = build_webhook()
    stack = contextlib.AsyncExitStack()
    port = await stack.enter_async_context(webhook.listening(server, host="127.0.0.1", port=0))
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
    writer.write(build_call(b"", length=len(BODY)))
    await until(lambda: webhook.calls.count)
    stopping = asyncio.create_task(stack.aclose())
    while await is_listening(port):
        continue
    writer.write(BODY)
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
