"""Clients that have no connection yet: each call of the webhook is a TLS handshake of its own.

The API server keeps its connections for long, and would see few of the certificates.
"""

import http.client
import ssl
import time
from base64 import b64decode
from collections import deque

from tests.kit.bench import Bench
from tests.kit.cluster.background_thread import Background
from tests.kit.cluster.pod_admission import CONFIGURATION
from tests.kit.values.admission_reviews import build_gpu_pod, build_review, encode

_TIMEOUT_SECONDS = 3
"""As the API server's own."""


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
