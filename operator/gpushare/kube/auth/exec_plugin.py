"""Credential plugins: commands that print a token or a client certificate.

As kubectl runs them: "client-go credential plugins" in the Kubernetes documentation.
"""

import asyncio
import base64
import contextlib
import logging
import os
import ssl
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import msgspec
import orjson

from gpushare.kube.auth.credentials import build_bearer
from gpushare.kube.auth.kubeconfig_entries import Cluster, Entry, Plugin
from gpushare.kube.auth.tls import load_pair
from gpushare.kube.errors import CredentialsError

log = logging.getLogger(__name__)

KIND = "ExecCredential"
INFO = "KUBERNETES_EXEC_INFO"
RETRY = timedelta(seconds=5)
"""After a plugin failed, or the API server did not take what it gave: plugins are slow, and some
ask a person."""
_MOST_TOLD = 300
"""Characters of what a plugin says when it fails."""
_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Given:
    """What a plugin gave."""

    token: str = field(repr=False)
    """Empty where it gave a certificate alone."""
    certificate_pem: bytes
    key_pem: bytes = field(repr=False)
    expires: datetime


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class _Answer(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    status: _Status | None = None


class CredentialPlugin:
    """The plugin of a user, asked again when what it gave has run out or is not taken any more.

    Client certificates that it gives are put into `tls`.
    """

    def __init__(
        self,
        entry: Entry,
        plugin: Plugin,
        info: Mapping[str, Any] | None,
        tls: ssl.SSLContext,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._what = f"{entry}: its credential plugin {tidy(plugin.command)}"
        self._plugin = plugin
        self._command = find_command(plugin.command, entry.path)
        self._cluster = info
        self._tls = tls
        self._clock = clock
        self._turn = asyncio.Lock()
        self._given: Given | None = None
        self._asked_at = self._due = clock()

    @property
    def gives_certificates(self) -> bool:
        """Whether it gave one the last time."""
        return self._given is not None and bool(self._given.certificate_pem)

    async def authorize(self) -> str | None:
        """The header Authorization, None where it gave a certificate alone.

        Raises `CredentialsError` where the plugin never gave anything; later what it gave before
        may still do, and else the API server says so.
        """
        async with self._turn:
            if self._given is None or self._clock() >= self._due:
                self._given = await self._renew(self._given)
        return build_bearer(self._given.token) if self._given.token else None

    def forget(self) -> None:
        """Have the plugin asked at the next call, but where it was asked a moment ago."""
        if self._clock() - self._asked_at >= RETRY:
            self._due = self._clock()

    async def _renew(self, held: Given | None) -> Given:
        self._asked_at = self._clock()
        try:
            given = self._parse(await self._run())
        except CredentialsError as error:
            if held is None:
                raise
            log.warning("credentials not renewed: %s", error)
            self._due = self._clock() + RETRY
            return held
        self._due = given.expires
        return given

    def _parse(self, text: bytes) -> Given:
        try:
            given = parse_answer(text, self._plugin.api_version)
            if given.certificate_pem:
                load_pair(self._tls, given.certificate_pem, given.key_pem)
        except (ValueError, OSError) as error:
            raise CredentialsError(f"{self._what} gave nothing of use: {error}") from error
        return given

    async def _run(self) -> bytes:
        """What the plugin prints. Raises `CredentialsError`."""
        has_terminal = sys.stdin is not None and sys.stdin.isatty()
        mode = self._plugin.interactive_mode
        if mode == "Always" and not has_terminal:
            raise CredentialsError(f"{self._what} asks a person, and there is no terminal")
        interactive = has_terminal and mode != "Never"
        info = build_info(self._plugin.api_version, self._cluster, interactive=interactive)
        try:
            process = await asyncio.create_subprocess_exec(
                self._command,
                *(self._plugin.args or ()),
                env={
                    **os.environ,
                    **{variable.name: variable.value for variable in self._plugin.env or ()},
                    INFO: orjson.dumps(info).decode(),
                },
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                # Who is asked must see it.
                stderr=None if interactive else asyncio.subprocess.PIPE,
            )
        except (FileNotFoundError, NotADirectoryError) as error:
            hint = tidy(self._plugin.install_hint or "")
            raise CredentialsError(
                f"{self._what} is not there; install it{f' ({hint})' if hint else ''}"
            ) from error
        except (OSError, ValueError) as error:
            raise CredentialsError(f"{self._what} can't be started: {error}") from error
        try:
            printed, complaint = await process.communicate()
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode:
            said = tidy((complaint or b"").decode(errors="replace"))[-_MOST_TOLD:]
            raise CredentialsError(
                f"{self._what} failed with exit code {process.returncode}"
                f"{f': {said}' if said else ''}"
            )
        return printed


def find_command(command: str, kubeconfig: Path) -> str:
    """Where a plugin is: what has a slash starts from the kubeconfig's folder, all else is looked
    for in PATH."""
    return str(kubeconfig.parent / command) if os.sep in command else command


def build_cluster_info(cluster: Cluster, authorities_pem: bytes | None) -> dict[str, Any]:
    """What a plugin is told about the cluster, where its user says `provideClusterInfo`."""
    pem = base64.b64encode(authorities_pem).decode() if authorities_pem else None
    told = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": pem,
        "proxy-url": cluster.proxy_url,
    }
    given = {key: value for key, value in told.items() if value}
    return {**given, "config": cluster.plugin_config}


def build_info(
    api_version: str, cluster: Mapping[str, Any] | None, *, interactive: bool
) -> dict[str, Any]:
    """What a plugin is told in its environment."""
    spec = {"interactive": interactive} | ({} if cluster is None else {"cluster": cluster})
    return {"apiVersion": api_version, "kind": KIND, "spec": spec}


def parse_answer(text: bytes, api_version: str) -> Given:
    """What a plugin printed. Raises ValueError, whose message quotes nothing of it."""
    try:
        answer = msgspec.json.decode(text, type=_Answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"no {KIND}: {error}") from error
    if (answer.api_version, answer.kind) != (api_version, KIND):
        raise ValueError(f"expected the kind {KIND} of {api_version}")
    status = answer.status or _Status()
    certificate, key = status.client_certificate_data, status.client_key_data
    if bool(certificate) != bool(key):
        raise ValueError("a certificate without its key, or a key without its certificate")
    if not status.token and not certificate:
        raise ValueError("neither a token nor a client certificate")
    if status.token:
        build_bearer(status.token)
    expires = status.expiration_timestamp or _NEVER
    return Given(status.token, certificate.encode(), key.encode(), expires)


def tidy(text: str) -> str:
    """In one line, without what a terminal would take for a command."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
