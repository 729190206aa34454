"""Credentials of a kubeconfig, as kubectl takes them."""

import base64
import binascii
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from gpushare.kube.auth.contexts import find_context
from gpushare.kube.auth.credentials import Credentials, build_basic, build_bearer
from gpushare.kube.auth.exec_plugin import CredentialPlugin, build_cluster_info
from gpushare.kube.auth.kubeconfig_entries import (
    Cluster,
    Entry,
    User,
    list_impersonation,
    parse_cluster,
    parse_user,
)
from gpushare.kube.auth.tls import build_client_tls, load_pair
from gpushare.kube.auth.token_file import TokenFile
from gpushare.kube.errors import CredentialsError


async def load_kubeconfig(paths: Sequence[Path], context: str | None = None) -> Credentials:
    """The credentials of `context`, or else of the current one, in these files.

    A credential plugin is run once; nothing is sent to the API server. Raises `CredentialsError`:
    the message names the file, the entry, and what is wrong with it.
    """
    found = find_context(paths, context)
    cluster, user = parse_cluster(found.cluster), parse_user(found.user)
    proxy, headers = cluster.proxy_url or None, list_impersonation(found.user, user)
    if cluster.is_plain:
        return Credentials(cluster.server, None, _Fixed(None).authorize, proxy, headers=headers)
    authorities = _read_authorities(found.cluster, cluster)
    tls = _build_tls(found.cluster, cluster, authorities)
    if user.has_certificate:
        _load_certificate(tls, found.user, user)
    source = _choose_source(found.user, user, tls, build_cluster_info(cluster, authorities))
    await source.authorize()
    return Credentials(
        cluster.server,
        tls,
        source.authorize,
        proxy,
        source.forget,
        renews_certificate=isinstance(source, CredentialPlugin) and source.gives_certificates,
        headers=headers,
    )


class _Source(Protocol):
    """Where the header Authorization comes from."""

    async def authorize(self) -> str | None: ...

    def forget(self) -> None: ...


class _Fixed:
    """A header that stays as it is."""

    def __init__(self, header: str | None) -> None:
        self._header = header

    async def authorize(self) -> str | None:
        return self._header

    def forget(self) -> None:
        """There is no other."""


def _choose_source(
    entry: Entry, user: User, tls: ssl.SSLContext, cluster: Mapping[str, Any]
) -> _Source:
    try:
        if user.token_file:
            return TokenFile(entry.path.parent / user.token_file)
        if user.token:
            return _Fixed(build_bearer(user.token))
    except (OSError, ValueError) as error:
        raise CredentialsError(f"{entry}: its token is of no use: {error}") from error
    if user.has_password:
        return _Fixed(build_basic(user.username or "", user.password or ""))
    if user.exec is not None:
        told = cluster if user.exec.provide_cluster_info else None
        return CredentialPlugin(entry, user.exec, told, tls)
    if user.has_certificate:
        return _Fixed(None)
    raise CredentialsError(
        f"{entry}: has neither a token nor a client certificate nor a credential plugin"
    )


def _read_authorities(entry: Entry, cluster: Cluster) -> bytes | None:
    return _read_pem(
        entry,
        "certificate-authority",
        cluster.certificate_authority_data,
        cluster.certificate_authority,
    )


def _build_tls(entry: Entry, cluster: Cluster, authorities: bytes | None) -> ssl.SSLContext:
    try:
        return build_client_tls(
            authorities,
            server_name=cluster.tls_server_name or None,
            verify=not cluster.insecure_skip_tls_verify,
        )
    except (OSError, ValueError) as error:
        raise CredentialsError(
            f"{entry}: its certificate-authority is of no use: {error}"
        ) from error


def _load_certificate(tls: ssl.SSLContext, entry: Entry, user: User) -> None:
    certificate = _read_pem(
        entry, "client-certificate", user.client_certificate_data, user.client_certificate
    )
    key = _read_pem(entry, "client-key", user.client_key_data, user.client_key)
    try:
        load_pair(tls, certificate or b"", key or b"")
    except OSError as error:
        raise CredentialsError(
            f"{entry}: its client-certificate, with its client-key, is of no use: {error}"
        ) from error


def _read_pem(entry: Entry, field: str, data: str | None, path: str | None) -> bytes | None:
    """What is in `data`, or else in the file; None where neither is named."""
    try:
        if data:
            return base64.b64decode("".join(data.split()), validate=True)
        return (entry.path.parent / path).read_bytes() if path else None
    except binascii.Error as error:
        raise CredentialsError(f"{entry}: its {field}-data is no base64: {error}") from error
    except OSError as error:
        raise CredentialsError(f"{entry}: its {field} can't be read: {error}") from error
