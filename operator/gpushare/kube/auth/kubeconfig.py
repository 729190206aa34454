"""Loads the credentials of a kubeconfig by `kubernetes`. Outside of the cluster only: the
image has none.

What it reads otherwise than kubectl is read here. It drops `as`, reads a token file once, only logs
that a credential plugin failed, and leaves private keys in temporary files. To renew a token of
OpenID Connect it sends the client's secret to a server that it does not verify.
"""

import base64
import ssl
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from yarl import URL

from gpushare.kube.auth.contexts import Context, Fields
from gpushare.kube.auth.credentials import Credentials, Header, TokenFile
from gpushare.kube.auth.exec_plugin import CredentialPlugin, build_cluster_info
from gpushare.kube.auth.kubernetes_import import import_kube_config
from gpushare.kube.auth.proxies import is_supported
from gpushare.kube.auth.tls import build_client_tls
from gpushare.kube.errors import CredentialsError

_HEADER_CHARACTERS = "!#$&'*+-.^_`|~"
"""That a header's name may have besides letters and digits (RFC 9110), but for the percent sign,
which escapes all others."""


async def load_kubeconfig(context: Context) -> Credentials:
    """Load the credentials of `context`. A credential plugin is run once; nothing is sent to the
    API server.

    Raises `CredentialsError`: the message names the files and the context, and quotes no secret.
    """
    try:
        return await _load(context)
    except ModuleNotFoundError as error:
        raise CredentialsError(
            f"{context.origin}: the Python package kubernetes is not installed. The "
            "image does not include it, since a Pod uses its ServiceAccount"
        ) from error
    except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
        raise CredentialsError(f"{context.origin}: {error}") from error


async def _load(context: Context) -> Credentials:
    cluster = context.cluster
    server = URL(str(cluster.get("server", "")))
    if server.scheme not in ("https", "http") or not server.host:
        raise ValueError("server must begin with https://HOST or http://HOST")
    # As kubectl: over plain HTTP nothing of a user is sent.
    is_tls = server.scheme == "https"
    user = context.user if is_tls else {}
    with tempfile.TemporaryDirectory(prefix="gpushare-") as folder:
        read = await _read(_unfold(cluster, folder), _unfold(_select(user), folder))
        authorities, tls = _build_tls(read)
    if read.proxy and not is_supported(read.proxy):
        raise ValueError("proxy-url must be http://HOST:PORT")
    header: str | None = read.api_key.get("BearerToken")
    headers = tuple(_list_impersonation(user))
    if not all(value.isprintable() for _, value in (("", header or ""), *headers)):
        raise ValueError("the token or an impersonation field does not fit in a header")

    async def authorize() -> str | None:
        return header

    found = Credentials(read.host, tls, authorize, read.proxy, headers=headers)
    if "tokenFile" in user:
        file = TokenFile(Path(user["tokenFile"]))
        return replace(found, authorize=file.authorize, forget=file.forget)
    if "exec" in user and not header:
        spec = user["exec"]
        told = build_cluster_info(cluster, authorities) if spec.get("provideClusterInfo") else {}
        plugin = CredentialPlugin(context.origin, spec, told, tls)
        await plugin.authorize()
        return replace(
            found,
            authorize=plugin.authorize,
            forget=plugin.forget,
            renews_certificate=plugin.gives_certificates,
        )
    if is_tls and not header and not read.cert_file:
        raise ValueError("the user has no token, client certificate or credential plugin")
    return found


async def _read(cluster: Fields, user: Fields) -> Any:
    """Return the Configuration that `kubernetes` makes of them."""
    reader = import_kube_config()
    kubeconfig = {
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": cluster}],
        "users": [{"name": "it", "user": user}],
    }
    configuration = reader.Configuration()
    try:
        await reader.load_kube_config_from_dict(kubeconfig, client_configuration=configuration)
    except reader.ConfigException as error:
        raise ValueError(error) from error
    return configuration


def _build_tls(read: Any) -> tuple[bytes | None, ssl.SSLContext]:
    """Return the CAs, and an SSL context with them."""
    authorities = Path(read.ssl_ca_cert).read_bytes() if read.ssl_ca_cert else None
    tls = build_client_tls(authorities, server_name=read.tls_server_name, verify=read.verify_ssl)
    if read.cert_file:
        # Without a password OpenSSL would ask for one on the terminal.
        tls.load_cert_chain(read.cert_file, read.key_file, password="")
    return authorities, tls


def _select(user: Fields) -> Fields:
    """Select the fields that `kubernetes` is to read; of OpenID Connect, the current token."""
    read = {field: value for field, value in user.items() if field not in ("exec", "tokenFile")}
    if provider := read.pop("auth-provider", None):
        if provider["name"] != "oidc":
            raise ValueError(
                f"auth-provider {provider['name']!r} is not supported; use a credential plugin "
                "(exec)"
            )
        config = {key: value for key, value in provider["config"].items() if key != "refresh-token"}
        read["auth-provider"] = {"name": "oidc", "config": config}
    return read


def _unfold(entry: Fields, folder: str) -> Fields:
    """Replace an entry's data by files with it."""
    unfolded = dict(entry)
    for field in ("certificate-authority", "client-certificate", "client-key"):
        if data := unfolded.pop(f"{field}-data", None):
            path = Path(folder, field)
            path.write_bytes(base64.b64decode(data))
            unfolded[field] = str(path)
    return unfolded


def _list_impersonation(user: Fields) -> Iterator[Header]:
    """List the headers of "User impersonation" in the Kubernetes documentation."""
    for field, name in (("as", "Impersonate-User"), ("as-uid", "Impersonate-Uid")):
        if field in user:
            yield name, str(user[field])
    for group in user.get("as-groups", ()):
        yield "Impersonate-Group", str(group)
    for key, values in user.get("as-user-extra", {}).items():
        for value in values:
            yield f"Impersonate-Extra-{quote(key, safe=_HEADER_CHARACTERS)}", str(value)
