"""The call to ourselves that /readyz waits for."""

import asyncio
import ssl
from dataclasses import dataclass

import pytest

from gpushare.webhook import selfcall
from gpushare.webhook.selfcall import SelfCall
from tests.kit.values.certificates import HOST, build_tls
from tests.kit.values.webhook_server import build_webhook, until

HOSTS = (HOST, "127.0.0.1")


@dataclass
class Trust:
    """What the API server would trust."""

    trust_pem: bytes | None
    hosts: tuple[str, ...] = HOSTS


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selfcall, "PERIOD_SECONDS", 0.01)
    monkeypatch.setattr(selfcall, "RETRY_SECONDS", 0.01)


async def find_flaw(trust: Trust, server: ssl.SSLContext) -> str | None:
    """What is wrong once a call was made."""
    call = SelfCall(trust, "0.0.0.0")
    before = call.find_flaw()
    assert before is not None
    async with build_webhook().listening(server, host="127.0.0.1", port=0) as port:
        running = asyncio.create_task(call.run(port))
        await until(lambda: call.find_flaw() != before)
        running.cancel()
    return call.find_flaw()


async def test_a_server_that_answers_under_its_name_is_reached() -> None:
    server, _, authority = build_tls()
    assert await find_flaw(Trust(authority.certificate_pem), server) is None


@pytest.mark.parametrize(
    ("bundle", "hosts", "words"),
    [
        ("another", HOSTS, "certificate verify failed"),
        (None, HOSTS, "certificate verify failed"),
        ("own", ("other.svc",), "other.svc"),
    ],
    ids=["another CA", "the machine's CAs", "another name"],
)
async def test_a_certificate_that_the_api_server_would_not_take_is_a_flaw(
    bundle: str | None, hosts: tuple[str, ...], words: str
) -> None:
    server, _, own = build_tls()
    _, _, another = build_tls()
    pems = {"own": own.certificate_pem, "another": another.certificate_pem, None: None}
    flaw = await find_flaw(Trust(pems[bundle], hosts), server)
    assert words in (flaw or "")


async def test_it_heals_when_the_server_does() -> None:
    server, _, authority = build_tls()
    trust = Trust(b"")
    call = SelfCall(trust, "127.0.0.1")
    async with build_webhook().listening(server, host="127.0.0.1", port=0) as port:
        running = asyncio.create_task(call.run(port))
        await until(lambda: call.find_flaw() != "a call to ourselves failed: not called yet")
        assert call.find_flaw() is not None
        trust.trust_pem = authority.certificate_pem
        await until(lambda: call.find_flaw() is None)
        running.cancel()
