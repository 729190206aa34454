"""/metrics, /livez and /readyz."""

import asyncio
import contextlib
import logging

import aiohttp
import pytest
from aiohttp.test_utils import RawTestServer

from gpushare.observe.http import MAX_CONNECTIONS, Check, ProcessServer
from gpushare.observe.metrics import Metrics
from gpushare.observe.metrics.controller import ControllerMetrics
from gpushare.settings import Settings


async def get(path: str, *readiness: Check, method: str = "GET") -> tuple[int, str]:
    server = ProcessServer(Metrics().generate, readiness=readiness)
    async with (
        RawTestServer(server.handle) as raw,
        aiohttp.ClientSession() as session,
        session.request(method, raw.make_url(path)) as response,
    ):
        return response.status, await response.text()


async def test_who_asks_for_metrics_that_can_not_be_written_is_told_so_and_the_log_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    metrics = ControllerMetrics()
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


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
async def test_they_are_there_where_pods_have_addresses_of_one_family_alone(
    address: str, unused_tcp_port: int
) -> None:
    server = ProcessServer(Metrics().generate)
    async with server.listening(host=Settings().metrics_host, port=unused_tcp_port):
        _, writer = await asyncio.open_connection(address, unused_tcp_port)
        writer.close()


async def test_more_connections_than_a_few_are_not_kept_open(unused_tcp_port: int) -> None:
    server = ProcessServer(Metrics().generate)
    async with server.listening(host="127.0.0.1", port=unused_tcp_port):
        opened = [
            await asyncio.open_connection("127.0.0.1", unused_tcp_port)
            for _ in range(MAX_CONNECTIONS + 1)
        ]
        with contextlib.suppress(ConnectionError):
            assert await opened[0][0].read() == b""
        assert len(server.connections) == MAX_CONNECTIONS
        for _, writer in opened:
            writer.close()


async def test_nothing_else_is_answered() -> None:
    assert (await get("/metrics/"))[0] == 404
    for method in ("HEAD", "POST"):
        assert (await get("/metrics", method=method))[0] == 405


async def test_a_process_that_is_not_ready_says_each_reason_and_stays_live() -> None:
    assert await get("/readyz", lambda: None) == (200, "ok\n")
    problems: list[Check] = [lambda: "pools are not known yet", lambda: None, lambda: "no lease"]
    status, text = await get("/readyz", *problems)
    assert (status, text) == (503, "pools are not known yet\nno lease\n")
    assert (await get("/livez", *problems))[0] == 200


@pytest.mark.parametrize(
    ("answers", "is_stopping", "logged"),
    [
        (
            [None, "silent for 61 s", "silent for 63 s", "no lease", None, None],
            False,
            [
                ("WARNING", "/readyz answers 503: silent for 61 s"),
                ("WARNING", "/readyz answers 503: no lease"),
                ("INFO", "/readyz answers 200"),
            ],
        ),
        (
            ["no pools", None, "no lease"],
            False,
            [
                ("INFO", "/readyz answers 503: no pools"),
                ("INFO", "/readyz answers 200"),
                ("WARNING", "/readyz answers 503: no lease"),
            ],
        ),
        ([None, "about to stop"], True, [("INFO", "/readyz answers 503: about to stop")]),
    ],
    ids=["ready before", "starting", "stopping"],
)
async def test_a_probes_answer_is_logged_when_it_changes_and_is_a_warning_of_what_was_ready(
    answers: list[str | None],
    is_stopping: bool,
    logged: list[tuple[str, str]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    given = iter(answers)
    server = ProcessServer(
        Metrics().generate,
        readiness=[lambda: next(given)],
        is_stopping=lambda: is_stopping,
    )
    async with RawTestServer(server.handle) as raw, aiohttp.ClientSession() as session:
        for _ in answers:
            await session.get(raw.make_url("/readyz"))
    ours = [record for record in caplog.records if record.name == "gpushare.observe.http"]
    assert [(record.levelname, record.getMessage()) for record in ours] == logged


async def test_what_was_never_live_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    server = ProcessServer(Metrics().generate, liveness=[lambda: "no pass has begun"])
    async with RawTestServer(server.handle) as raw, aiohttp.ClientSession() as session:
        await session.get(raw.make_url("/livez"))
    (record,) = caplog.records
    assert record.levelname == "WARNING"
