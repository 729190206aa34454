"""The call to ourselves that /readyz waits for."""

import asyncio
import ssl

import pytest

from gpushare.settings import Settings
from gpushare.webhook import readiness as readiness_call
from gpushare.webhook.readiness import ReadinessCall
from tests.kit.values.certificates import HOST, build_tls
from tests.kit.values.webhook_server import build_webhook, until


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness_call, "PERIOD_SECONDS", 0.01)
    monkeypatch.setattr(readiness_call, "RETRY_SECONDS", 0.01)


def build_set_event() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


async def find_problem(
    trusted: bytes | None, server: ssl.SSLContext, name: str = HOST
) -> str | None:
    """What is wrong once a call was made."""
    call = ReadinessCall(Settings().webhook_host, name, lambda: trusted, build_set_event())
    before = call.find_problem()
    assert before is not None
    async with build_webhook().listening(server, host="127.0.0.1", port=0) as port:
        running = asyncio.create_task(call.run(port))
        await until(lambda: call.find_problem() != before)
        running.cancel()
    return call.find_problem()


@pytest.mark.parametrize(
    ("bundle", "name", "words"),
    [
        ("another", HOST, "certificate verify failed"),
        (None, HOST, "certificate verify failed"),
        ("own", "other.svc", "other.svc"),
    ],
    ids=["another CA", "the machine's CAs", "another name"],
)
async def test_a_certificate_that_the_api_server_would_not_take_is_a_flaw(
    bundle: str | None, name: str, words: str
) -> None:
    server, _, own = build_tls()
    _, _, another = build_tls()
    pems = {"own": own.certificate_pem, "another": another.certificate_pem, None: None}
    problem = await find_problem(pems[bundle], server, name)
    assert words in (problem or "")


async def test_it_heals_when_the_server_does() -> None:
    server, _, authority = build_tls()
    trusted = [b""]
    call = ReadinessCall("127.0.0.1", HOST, lambda: trusted[-1], build_set_event())
    async with build_webhook().listening(server, host="127.0.0.1", port=0) as port:
        running = asyncio.create_task(call.run(port))
        await until(
            lambda: call.find_problem() != "the webhook's call to itself failed: not called yet"
        )
        assert call.find_problem() is not None
        trusted.append(authority.certificate_pem)
        await until(lambda: call.find_problem() is None)
        running.cancel()


async def test_while_no_call_can_succeed_none_is_made() -> None:
    server, _, authority = build_tls()
    trusted: bytes = authority.certificate_pem
    usable, asked = build_set_event(), list[None]()

    def find_trust() -> bytes:
        asked.append(None)
        usable.clear()
        return trusted

    call = ReadinessCall("127.0.0.1", HOST, find_trust, usable)
    async with build_webhook().listening(server, host="127.0.0.1", port=0) as port:
        running = asyncio.create_task(call.run(port))
        await until(lambda: len(usable._waiters) == 1)
        running.cancel()
    assert (len(asked), call.find_problem()) == (1, None)
