"""/metrics, /livez and /readyz."""

import asyncio
import contextlib

import aiohttp
import pytest
from aiohttp.test_utils import RawTestServer

from gpushare.observe.http import Check, MetricsText, ProcessServer
from gpushare.observe.metrics import Metrics


async def get(
    path: str, *, liveness: list[Check], readiness: list[Check], method: str = "GET"
) -> tuple[int, str]:
    server = ProcessServer(Metrics().generate, liveness=liveness, readiness=readiness)
    async with (
        RawTestServer(server.handle) as raw,
        aiohttp.ClientSession() as session,
        session.request(method, raw.make_url(path)) as response,
    ):
        return response.status, await response.text()


class Counter:
    """Metrics that say how often somebody counted, and how often they were written."""

    def __init__(self) -> None:
        self.counted = 0
        self.written = 0

    def generate(self) -> bytes:
        self.written += 1
        return str(self.counted).encode()


async def read(text: MetricsText, until: asyncio.Event | None = None) -> bytes | None:
    """What somebody is answered who reads until then."""
    async with text.reading() as answer:
        if until is not None:
            await until.wait()
        return answer


async def pause() -> None:
    """Let everything happen that can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_who_asks_at_the_same_time_is_told_the_same() -> None:
    counter = Counter()
    text = MetricsText(counter.generate)
    assert set(await asyncio.gather(*(read(text) for _ in range(100)))) == {b"0"}
    assert counter.written == 1
    # It ends when nobody waits any more.
    assert text._writing is not None
    await text._writing


async def test_each_answer_has_what_was_counted_before_it_was_asked_for() -> None:
    counter = Counter()
    text = MetricsText(counter.generate)
    for counter.counted in range(20):
        assert await read(text) == str(counter.counted).encode()


async def test_who_asks_while_others_read_is_told_what_was_counted_meanwhile() -> None:
    counter, is_read = Counter(), asyncio.Event()
    text = MetricsText(counter.generate)
    slow = asyncio.create_task(read(text, is_read))
    await pause()
    counter.counted = 1
    late = [asyncio.create_task(read(text)) for _ in range(2)]
    await pause()
    # What they wait for is not begun, so that it has this as well.
    counter.counted = 2
    assert counter.written == 1
    is_read.set()
    assert await asyncio.gather(slow, *late) == [b"0", b"2", b"2"]


async def test_one_that_reads_without_end_keeps_nobody_waiting_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gpushare.observe.http.READING_SECONDS", 0.0)
    text, never = MetricsText(Counter().generate), asyncio.Event()
    endless = asyncio.create_task(read(text, never))
    await pause()
    assert await read(text) == b"0"
    endless.cancel()


async def test_one_that_hangs_up_takes_nothing_from_the_others() -> None:
    text = MetricsText(Counter().generate)
    impatient, patient = (asyncio.create_task(read(text)) for _ in range(2))
    await asyncio.sleep(0)
    impatient.cancel()
    assert await patient == b"0"


async def test_who_asks_for_metrics_that_can_not_be_written_is_told_so_and_the_log_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    metrics = Metrics()
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(metrics, "look", lambda: 1 / 0)
        server = ProcessServer(metrics.generate)
        async with RawTestServer(server.handle) as raw, aiohttp.ClientSession() as session:
            async with session.get(raw.make_url("/metrics")) as response:
                assert response.status == 500
            broken.undo()
            async with session.get(raw.make_url("/metrics")) as response:
                assert response.status == 200
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError


async def test_what_is_no_http_is_answered_and_not_logged(
    caplog: pytest.LogCaptureFixture, unused_tcp_port: int
) -> None:
    server = ProcessServer(Metrics().generate)
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
    async with RawTestServer(ProcessServer(lambda: b"x" * size).handle) as server:
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


async def test_a_process_that_is_not_ready_says_each_reason_and_stays_live() -> None:
    assert await get("/readyz", liveness=[], readiness=[lambda: None]) == (200, "ok\n")
    problems: list[Check] = [lambda: "pools are not known yet", lambda: None, lambda: "no lease"]
    status, text = await get("/readyz", liveness=[], readiness=problems)
    assert (status, text) == (503, "pools are not known yet\nno lease\n")
    assert (await get("/livez", liveness=[], readiness=problems))[0] == 200
