"""Runs credential plugins: commands that print a token or a client certificate.

Plugins run as under kubectl ("client-go credential plugins" in the Kubernetes documentation), not
by `kubernetes`, which passes them no cluster information and hides their prompts.
"""

import asyncio
import base64
import contextlib
import math
import os
import ssl
import sys
import time
from datetime import datetime
from typing import Any

import orjson

from gpushare.kube.auth.credentials import build_bearer, describe_field_error, load_pair
from gpushare.kube.errors import CredentialsError

Fields = dict[str, Any]
_CLUSTER_FIELDS = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url")
_EXTENSION = "client.authentication.k8s.io/exec"


class CredentialPlugin:
    """Runs a user's plugin, and again when its credentials have expired or are rejected.

    Client certificates of the plugin are loaded into `tls`. The plugin gets `cluster` unless that
    is empty. `spec` has a `command` and an `apiVersion`.
    """

    gives_certificates = False

    def __init__(self, origin: str, spec: Fields, cluster: Fields, tls: ssl.SSLContext) -> None:
        self._what = f"{origin}: credential plugin {spec['command']}"
        self._spec, self._tls = spec, tls
        self._cluster_info = {"cluster": cluster} if cluster else {}
        self._turn = asyncio.Lock()
        self._bearer: str | None = None
        self._end = 0.0

    async def authorize(self) -> str | None:
        """Return the Authorization header; None where the plugin gave only a certificate.

        Raises `CredentialsError`.
        """
        async with self._turn:
            if time.time() >= self._end:
                try:
                    self._take(orjson.loads(await self._run())["status"])
                except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
                    why = describe_field_error(error)
                    raise CredentialsError(f"{self._what} failed: {why}") from error
        return self._bearer

    def forget(self) -> None:
        """Run the plugin again at the next call."""
        self._end = 0.0

    def _take(self, status: Fields) -> None:
        token, certificate = status.get("token"), status.get("clientCertificateData")
        if not token and not certificate:
            raise ValueError("it returned neither a token nor a client certificate")
        if certificate:
            load_pair(self._tls, certificate.encode(), status["clientKeyData"].encode())
            self.gives_certificates = True
        self._bearer = build_bearer(token) if token else None
        end = status.get("expirationTimestamp")
        self._end = datetime.fromisoformat(end).timestamp() if end else math.inf

    async def _run(self) -> bytes:
        """Run the command and return its output."""
        spec = self._spec
        is_interactive = spec.get("interactiveMode") != "Never" and sys.stdin.isatty()
        info = {
            "apiVersion": spec["apiVersion"],
            "kind": "ExecCredential",
            "spec": {"interactive": is_interactive, **self._cluster_info},
        }
        env = {each["name"]: each.get("value", "") for each in spec.get("env") or ()}
        process = await asyncio.create_subprocess_exec(
            *(spec["command"], *(spec.get("args") or ())),
            env=os.environ | env | {"KUBERNETES_EXEC_INFO": orjson.dumps(info).decode()},
            stdin=None if is_interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            # A prompt must reach the terminal.
            stderr=None if is_interactive else asyncio.subprocess.PIPE,
        )
        try:
            printed, complaint = await process.communicate()
        finally:
            # Where the request ends before the plugin, no other may wait for it.
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
        if process.returncode:
            text = " ".join((complaint or b"").decode(errors="replace").split())
            raise ValueError(f"exit code {process.returncode}: {text}")
        return printed


def build_cluster_info(cluster: Fields, authorities: bytes | None) -> Fields:
    """Build the cluster information that a plugin gets if its user sets `provideClusterInfo`."""
    info = {field: cluster[field] for field in _CLUSTER_FIELDS if field in cluster}
    if authorities:
        info["certificate-authority-data"] = base64.b64encode(authorities).decode()
    extensions = {each["name"]: each["extension"] for each in cluster.get("extensions", ())}
    return {**info, "config": extensions.get(_EXTENSION)}
