"""Whoever is slow, or says nothing, keeps nobody else from an answer; over real TLS."""

import asyncio
import contextlib
import tracemalloc
from asyncio.sslproto import SSLProtocol
from datetime import UTC, datetime

import aiohttp
import pytest

from gpushare.api.k8s.namespace import Namespace
from gpushare.certs.issue import issue_identity
from gpushare.observe.connections import READ_BUFFER_BYTES, Connections, shrink_read_buffers
from gpushare.observe.metrics import Metrics
from gpushare.webhook import cache as memory_module
from gpushare.webhook import calls
from gpushare.webhook import server as server_module
from gpushare.webhook.certificates import load_identity
from gpushare.webhook.server import PODS_PATH
from tests.kit.values.certificates import HOST, build_tls
from tests.kit.values.manifests import build_gpu_pod, build_review, encode
from tests.kit.values.webhook_server import build_memory, build_webhook, until
from tests.unit.webhook.webhook_client import BODY, Crowd, count, crowded

SLOW = 600
REAL_CALLS = 200


async def read_status(reader: asyncio.StreamReader) -> int:
    line = await reader.readline()
    return int(line.split()[1])


async def test_hundreds_that_send_slowly_cost_no_real_call_its_answer() -> None:
    server = build_webhook()
    async with crowded(server) as (crowd, session):
        gate = asyncio.Semaphore(32)

        async def dawdle() -> None:
            async with gate:
                await crowd.begin_call()

        async with asyncio.TaskGroup() as tasks:
            for _ in range(SLOW):
                tasks.create_task(dawdle())
            statuses = [await crowd.ask(session) for _ in range(REAL_CALLS)]
        assert await crowd.ask(session) == 200
    assert statuses == [200] * REAL_CALLS


async def test_of_too_many_that_wait_the_slowest_has_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "GRACE_SECONDS", 0.0)
    metrics = Metrics()
    server = build_webhook(metrics=metrics, max_calls=1)
    async with crowded(server) as (crowd, _):
        first, _ = await crowd.begin_call()
        await until(lambda: server.calls.count == 1)
        _, second = await crowd.begin_call(BODY[:1], len(BODY))
        assert await read_status(first) == 429
        await until(lambda: server.calls.count == 1)
        second.write(BODY[1:])
        await until(lambda: server.calls.count == 0)
        await until(lambda: count(metrics, "Routed") == 1)


async def test_nobody_has_to_go_before_it_could_be_called_slow() -> None:
    server = build_webhook(max_calls=1)
    async with crowded(server) as (crowd, _):
        started = [await crowd.begin_call(BODY[:1], len(BODY)) for _ in range(3)]
        await until(lambda: server.calls.count == 3)
        for reader, writer in started:
            writer.write(BODY[1:])
            assert await read_status(reader) == 200


async def test_bodies_in_hand_together_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "MAX_BYTES", 50_000)
    server = build_webhook()
    async with crowded(server) as (crowd, _):
        first, _ = await crowd.begin_call(b" " * 30_000, 60_000)
        await until(lambda: server.calls.held_bytes == 30_000)
        await crowd.begin_call(b" " * 30_000, 60_000)
        assert await read_status(first) == 429
        assert server.calls.held_bytes <= 50_000


async def test_of_too_many_connections_a_strangers_is_closed() -> None:
    server = build_webhook()
    server.connections = Connections(limit=3)
    async with crowded(server) as (crowd, session):
        assert await crowd.ask(session) == 200
        idle = [await crowd.open() for _ in range(5)]
        # One of the three was asked on, and is kept.
        await until(lambda: len(server.connections) == 3)
        for reader, _ in idle[:3]:
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
        assert len(session.connector._conns) == 1  # type: ignore[union-attr]
        assert await crowd.ask(session) == 200


async def test_a_connection_on_which_nobody_asks_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "IDLE_SECONDS", 0.05)
    async with crowded(build_webhook()) as (crowd, _):
        reader, writer = await crowd.open()
        writer.write(f"POST {PODS_PATH} HTTP/1.1\r\n".encode())
        # What is written after it was closed resets it.
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""


async def test_a_connection_on_which_nothing_is_said_takes_little_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two sides of TLS in one process; each would have a quarter of a MiB of its own."""
    monkeypatch.setattr(SSLProtocol, "max_size", SSLProtocol.max_size)
    shrink_read_buffers()
    server = build_webhook()
    async with crowded(server) as (crowd, _):
        await crowd.open()
        tracemalloc.start()
        try:
            for _ in range(10):
                await crowd.open()
            await until(lambda: len(server.connections) == 11)
            taken, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert taken / 10 < 2 * 2 * READ_BUFFER_BYTES


async def test_what_comes_while_a_call_waits_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each of a thousand connections could have it hold a quarter of a MiB."""
    monkeypatch.setattr(SSLProtocol, "max_size", SSLProtocol.max_size)
    monkeypatch.setattr(memory_module, "NAMESPACE_SECONDS", 60.0)
    shrink_read_buffers()
    cache = build_memory()
    server = build_webhook(cache)
    body = encode(build_review(build_gpu_pod(), namespace="new"))
    async with crowded(server) as (crowd, _):
        _, writer = await crowd.begin_call(body, len(body))
        await until(lambda: server.calls.count == 1)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 300_000)
        (transport,) = server.connections._strangers.values()
        await until(lambda: is_reading_no_more(transport))
        assert count_buffered(transport) <= 2 * READ_BUFFER_BYTES
        cache.put_namespace("new", None, Namespace("new"))
        await until(lambda: server.calls.count == 0)


def is_reading_no_more(transport: asyncio.Transport) -> bool:
    """Whether what is below TLS leaves to the kernel what comes."""
    return bool(transport._ssl_protocol._ssl_reading_paused)  # type: ignore[attr-defined]


def count_buffered(transport: asyncio.Transport) -> int:
    """Bytes that came, and that nobody has decrypted."""
    return int(transport.get_read_buffer_size())  # type: ignore[attr-defined]


async def test_a_new_certificate_holds_for_new_connections_and_cuts_none() -> None:
    server, trusting, authority = build_tls()
    async with (
        build_webhook().listening(server, host="127.0.0.1", port=0) as port,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting, limit=1)) as session,
    ):
        crowd = Crowd(port, trusting)
        assert await crowd.ask(session) == 200
        before = await read_certificate(crowd)
        load_identity(server, issue_identity(authority, (HOST, "127.0.0.1"), datetime.now(UTC)))
        assert await read_certificate(crowd) != before
        assert await crowd.ask(session) == 200
        crowd.disperse()


async def read_certificate(crowd: Crowd) -> bytes:
    """What is shown on a new connection."""
    _, writer = await crowd.open()
    certificate: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return certificate
