"""/metrics, /livez and /readyz."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from functools import partial

import aiohttp
import pytest
from aiohttp.test_utils import RawTestServer
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from gpushare.observe.connections import Connections
from gpushare.observe.http import MAX_AGE_SECONDS, REST, Check, MetricsText, ProcessServer
from gpushare.observe.metrics import Metrics


async def get(
    path: str, *, liveness: list[Check], readiness: list[Check], method: str = "GET"
) -> tuple[int, str]:
    server = ProcessServer(Metrics().registry, liveness=liveness, readiness=readiness)
    async with (
        RawTestServer(server.handle) as raw,
        aiohttp.ClientSession() as session,
        session.request(method, raw.make_url(path)) as response,
    ):
        return response.status, await response.text()


async def test_metrics_are_served_as_prometheus_text() -> None:
    status, text = await get("/metrics", liveness=[], readiness=[])
    assert status == 200
    assert "# TYPE gpushare_build_info gauge" in text


class Looked(Collector):
    """Counts how often somebody looked, which takes some seconds each time."""

    def __init__(self) -> None:
        self.times = 0
        self.seconds = 0.0
        self.each_seconds = 1.0

    def collect(self) -> Iterator[GaugeMetricFamily]:
        self.times += 1
        self.seconds += self.each_seconds
        yield GaugeMetricFamily("looked_times", "How often.", value=self.times)

    def describe(self) -> list[GaugeMetricFamily]:
        return []


@pytest.fixture
def looked() -> Looked:
    return Looked()


@pytest.fixture
def text(looked: Looked) -> MetricsText:
    registry = CollectorRegistry()
    registry.register(looked)
    return MetricsText(registry, lambda: looked.seconds)


async def test_who_asks_at_the_same_time_is_told_the_same(
    text: MetricsText, looked: Looked
) -> None:
    assert len(set(await asyncio.gather(*(text.read() for _ in range(100))))) == 1
    assert looked.times == 1


async def test_metrics_that_took_long_to_write_are_given_out_again_for_a_while(
    text: MetricsText, looked: Looked
) -> None:
    first = await text.read()
    looked.seconds += REST - 0.1
    assert await text.read() == first
    looked.seconds += 0.2
    assert b"looked_times 2.0" in await text.read()


async def test_metrics_that_took_very_long_are_not_given_out_for_minutes(
    text: MetricsText, looked: Looked
) -> None:
    looked.each_seconds = 60.0
    await text.read()
    looked.seconds += MAX_AGE_SECONDS
    assert b"looked_times 2.0" in await text.read()


async def test_one_that_hangs_up_takes_nothing_from_the_others(
    text: MetricsText, looked: Looked
) -> None:
    impatient, patient = asyncio.create_task(text.read()), asyncio.create_task(text.read())
    await asyncio.sleep(0)
    impatient.cancel()
    assert b"looked_times 1.0" in await patient


async def test_metrics_that_could_not_be_written_are_tried_anew(
    text: MetricsText, looked: Looked, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr("gpushare.observe.http.generate_latest", lambda taken: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await text.read()
    assert b"looked_times 2.0" in await text.read()


async def test_who_asks_for_metrics_that_can_not_be_written_is_told_so_and_the_log_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("gpushare.observe.http.generate_latest", lambda taken: 1 / 0)
    assert (await get("/metrics", liveness=[], readiness=[]))[0] == 500
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError


async def test_what_is_no_http_is_answered_and_not_logged(
    caplog: pytest.LogCaptureFixture, unused_tcp_port: int
) -> None:
    server = ProcessServer(CollectorRegistry())
    async with server.listening(host="127.0.0.1", port=unused_tcp_port):
        reader, writer = await asyncio.open_connection("127.0.0.1", unused_tcp_port)
        writer.write(b"GET /metrics HTTP/1.1\r\nauthorization': 'q \x01\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.0 400")
        writer.close()
        await writer.wait_closed()
    assert caplog.records == []


async def test_one_that_reads_too_slowly_is_hung_up_on_without_a_word(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    size = 50_000_000
    monkeypatch.setattr("gpushare.observe.http.READER_SECONDS", 0.0)
    monkeypatch.setattr("gpushare.observe.http.generate_latest", lambda taken: b"x" * size)
    async with RawTestServer(ProcessServer(CollectorRegistry()).handle) as server:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: operator\r\n\r\n")
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(size)
        writer.close()
        with contextlib.suppress(ConnectionResetError):
            await writer.wait_closed()
    assert caplog.records == []


async def test_nothing_else_is_answered() -> None:
    assert (await get("/metrics/", liveness=[], readiness=[]))[0] == 404
    for method in ("HEAD", "POST"):
        assert (await get("/metrics", liveness=[], readiness=[], method=method))[0] == 405


async def test_of_too_many_connections_those_are_closed_on_which_nobody_asks() -> None:
    server = ProcessServer(CollectorRegistry())
    server.connections = Connections(limit=3)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    async with server.listening(host="127.0.0.1", port=port), aiohttp.ClientSession() as session:
        probe = partial(session.get, f"http://127.0.0.1:{port}/livez")
        async with probe() as response:
            assert response.status == 200
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
        for reader, _ in idle[:3]:
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
        assert len(server.connections) == 3
        async with probe() as response:
            assert response.status == 200
        for _, writer in idle:
            writer.close()
            with contextlib.suppress(ConnectionResetError):
                await writer.wait_closed()


async def test_a_process_without_flaws_is_live_and_ready() -> None:
    fine: list[Check] = [lambda: None]
    for path in ("/livez", "/readyz"):
        assert await get(path, liveness=fine, readiness=fine) == (200, "ok\n")


async def test_a_process_that_is_not_ready_says_each_reason_and_stays_live() -> None:
    flaws: list[Check] = [lambda: "pools are not known yet", lambda: None, lambda: "no lease"]
    status, text = await get("/readyz", liveness=[], readiness=flaws)
    assert (status, text) == (503, "pools are not known yet\nno lease\n")
    assert (await get("/livez", liveness=[], readiness=flaws))[0] == 200
