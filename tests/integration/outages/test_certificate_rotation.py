"""Certificates and CAs are replaced while pods are created, and no call of the webhook fails.

Two replicas, reached through one address; failurePolicy Fail, so that a lost call is an error.
"""

import http.client
import ssl
import time
from base64 import b64decode
from collections import deque

import pytest

from tests.integration.webhook.webhook_replicas import two_webhooks
from tests.kit.bench import Bench
from tests.kit.cluster.background_thread import Background
from tests.kit.cluster.dry_run_pods import expect_routed, no_call_lost
from tests.kit.cluster.expect import expect
from tests.kit.cluster.installations import NAME, SECRETS, read_identity
from tests.kit.cluster.pod_admission import CONFIGURATION
from tests.kit.cluster.watch_recording import Recording
from tests.kit.values.manifests import build_gpu_pod, build_review, encode

_TIMEOUT_SECONDS = 3
"""As the API server's own."""


def count_rotations(recording: Recording) -> tuple[int, int]:
    """Of certificates and of CAs: the first that was stored is no rotation."""
    stored = [
        read_identity(secret)
        for secret in list(recording.history)
        if secret["metadata"]["name"] == NAME
    ]
    authorities = {identity.authority.certificate_pem for identity in stored}
    return len({identity.certificate_pem for identity in stored}) - 1, len(authorities) - 1


class NewClients(Background):
    """Asks the webhook about a pod, so many times a second, as long as its block lasts.

    They trust what the configuration says, and every second one what it said `late_seconds` ago:
    not every API server hears of a change at once.
    """

    def __init__(self, bench: Bench, *, per_second: float, late_seconds: float) -> None:
        super().__init__("new clients")
        self._bench, self._pause, self._late = bench, 1 / per_second, late_seconds
        self._bundles: deque[tuple[float, str]] = deque()
        self.asked = 0
        self.failures: list[str] = []

    def _run(self) -> None:
        while not self._leaving.wait(self._pause):
            try:
                self._ask(self._read_bundle(is_late=bool(self.asked % 2)))
            except (OSError, http.client.HTTPException, AssertionError) as error:
                self.failures.append(f"client {self.asked}: {error!r}")
            self.asked += 1

    def _read_bundle(self, *, is_late: bool) -> str:
        now = time.monotonic()
        client = self._bench.call("GET", CONFIGURATION)["webhooks"][0]["clientConfig"]
        self._bundles.append((now, b64decode(client["caBundle"]).decode()))
        while len(self._bundles) > 1 and self._bundles[1][0] <= now - self._late:
            self._bundles.popleft()
        return self._bundles[0 if is_late else -1][1]

    def _ask(self, bundle: str) -> None:
        tls = ssl.create_default_context(cadata=bundle)
        address = ("127.0.0.1", self._bench.cluster.ports.webhook)
        connection = http.client.HTTPSConnection(*address, timeout=_TIMEOUT_SECONDS, context=tls)
        try:
            headers = {"Content-Type": "application/json"}
            body = encode(build_review(build_gpu_pod(), dryRun=True))
            connection.request("POST", "/mutate-pods", body, headers)
            answer = connection.getresponse()
            text = answer.read()
            assert answer.status == 200, f"{answer.status} {text!r}"
        finally:
            connection.close()


PODS_PER_SECOND = 50
NEW_CLIENTS_PER_SECOND = 10
LATE_SECONDS = 1.0
HANDSHAKES = 10
"""At least so many new connections meet each certificate."""


def rotate(
    bench: Bench, *, life_seconds: int, authority_seconds: int, certificates: int, authorities: int
) -> None:
    """Go on until so many were replaced; then not one call may have failed."""
    env = {
        "GPUSHARE_CERTIFICATE_LIFETIME_SECONDS": str(life_seconds),
        "GPUSHARE_AUTHORITY_LIFETIME_SECONDS": str(authority_seconds),
    }
    with two_webhooks(bench, env):
        expect_routed(bench)
        with (
            bench.watching(SECRETS) as recording,
            no_call_lost(bench, per_second=PODS_PER_SECOND),
            NewClients(
                bench, per_second=NEW_CLIENTS_PER_SECOND, late_seconds=LATE_SECONDS
            ) as clients,
        ):

            def is_done() -> bool:
                replaced = count_rotations(recording)
                is_asked = clients.asked >= HANDSHAKES * certificates
                return replaced[0] >= certificates and replaced[1] >= authorities and is_asked

            seconds = (certificates + authorities + 2) * life_seconds
            expect(bench, "certificates and CAs are replaced", is_done, within_seconds=seconds)
        assert clients.failures == []


def test_three_rotations_and_a_new_ca_cost_no_call(strict: Bench) -> None:
    rotate(strict, life_seconds=10, authority_seconds=30, certificates=3, authorities=1)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_twenty_rotations_and_several_cas_cost_no_call(strict: Bench) -> None:
    rotate(strict, life_seconds=15, authority_seconds=90, certificates=20, authorities=2)
