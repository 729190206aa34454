"""A certificate that somebody else issues, and a Secret that is somebody else's."""

import ssl
from dataclasses import replace
from typing import Any

import pytest

from gpushare.certs.identity import Authority, Identity
from gpushare.certs.issue import LIFETIME
from gpushare.certs.validation import MANAGED_BY
from gpushare.observe.metrics import Metrics
from tests.kit.values.certificates import issue_foreign
from tests.unit.webhook.webhook_certificate import (
    CONFIGURATION,
    HOSTS,
    NOW,
    SECRET,
    Clock,
    Mode,
    TlsApi,
    is_refused,
    put_bundle,
    put_foreign,
    put_secret,
    served,
    shown,
    start,
    trusted_ca,
)

FOREIGN, OTHER = issue_foreign(HOSTS, NOW), issue_foreign(HOSTS, NOW, kind="ec")
DISTRUST = "MutatingWebhookConfiguration gpushare-webhook does not trust the webhook's CA"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"type": "Opaque"}, "its type is Opaque"),
        ({"immutable": True}, "it is immutable"),
        ({"metadata": {"ownerReferences": [{"kind": "App", "name": "x"}]}}, "App x owns it"),
        (
            {"metadata": {"annotations": {"cert-manager.io/certificate-name": "x"}}},
            "cert-manager writes it",
        ),
        ({"metadata": {"labels": {MANAGED_BY: "Helm"}}}, "is Helm"),
    ],
)
async def test_a_secret_of_somebody_else_is_not_overwritten_and_said(
    fake: TlsApi, fields: dict[str, Any], words: str
) -> None:
    put_secret(fake, {"tls.crt": b"", "tls.key": b""}, **fields)
    metrics = Metrics()
    certificate = start(fake.api, metrics=metrics)
    await certificate.ensure()
    problem = str(certificate.find_problem())
    assert words in problem
    assert "webhook.certificate.mode" in problem
    assert is_refused(metrics)
    assert fake.writes == []
    fake.objects.pop(SECRET)
    await certificate.ensure()
    assert certificate.find_problem() is None
    assert not is_refused(metrics)


@pytest.mark.parametrize(
    ("mode", "first", "next_"),
    [("self", None, FOREIGN), ("provided", FOREIGN, replace(FOREIGN, key_pem=OTHER.key_pem))],
)
async def test_while_a_secret_is_refused_what_was_served_goes_on(
    fake: TlsApi, mode: Mode, first: Identity | None, next_: Identity
) -> None:
    metrics = Metrics()
    if first is not None:
        put_foreign(fake, first)
    certificate = start(fake.api, metrics=metrics, mode=mode)
    await certificate.ensure()
    before = await served(certificate.tls)
    put_foreign(fake, next_)
    fake.writes.clear()
    await certificate.ensure()
    assert await served(certificate.tls) == before
    assert certificate.find_problem() is None
    assert is_refused(metrics)
    assert fake.writes == []


async def test_our_own_secret_that_was_made_immutable_is_served_until_expiry(fake: TlsApi) -> None:
    clock = Clock()
    await start(fake.api, clock).ensure()
    fake.put(SECRET, {**fake.objects[SECRET], "immutable": True})
    clock.now += LIFETIME * 0.8
    late, metrics = start(fake.api, clock, metrics := Metrics()), metrics
    await late.ensure()
    assert late.find_problem() is None
    assert is_refused(metrics)


@pytest.mark.parametrize("foreign", [FOREIGN, OTHER], ids=["rsa", "ec"])
async def test_what_cert_manager_wrote_is_served_and_nothing_is_written(
    fake: TlsApi, foreign: Identity
) -> None:
    put_foreign(fake, foreign)
    certificate = start(fake.api, mode="cert-manager")
    await certificate.ensure()
    problem = str(certificate.find_problem())
    assert problem.startswith(DISTRUST)
    assert problem.endswith("kubectl get pods -A -l app.kubernetes.io/name=cainjector")
    put_bundle(fake, foreign.trust_pem)
    await certificate.ensure()
    assert certificate.find_problem() is None
    assert await served(certificate.tls) == shown(foreign)
    assert fake.writes == []


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_new_kind_of_key_leaves_nothing_of_the_old_one_behind(
    fake: TlsApi, version: ssl.TLSVersion
) -> None:
    certificate = start(fake.api, mode="cert-manager")
    for foreign in (FOREIGN, OTHER, FOREIGN):
        put_foreign(fake, foreign)
        await certificate.ensure()
        assert await served(certificate.tls, version) == shown(foreign)


async def test_without_a_provided_ca_the_charts_value_stands_and_is_compared(fake: TlsApi) -> None:
    put_foreign(fake, replace(FOREIGN, authority=Authority(b"", b"")))
    certificate = start(fake.api, mode="provided")
    await certificate.ensure()
    assert certificate.find_problem() is None
    put_bundle(fake, OTHER.trust_pem)
    await certificate.ensure()
    problem = str(certificate.find_problem())
    assert problem.startswith(DISTRUST)
    assert "webhook.caBundle" in problem
    put_bundle(fake, FOREIGN.trust_pem)
    await certificate.ensure()
    assert certificate.find_problem() is None
    assert fake.writes == []


async def test_a_provided_ca_is_written_into_the_configuration_and_none_that_tls_refused(
    fake: TlsApi,
) -> None:
    put_foreign(fake, FOREIGN)
    certificate = start(fake.api, mode="provided")
    await certificate.ensure()
    put_foreign(fake, issue_foreign(HOSTS, NOW, kind="weak"))
    await certificate.ensure()
    assert trusted_ca(fake) == FOREIGN.trust_pem
    assert certificate.find_problem() is None
    assert fake.writes == [f"PATCH {CONFIGURATION}"]


async def test_while_a_secret_is_refused_a_lost_ca_bundle_comes_back(fake: TlsApi) -> None:
    certificate = start(fake.api)
    await certificate.ensure()
    before = trusted_ca(fake)
    put_foreign(fake, FOREIGN)
    put_bundle(fake, b"")
    await certificate.ensure()
    assert trusted_ca(fake) == before
    assert certificate.find_problem() is None


@pytest.mark.parametrize(
    ("mode", "missing", "rejected"),
    [
        (
            "cert-manager",
            "run: kubectl -n gpushare-system describe certificate.cert-manager.io gpushare-webhook",
            "run: kubectl -n gpushare-system delete secret gpushare-webhook-tls",
        ),
        ("provided", "Create it with tls.crt, tls.key and ca.crt", "Replace its tls.crt"),
    ],
)
async def test_a_secret_that_somebody_else_is_to_write_is_awaited_and_the_remedy_is_told(
    fake: TlsApi, mode: Mode, missing: str, rejected: str
) -> None:
    certificate = start(fake.api, mode=mode)
    await certificate.ensure()
    assert missing in str(certificate.find_problem())
    put_foreign(fake, replace(FOREIGN, key_pem=OTHER.key_pem))
    await certificate.ensure()
    assert rejected in str(certificate.find_problem())
    assert fake.writes == []
