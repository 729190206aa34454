"""Stands in for a webhook that is not well, or for another that sees the same pods."""

import contextlib
import json
import ssl
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from gpushare.certs.identity import Identity
from gpushare.certs.issue import issue_authority, issue_identity
from gpushare.webhook.certificates import load_identity
from tests.kit.bench import Bench
from tests.kit.cluster.expect import expect
from tests.kit.cluster.namespaces import default_namespace
from tests.kit.cluster.pod_admission import CONFIGURATION
from tests.kit.values.manifests import Json, build_pod

ROUTED = {"gpushare.io/pool": "stand-in"}
"""The node selector that it gives every pod."""
_ROUTING = {"op": "add", "path": "/spec/nodeSelector", "value": ROUTED}
_CONFIGURATIONS = CONFIGURATION.rpartition("/")[0]
_ANOTHER = "zz-another"
"""Its name comes after ours, and so does its turn."""


@contextmanager
def serving(bench: Bench, *, delay_seconds: float = 0.0) -> Iterator[None]:
    """Answers so late."""
    identity = _issue(datetime.now(UTC))
    _trust(bench, identity)
    with _listening(bench.cluster.ports.webhook, identity, delay_seconds):
        yield


@contextmanager
def with_a_foreign_certificate(bench: Bench) -> Iterator[None]:
    """Its certificate is of another CA than the API server trusts."""
    now = datetime.now(UTC)
    _trust(bench, _issue(now))
    with _listening(bench.cluster.ports.webhook, _issue(now)):
        yield


@contextmanager
def another_that(bench: Bench, operation: Json) -> Iterator[None]:
    """A webhook of somebody else, with its turn after ours, patches each pod that asks for it by
    the label `another`."""
    identity = _issue(datetime.now(UTC))
    with _listening(0, identity, answer=partial(_patch, operation)) as port:
        bench.call("POST", _CONFIGURATIONS, _build_configuration(port, identity))
        try:
            yield
        finally:
            bench.call("DELETE", f"{_CONFIGURATIONS}/{_ANOTHER}")


@contextmanager
def refusing_evictions(bench: Bench, code: int, *, of: str) -> Iterator[None]:
    """A webhook of somebody else answers evictions of pods whose names begin with `of` by `code`;
    0: by nothing that the API server understands."""
    identity, path = _issue(datetime.now(UTC)), _CONFIGURATIONS.replace("mutating", "validating")
    with _listening(0, identity, answer=partial(_refuse, code) if code else _fail) as port:
        webhook = _build_configuration(port, identity)
        rule = {"apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/eviction"]}
        del webhook["webhooks"][0]["objectSelector"]
        webhook["webhooks"][0] |= {
            "rules": [{"apiGroups": [""], **rule}],
            "matchConditions": [{"name": "of", "expression": f"request.name.startsWith('{of}')"}],
        }
        bench.call("POST", path, webhook)
        try:
            yield
        finally:
            bench.call("DELETE", f"{path}/{_ANOTHER}")


def _build_configuration(port: int, identity: Identity) -> Json:
    webhook: Json = {
        "name": "another.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "objectSelector": {"matchExpressions": [{"key": "another", "operator": "Exists"}]},
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "resources": ["pods"],
                "operations": ["CREATE"],
            }
        ],
        "clientConfig": {
            "url": f"https://127.0.0.1:{port}/",
            "caBundle": b64encode(identity.authority.certificate_pem).decode(),
        },
    }
    return {"metadata": {"name": _ANOTHER}, "webhooks": [webhook]}


def _issue(now: datetime) -> Identity:
    return issue_identity(issue_authority(now), ["127.0.0.1"], now)


def _trust(bench: Bench, identity: Identity) -> None:
    configuration = bench.call("GET", CONFIGURATION)
    bundle = b64encode(identity.authority.certificate_pem).decode()
    for webhook in configuration["webhooks"]:
        webhook["clientConfig"]["caBundle"] = bundle
    bench.call("PUT", CONFIGURATION, configuration)
    # It hears of that a moment later. One that lives for hours answers until then.
    good = issue_identity(identity.authority, ["127.0.0.1"], datetime.now(UTC))
    with _listening(bench.cluster.ports.webhook, good):
        expect(bench, "the API server trusts it", lambda: _is_routed(bench))


def _is_routed(bench: Bench) -> bool:
    sent = default_namespace(bench).send(build_pod("probe"))
    return "nodeSelector" in sent["spec"]


@contextmanager
def _listening(
    port: int,
    identity: Identity,
    delay_seconds: float = 0.0,
    answer: Callable[[Json], Json] | None = None,
) -> Iterator[int]:
    ending, answers = threading.Event(), answer or partial(_patch, _ROUTING)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if ending.wait(delay_seconds):
                return
            body = json.dumps(answers(review)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            # The API server may have given up waiting.
            with contextlib.suppress(OSError):
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with _Server(("127.0.0.1", port), Handler) as server:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        load_identity(tls, identity)
        # Each connection shakes hands in its own thread, where a refusal harms nobody else.
        server.socket = tls.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
        thread = threading.Thread(target=server.serve_forever, name="stand-in", daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            ending.set()
            server.shutdown()
            thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A handshake that the API server broke off, which is what some tests want."""


def _patch(operation: Json, review: Json) -> Json:
    response = {
        "uid": review["request"]["uid"],
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": b64encode(json.dumps([operation]).encode()).decode(),
    }
    return _respond(review, response)


def _refuse(code: int, review: Json) -> Json:
    status = {"code": code, "message": "the workload is being migrated"}
    return _respond(review, {"uid": review["request"]["uid"], "allowed": False, "status": status})


def _fail(review: Json) -> Json:
    return {}


def _respond(review: Json, response: Json) -> Json:
    return {**{key: review[key] for key in ("apiVersion", "kind")}, "response": response}
