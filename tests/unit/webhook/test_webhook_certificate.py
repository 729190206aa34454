"""The certificate in its Secret, in the webhook configuration, and in the process."""

import asyncio
import base64
import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gpushare.certs.issue import LIFETIME
from gpushare.kube.client import ApiServer
from gpushare.observe.metrics import Metrics
from gpushare.settings import Settings
from gpushare.webhook.certificate import Certificate
from tests.kit.fakeapi import FakeApi

SECRET = "api/v1/namespaces/gpushare-system/secrets/gpushare-webhook-tls"
CONFIGURATION = (
    "apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/gpushare-webhook"
)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def fake() -> FakeApi:
    fake = FakeApi()
    fake.put(
        CONFIGURATION,
        {
            "metadata": {"name": "gpushare-webhook"},
            "webhooks": [{"name": "pods.gpushare.io", "clientConfig": {"url": "https://x"}}],
        },
    )
    return fake


def start(
    api: ApiServer, clock: Clock | None = None, metrics: Metrics | None = None
) -> Certificate:
    return Certificate(api, Settings(), metrics or Metrics(), clock or Clock())


def trusted_ca(fake: FakeApi) -> bytes:
    bundle = fake.objects[CONFIGURATION]["webhooks"][0]["clientConfig"].get("caBundle", "")
    return base64.b64decode(bundle)


def stored(fake: FakeApi, key: str) -> bytes:
    return base64.b64decode(fake.objects[SECRET]["data"][key])


async def served(tls: ssl.SSLContext) -> bytes:
    """The certificate that a client of a server with this context is shown."""
    async with await asyncio.start_server(_hang_up, "127.0.0.1", 0, ssl=tls) as server:
        port = server.sockets[0].getsockname()[1]
        anyone = ssl.create_default_context()
        anyone.check_hostname, anyone.verify_mode = False, ssl.CERT_NONE
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=anyone)
        certificate: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        await writer.wait_closed()
        return certificate


def _hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def test_the_first_check_makes_the_secret_and_has_its_ca_trusted(fake: FakeApi) -> None:
    async with fake.connected() as api:
        certificate = start(api)
        assert certificate.find_flaw() == "no certificate yet"
        await certificate.ensure()
    assert certificate.find_flaw() is None
    assert fake.objects[SECRET]["type"] == "kubernetes.io/tls"
    assert trusted_ca(fake) == stored(fake, "ca.crt")


async def test_a_check_that_finds_all_well_writes_nothing(fake: FakeApi) -> None:
    async with fake.connected() as api:
        certificate = start(api)
        await certificate.ensure()
        fake.writes.clear()
        await certificate.ensure()
    assert fake.writes == []


async def test_two_that_start_at_once_end_with_one_ca(fake: FakeApi) -> None:
    async with fake.connected() as api:
        first, second = start(api), start(api)
        await asyncio.gather(first.ensure(), second.ensure())
        assert await served(first.tls) == await served(second.tls)
    assert [write for write in fake.writes if SECRET in write] == [f"POST {SECRET}"]
    assert fake.conflicts == [f"POST {SECRET}"]
    assert trusted_ca(fake) == stored(fake, "ca.crt")


async def test_two_that_renew_at_once_end_with_one_certificate(fake: FakeApi) -> None:
    clock = Clock()
    async with fake.connected() as api:
        first, second = start(api, clock), start(api, clock)
        await asyncio.gather(first.ensure(), second.ensure())
        fake.conflicts.clear()
        clock.now += LIFETIME * 0.8
        await asyncio.gather(first.ensure(), second.ensure())
        assert await served(first.tls) == await served(second.tls)
    assert fake.conflicts == [f"PUT {SECRET}"]


@pytest.mark.parametrize("data", [None, {}, {"tls.crt": "%%%", "ca.crt": 7}])
async def test_a_secret_without_use_is_filled_and_keeps_its_type(
    fake: FakeApi, data: object
) -> None:
    metadata = {"name": "gpushare-webhook-tls", "labels": {"team": "a"}}
    fake.put(SECRET, {"metadata": metadata, "type": "Opaque", "data": data})
    async with fake.connected() as api:
        await start(api).ensure()
    secret = fake.objects[SECRET]
    assert (secret["type"], secret["metadata"]["labels"]) == ("Opaque", {"team": "a"})
    assert trusted_ca(fake) == stored(fake, "ca.crt")


async def test_a_lost_secret_gets_back_the_ca_that_is_trusted(fake: FakeApi) -> None:
    async with fake.connected() as api:
        certificate = start(api)
        await certificate.ensure()
        before = fake.objects.pop(SECRET)["data"]
        await certificate.ensure()
    assert fake.objects[SECRET]["data"] == before


async def test_a_certificate_that_grows_old_is_renewed_under_the_same_ca(fake: FakeApi) -> None:
    clock, metrics = Clock(), Metrics()
    async with fake.connected() as api:
        certificate = start(api, clock, metrics)
        await certificate.ensure()
        before, ca = stored(fake, "tls.crt"), trusted_ca(fake)
        clock.now += LIFETIME * 0.8
        await certificate.ensure()
    assert stored(fake, "tls.crt") != before
    assert trusted_ca(fake) == ca
    expiry = metrics.registry.get_sample_value("gpushare_certificate_expiry_timestamp_seconds")
    assert expiry == (clock.now + LIFETIME).timestamp()


async def test_a_renewal_by_another_process_is_taken_over(fake: FakeApi) -> None:
    clock, metrics = Clock(), Metrics()
    async with fake.connected() as api:
        follower = start(api, clock, metrics)
        await follower.ensure()
        clock.now += LIFETIME * 0.8
        await start(api, clock).ensure()
        fake.writes.clear()
        await follower.ensure()
    assert fake.writes == []
    expiry = metrics.registry.get_sample_value("gpushare_certificate_expiry_timestamp_seconds")
    assert expiry == (clock.now + LIFETIME).timestamp()


async def test_a_configuration_that_comes_later_gets_the_ca_then(fake: FakeApi) -> None:
    configuration = fake.objects.pop(CONFIGURATION)
    async with fake.connected() as api:
        certificate = start(api)
        await certificate.ensure()
        assert certificate.find_flaw() == "gpushare-webhook does not trust our CA yet"
        fake.put(CONFIGURATION, configuration)
        await certificate.ensure()
    assert certificate.find_flaw() is None
    assert trusted_ca(fake) == stored(fake, "ca.crt")


async def test_a_ca_bundle_of_somebody_else_is_replaced_and_nothing_beside_it(
    fake: FakeApi,
) -> None:
    webhooks = [
        {"name": "a", "clientConfig": {"caBundle": "eA==", "url": "https://x"}, "newer": 1},
        {"name": "b", "clientConfig": {"service": {"name": "s"}}},
    ]
    fake.put(CONFIGURATION, {"webhooks": webhooks})
    async with fake.connected() as api:
        await start(api).ensure()
    written = fake.objects[CONFIGURATION]["webhooks"]
    bundle = written[0]["clientConfig"]["caBundle"]
    assert written == [
        {"name": "a", "clientConfig": {"caBundle": bundle, "url": "https://x"}, "newer": 1},
        {"name": "b", "clientConfig": {"caBundle": bundle, "service": {"name": "s"}}},
    ]


async def test_an_expired_certificate_is_said(fake: FakeApi) -> None:
    clock = Clock()
    async with fake.connected() as api:
        certificate = start(api, clock)
        await certificate.ensure()
    clock.now += LIFETIME + timedelta(days=1)
    assert "expired" in str(certificate.find_flaw())


async def test_the_key_is_left_in_no_file(
    fake: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    async with fake.connected() as api:
        await start(api).ensure()
    assert os.listdir(tmp_path) == []
