"""Certificates that somebody else issues, on an installation with the rights of that mode."""

from base64 import b64decode, b64encode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from gpushare.certs.identity import Identity
from tests.kit.bench import Bench
from tests.kit.cluster.expect import expect
from tests.kit.cluster.installations import NAME, SECRET, SECRETS, installed_with
from tests.kit.cluster.namespaces import default_namespace
from tests.kit.cluster.pod_admission import CONFIGURATION, expect_sent
from tests.kit.values.certificates import issue_foreign
from tests.kit.values.manifests import build_pod

HOSTS = ("gpushare-webhook.gpushare-system.svc", "127.0.0.1")


@pytest.fixture
def provided(bench: Bench) -> Iterator[Bench]:
    """An installation whose certificate an administrator provides, with one pool."""
    with installed_with(bench, {"webhook.certificate.mode": "provided"}):
        yield bench


def issue(kind: str) -> Identity:
    return issue_foreign(HOSTS, datetime.now(UTC) - timedelta(hours=1), kind=kind, intermediates=1)


def put(bench: Bench, identity: Identity) -> None:
    """Make the Secret hold a chain and its key."""
    pems = {
        "ca.crt": identity.trust_pem,
        "tls.crt": identity.certificate_pem,
        "tls.key": identity.key_pem,
    }
    data = {name: b64encode(pem).decode() for name, pem in pems.items()}
    if bench.cluster.api.exists(SECRET):
        bench.call("PATCH", SECRET, {"data": data})
    else:
        secret = {"metadata": {"name": NAME}, "type": "kubernetes.io/tls", "data": data}
        bench.call("POST", SECRETS, secret)


def read_bundle(bench: Bench) -> bytes:
    client = bench.call("GET", CONFIGURATION)["webhooks"][0]["clientConfig"]
    return b64decode(client.get("caBundle", ""))


def expect_served(bench: Bench, identity: Identity) -> None:
    """Until pods are sent by a webhook with this certificate; its Secret stays as it is."""
    version = bench.call("GET", SECRET)["metadata"]["resourceVersion"]
    expect(bench, "its CA is trusted", lambda: read_bundle(bench) == identity.trust_pem)
    expect_sent(default_namespace(bench), build_pod("p"), "training")
    assert bench.call("GET", SECRET)["metadata"]["resourceVersion"] == version


def test_a_provided_certificate_is_served_and_its_successor_too(provided: Bench) -> None:
    env = {"GPUSHARE_CERTIFICATE_MODE": "provided"}
    webhook = provided.operators.start("webhook", env=env, wait=False)
    expect(provided, "it waits", lambda: "provided is to write it" in webhook.log.read_text())
    first, successor = issue("rsa"), issue("ec")
    put(provided, first)
    expect_served(provided, first)
    put(provided, successor)
    expect_served(provided, successor)
