"""The certificate in its Secret, in the webhook configuration, and in the process."""

import asyncio
import base64
import os
from datetime import timedelta
from pathlib import Path

import pytest

from gpushare.certs.issue import LIFETIME
from gpushare.certs.validation import LABELS, TLS
from gpushare.kube.errors import ApiError
from gpushare.kube.resources.webhook_configurations import apply_ca_bundle, read_configuration
from gpushare.observe.metrics import Metrics
from tests.unit.webhook.webhook_certificate import (
    CONFIGURATION,
    SECRET,
    Clock,
    TlsApi,
    served,
    start,
    stored,
    trusted_ca,
)

MISSING = "MutatingWebhookConfiguration gpushare-webhook is not installed"


async def test_the_first_check_makes_the_secret_and_has_its_ca_trusted(fake: TlsApi) -> None:
    certificate = start(fake.api)
    assert certificate.find_problem() == "no certificate yet"
    await certificate.ensure()
    assert certificate.find_problem() is None
    assert fake.objects[SECRET]["type"] == "kubernetes.io/tls"
    assert fake.objects[SECRET]["metadata"]["labels"] == LABELS
    assert trusted_ca(fake) == stored(fake, "ca.crt")


async def test_a_bundle_written_meanwhile_is_not_put_back(fake: TlsApi) -> None:
    newer = base64.b64encode(b"newer").decode()
    raw = await read_configuration(fake.api, "gpushare-webhook")
    assert raw is not None
    webhooks = [{"name": "a", "clientConfig": {"url": "https://x", "caBundle": newer}}]
    fake.put(CONFIGURATION, {"webhooks": webhooks})
    with pytest.raises(ApiError) as refusal:
        await apply_ca_bundle(fake.api, "gpushare-webhook", raw, b"older")
    assert refusal.value.is_conflict
    assert trusted_ca(fake) == b"newer"


async def test_two_that_renew_at_once_end_with_one_certificate(fake: TlsApi) -> None:
    clock = Clock()
    first, second = start(fake.api, clock), start(fake.api, clock)
    await asyncio.gather(first.ensure(), second.ensure())
    fake.conflicts.clear()
    clock.now += LIFETIME * 0.8
    await asyncio.gather(first.ensure(), second.ensure())
    assert await served(first.tls) == await served(second.tls)
    assert f"PUT {SECRET}" in fake.conflicts


@pytest.mark.parametrize("data", [None, {}, {"tls.crt": "%%%", "ca.crt": 7}])
async def test_a_secret_without_use_is_filled_and_keeps_its_metadata(
    fake: TlsApi, data: object
) -> None:
    metadata = {"name": "gpushare-webhook-tls", "labels": {"team": "a"}}
    fake.put(SECRET, {"metadata": metadata, "type": TLS, "data": data})
    await start(fake.api).ensure()
    assert fake.objects[SECRET]["metadata"]["labels"] == {"team": "a"}
    assert trusted_ca(fake) == stored(fake, "ca.crt")


async def test_a_renewal_by_another_process_is_taken_over(fake: TlsApi) -> None:
    clock, metrics = Clock(), Metrics()
    follower = start(fake.api, clock, metrics)
    await follower.ensure()
    clock.now += LIFETIME * 0.8
    await start(fake.api, clock).ensure()
    fake.writes.clear()
    await follower.ensure()
    assert fake.writes == []
    expiry = metrics.registry.get_sample_value("gpushare_certificate_expiry_timestamp_seconds")
    assert expiry == (clock.now + LIFETIME).timestamp()


async def test_a_configuration_that_comes_later_gets_the_ca_then(fake: TlsApi) -> None:
    configuration = fake.objects.pop(CONFIGURATION)
    certificate = start(fake.api)
    await certificate.ensure()
    assert certificate.find_problem() == MISSING
    fake.put(CONFIGURATION, configuration)
    await certificate.ensure()
    assert certificate.find_problem() is None
    assert trusted_ca(fake) == stored(fake, "ca.crt")


async def test_a_ca_bundle_of_somebody_else_is_replaced_and_nothing_else(fake: TlsApi) -> None:
    webhooks = [
        {"name": "a", "clientConfig": {"caBundle": "eA==", "url": "https://x"}, "newer": 1},
        {"name": "b", "clientConfig": {"service": {"name": "s"}}},
    ]
    fake.put(CONFIGURATION, {"webhooks": webhooks})
    await start(fake.api).ensure()
    written = fake.objects[CONFIGURATION]["webhooks"]
    bundle = written[0]["clientConfig"]["caBundle"]
    assert written == [
        {"name": "a", "clientConfig": {"caBundle": bundle, "url": "https://x"}, "newer": 1},
        {"name": "b", "clientConfig": {"caBundle": bundle, "service": {"name": "s"}}},
    ]


async def test_an_expired_certificate_is_said(fake: TlsApi) -> None:
    clock = Clock()
    certificate = start(fake.api, clock)
    await certificate.ensure()
    clock.now += LIFETIME + timedelta(days=1)
    assert "expired" in str(certificate.find_problem())


async def test_the_key_is_left_in_no_file(
    fake: TlsApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    await start(fake.api).ensure()
    assert os.listdir(tmp_path) == []
