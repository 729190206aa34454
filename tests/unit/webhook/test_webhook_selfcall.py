"""The call to ourselves that /readyz waits for."""

import asyncio
import ssl
from dataclasses import dataclass

import pytest

from gpushare.webhook import selfcall
from gpushare.webhook.selfcall import SelfCall
from tests.kit.tls import HOST, build_tls
from tests.kit.webhookserver import build_webhook, until

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


async def test_a_certificate_that_the_bundle_does_not_vouch_for_is_a_flaw() -> None:
    server, _, _ = build_tls()
    _, _, another = build_tls()
    flaw = await find_flaw(Trust(another.certificate_pem), server)
    assert flaw is not None
    assert flaw.startswith("a call to ourselves failed: ")
    assert "certificate verify failed" in flaw


async def test_without_a_bundle_the_machines_own_cas_count_as_they_do_for_the_api_server() -> None:
    server, _, _ = build_tls()
    assert "certificate verify failed" in (await find_flaw(Trust(None), server) or "")


async def test_a_certificate_for_another_name_is_a_flaw() -> None:
    server, _, authority = build_tls()
    flaw = await find_flaw(Trust(authority.certificate_pem, ("other.svc",)), server)
    assert "other.svc" in (flaw or "")


async def test_a_server_without_a_certificate_is_a_flaw() -> None:
    _, _, authority = build_tls()
    empty = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    assert await find_flaw(Trust(authority.certificate_pem), empty) is not None


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
