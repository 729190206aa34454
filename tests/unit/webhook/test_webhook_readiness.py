"""Ready means ready: what /readyz says of the webhook from its start to its end."""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator

import pytest

from gpushare.kube.resources import pools
from gpushare.observe.metrics import Metrics
from gpushare.settings import Settings
from gpushare.webhook import decision_log as decision_log
from gpushare.webhook.manager import NAMESPACES_PATH, Webhook
from gpushare.webhook.readiness import ReadinessCall
from tests.kit.values.fake_api import FakeApi
from tests.kit.values.webhook_server import DEFAULT, until
from tests.unit.webhook.webhook_certificate import CONFIGURATION, build_fake_api, trusted_ca
from tests.unit.webhook.webhook_client import BODY, build_call


@contextlib.asynccontextmanager
async def starting(fake: FakeApi) -> AsyncIterator[tuple[Webhook, asyncio.Task[None]]]:
    """A webhook on a free port, and the task that runs it."""
    async with fake.connected() as api:
        webhook = Webhook(api, Settings(webhook_host="127.0.0.1", webhook_port=0), Metrics())
        running = asyncio.create_task(webhook.run())
        try:
            yield webhook, running
        finally:
            # Cancelled once, it goes on for a while.
            await until(lambda: not running.cancel())


@pytest.fixture
def fake() -> FakeApi:
    return build_fake_api(pools.PATH, NAMESPACES_PATH)


async def test_it_is_ready_when_it_knows_all_is_trusted_and_can_be_called(fake: FakeApi) -> None:
    problems: list[str | None] = []

    async with starting(fake) as (webhook, _):

        def is_ready() -> bool:
            problems.append(webhook.find_unready())
            return problems[-1] is None

        await until(is_ready)
    assert problems[0] == "gpusharepools are not known yet"
    assert any(problem and "call to itself" in problem for problem in problems)


async def test_while_namespaces_are_unknown_it_is_not_ready() -> None:
    async with starting(build_fake_api(pools.PATH)) as (webhook, _):
        await until(lambda: webhook.find_unready() != "gpusharepools are not known yet")
        assert webhook.find_unready() == "namespaces are not known yet"


async def test_where_nobody_would_call_it_it_is_not_ready(fake: FakeApi) -> None:
    fake.objects.pop(CONFIGURATION)
    async with starting(fake) as (webhook, _):
        await until(lambda: "is not installed" in (webhook.find_unready() or ""))
        assert "not called yet" in (webhook._self_call.find_problem() or "")


async def test_as_soon_as_it_is_to_stop_it_is_not_ready(fake: FakeApi) -> None:
    async with starting(fake) as (webhook, running):
        await until(lambda: webhook.find_unready() is None)
        running.cancel()
        await until(webhook.find_unready)
        assert webhook.find_unready() == "about to stop"


@pytest.fixture
def ports(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where the webhook listens, which never gets to call itself."""
    ports: list[int] = []

    async def tell_port(_: ReadinessCall, port: int) -> None:
        ports.append(port)
        await asyncio.Event().wait()

    monkeypatch.setattr(ReadinessCall, "run", tell_port)
    return ports


async def until_called(webhook: Webhook, ports: list[int]) -> None:
    """Until it can be called about pods of the namespace `default`."""
    await until(lambda: ports and "call to itself" in (webhook.find_unready() or ""))
    webhook._cache.put_namespace("default", None, DEFAULT)


async def connect(
    ports: list[int], fake: FakeApi
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    tls = ssl.create_default_context(cadata=trusted_ca(fake).decode())
    return await asyncio.open_connection("127.0.0.1", ports[0], ssl=tls)


async def test_while_it_drains_whoever_has_not_heard_of_it_is_answered(
    fake: FakeApi, ports: list[int]
) -> None:
    async with starting(fake) as (webhook, running):
        await until_called(webhook, ports)
        running.cancel()
        await until(lambda: webhook._server.calls.ending)
        for _ in range(2):
            reader, writer = await connect(ports, fake)
            writer.write(build_call())
            assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
            writer.close()


async def test_a_call_whose_body_comes_at_the_very_end_is_answered_and_in_the_log(
    fake: FakeApi,
    ports: list[int],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decision_log, "FLUSH_SECONDS", 60.0)
    caplog.set_level(logging.DEBUG, decision_log.log.name)
    async with starting(fake) as (webhook, running):
        await until_called(webhook, ports)
        reader, writer = await connect(ports, fake)
        writer.write(build_call(b"", length=len(BODY)))
        await until(lambda: webhook._server.calls.count)
        running.cancel()
        await until(lambda: webhook._server.calls.ending)
        # This cuts the drain short.
        running.cancel()
        writer.write(BODY)
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert b"Connection: close" in answer
        writer.close()
        await asyncio.wait((running,))
    told = [
        record.getMessage() for record in caplog.records if record.name == decision_log.log.name
    ]
    assert told == ["1 decisions"]
