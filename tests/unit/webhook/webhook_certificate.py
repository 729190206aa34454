"""The webhook's certificate in a test: its Secret and its configuration, and what a client sees."""

import asyncio
import base64
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from gpushare.certs.identity import Identity
from gpushare.certs.validation import TLS
from gpushare.kube.client import ApiClient
from gpushare.observe.metrics import Metrics
from gpushare.settings import Settings
from gpushare.webhook.certificates import Certificate
from tests.kit.values.fake_api import FakeApi

SECRET = "api/v1/namespaces/gpushare-system/secrets/gpushare-webhook-tls"
CONFIGURATION = (
    "apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/gpushare-webhook"
)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOSTS = ("gpushare-webhook.gpushare-system.svc",)

Mode = Literal["self", "cert-manager", "provided"]


class TlsApi(FakeApi):
    """An API server that a test is connected with by `api`."""

    api: ApiClient


def build_fake_api(*empty: str) -> TlsApi:
    """An API server that knows our configuration, with one webhook and no caBundle; of what is at
    the paths `empty` there is nothing."""
    fake = TlsApi(*empty)
    webhooks = [{"name": "pods.gpushare.io", "clientConfig": {"url": "https://x"}}]
    fake.put(CONFIGURATION, {"metadata": {"name": "gpushare-webhook"}, "webhooks": webhooks})
    return fake


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


def start(
    api: ApiClient,
    clock: Clock | None = None,
    metrics: Metrics | None = None,
    mode: Mode = "self",
) -> Certificate:
    settings = Settings(certificate_mode=mode)
    return Certificate(api, settings, metrics or Metrics(), clock or Clock())


def put_secret(fake: FakeApi, data: Mapping[str, bytes], **fields: Any) -> None:
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    secret = {"metadata": {"name": "gpushare-webhook-tls"}, "type": TLS, "data": encoded}
    fake.put(SECRET, {**secret, **fields})


def put_foreign(fake: FakeApi, identity: Identity) -> None:
    """A Secret as cert-manager or an administrator makes it."""
    data = {
        "ca.crt": identity.trust_pem,
        "tls.crt": identity.certificate_pem,
        "tls.key": identity.key_pem,
    }
    put_secret(fake, data)


def put_bundle(fake: FakeApi, pem: bytes) -> None:
    bundle = base64.b64encode(pem).decode()
    client = {"url": "https://x", "caBundle": bundle}
    fake.put(CONFIGURATION, {"webhooks": [{"name": "a", "clientConfig": client}]})


def is_refused(metrics: Metrics) -> bool:
    return metrics.registry.get_sample_value("gpushare_certificate_refused") == 1


def shown(identity: Identity) -> bytes:
    return ssl.PEM_cert_to_DER_cert(identity.certificate_pem.decode())


def trusted_ca(fake: FakeApi) -> bytes:
    bundle = fake.objects[CONFIGURATION]["webhooks"][0]["clientConfig"].get("caBundle", "")
    return base64.b64decode(bundle)


def stored(fake: FakeApi, key: str) -> bytes:
    return base64.b64decode(fake.objects[SECRET]["data"][key])


async def served(tls: ssl.SSLContext, version: ssl.TLSVersion | None = None) -> bytes:
    """The certificate that a client of a server with this context is shown."""
    async with await asyncio.start_server(_hang_up, "127.0.0.1", 0, ssl=tls) as server:
        port = server.sockets[0].getsockname()[1]
        anyone = ssl.create_default_context()
        anyone.check_hostname, anyone.verify_mode = False, ssl.CERT_NONE
        if version is not None:
            anyone.minimum_version = anyone.maximum_version = version
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=anyone)
        certificate: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        await writer.wait_closed()
        return certificate


def _hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()
