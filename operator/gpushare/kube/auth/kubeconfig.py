"""Finds a context in kubeconfigs and loads its credentials, by the Python package `kubernetes`.

Used outside of the cluster only: the image does not include that package.

This module reads itself what the package reads otherwise than kubectl. The package takes the last
of several current-contexts instead of the first, rejects an empty file, looks for a user's files
beside those of the cluster, and quotes secrets of an entry that it can't read. It drops `as`, reads
a token file once, only logs that a credential plugin failed, and leaves private keys in temporary
files. To renew a token of OpenID Connect it sends the client's secret to a server that it does not
verify.
"""

import base64
import contextlib
import os
import sys
from collections import ChainMap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from urllib.parse import quote

from yarl import URL

from gpushare.api.suggestion import suggest
from gpushare.kube.auth.credentials import (
    Credentials,
    Header,
    TokenFile,
    build_client_tls,
    describe_field_error,
    is_pod,
    load_pair,
    read_service_account,
)
from gpushare.kube.auth.exec_plugin import CredentialPlugin, Fields, build_cluster_info
from gpushare.kube.auth.kubeconfig_file import read_kubeconfig
from gpushare.kube.auth.proxies import find_proxy, is_supported
from gpushare.kube.errors import CredentialsError

DEFAULT_PATH = Path("~/.kube/config")
VARIABLE = "KUBECONFIG"
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_KINDS = ("context", "cluster", "user")
_CA = frozenset({"certificate-authority", "certificate-authority-data"})
_PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
_HEADER_CHARACTERS = "!#$&'*+-.^_`|~"
"""Characters of a header's name besides letters and digits (RFC 9110), without the percent sign,
which escapes all others."""
_PACKAGES = ("kubernetes", "kubernetes.aio", "kubernetes.aio.client")
_READER = "kubernetes.aio.config.kube_config"


@dataclass(frozen=True, slots=True)
class Context:
    """A context with its cluster and user; their paths start from the working directory."""

    origin: str
    """The kubeconfigs and the context's name, for messages."""
    name: str
    namespace: str
    cluster: Fields
    user: Fields


def find_context(
    kubeconfig: Path | None, asked: str | None, environ: Mapping[str, str] = os.environ
) -> Context | None:
    """Find the context `asked`, or else the current one; None where there is no kubeconfig.

    Reads `kubeconfig`, else the files of KUBECONFIG, else the default file. Raises
    `CredentialsError`: the message says what is missing.
    """
    source, named = ("--kubeconfig", [kubeconfig]) if kubeconfig else ("", [DEFAULT_PATH])
    if not kubeconfig and (value := environ.get(VARIABLE)):
        source, named = VARIABLE, [Path(part) for part in value.split(os.pathsep) if part]
    files = {path: _read_file(path) for path in map(_expand, named) if _exists(path)}
    shown = os.pathsep.join(map(str, files or named)) or "nothing"
    if not files and source:
        raise CredentialsError(f"{source} names {shown}, which does not exist")
    return _find(shown, list(files.values()), asked) if files else None


def find_own_namespace(kubeconfig: Path | None, context: str | None) -> str:
    """Find the namespace that kubectl would use: the context's, else the Pod's, else `default`.

    Raises `CredentialsError`.
    """
    if chosen := find_context(kubeconfig, context):
        return chosen.namespace
    try:
        return (SERVICE_ACCOUNT / "namespace").read_text().strip() or "default"
    except (OSError, UnicodeDecodeError):
        return "default"


async def load_own_credentials(
    kubeconfig: Path | None,
    context: str | None,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> Credentials:
    """Load credentials from where kubectl would: a kubeconfig, else the Pod's ServiceAccount.

    With a kubeconfig that names no proxy, the environment's is used. Raises `CredentialsError`;
    nothing is sent to the API server.
    """
    if chosen := find_context(kubeconfig, context, environ):
        credentials = await load_kubeconfig(chosen)
        proxy = credentials.proxy or find_proxy(credentials.host, environ)
        return replace(credentials, proxy=proxy)
    if context is not None or not is_pod(environ):
        raise CredentialsError(
            f"no kubeconfig found: {DEFAULT_PATH} does not exist, {VARIABLE} is not set, and this "
            "is not a Pod. Set --kubeconfig, or read a snapshot with --snapshot"
        )
    return read_service_account(service_account, environ)


async def load_kubeconfig(context: Context) -> Credentials:
    """Load the credentials of `context`. Runs a credential plugin once; sends nothing to the API
    server.

    Raises `CredentialsError`: the message names the files and the context, and quotes no secret.
    """
    try:
        return await _load(context)
    except (AttributeError, ImportError, KeyError, OSError, TypeError, ValueError) as error:
        raise CredentialsError(f"{context.origin}: {describe_field_error(error)}") from error


def _find(shown: str, files: list[Fields], asked: str | None) -> Context:
    known = {kind: ChainMap(*(file[kind] for file in files)) for kind in _KINDS}
    current = next((str(value) for file in files if (value := file["current-context"])), "")
    name = asked or current
    if name not in known["context"]:
        fault = (
            f"no context {name}{suggest(name, known['context'])}" if name else "no current-context"
        )
        names = ", ".join(sorted(known["context"])) or "none"
        raise CredentialsError(f"{shown} has {fault}. Set --context to one that it has: {names}")
    context = {field: str(value) for field, value in known["context"][name].items()}
    origin = f"{shown}: context {name}"
    for kind in ("cluster", "user"):
        if (named := context.get(kind)) not in known[kind]:
            raise CredentialsError(f"{origin} names the {kind} {named!r}, which is not defined")
    cluster, user = (known[kind][context[kind]] for kind in ("cluster", "user"))
    return Context(origin, name, context.get("namespace", "default"), cluster, user)


def _expand(path: Path) -> Path:
    # Without a home, or with that of an unknown user, the file does not exist.
    with contextlib.suppress(RuntimeError):
        return path.expanduser()
    return path


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:
        raise CredentialsError(f"cannot read {path}: {error}") from error


def _read_file(path: Path) -> Fields:
    """Read the entries of each kind by name, and the current-context."""
    content = read_kubeconfig(path)
    entries = {
        kind: {
            entry["name"]: _resolve(entry.get(kind) or {}, path.parent)
            for entry in content.get(f"{kind}s") or ()
        }
        for kind in _KINDS
    }
    return {"current-context": content.get("current-context"), **entries}


def _resolve(entry: Fields, folder: Path) -> Fields:
    """Resolve paths from the file's folder; a command without a slash stays one in PATH."""
    fields = {field: value for field, value in entry.items() if value}
    fields |= {field: str(folder / fields[field]) for field in _PATHS if field in fields}
    if os.sep in (command := fields.get("exec", {}).get("command") or ""):
        fields["exec"] = {**fields["exec"], "command": str(folder / command)}
    return fields


async def _load(context: Context) -> Credentials:
    cluster = context.cluster
    text = cluster.get("server", "")
    server = URL(text)
    if any(map(str.isspace, text)):
        raise ValueError("server has a space in it")
    if server.scheme not in ("https", "http") or not server.host:
        raise ValueError("server must begin with https://HOST or http://HOST")
    _check_host(server)
    if "insecure-skip-tls-verify" in cluster and _CA.intersection(cluster):
        raise ValueError("insecure-skip-tls-verify can't be set beside a certificate-authority")
    # kubectl too sends no credentials over plain HTTP.
    is_tls = server.scheme == "https"
    user = context.user if is_tls else {}
    read = await _read(cluster, user)
    authorities = _read_pem(cluster, "certificate-authority") if is_tls else None
    tls = build_client_tls(authorities, verify=read.verify_ssl)
    if certificate := _read_pem(user, "client-certificate"):
        load_pair(tls, certificate, _read_pem(user, "client-key") or b"")
    if read.proxy and not is_supported(read.proxy):
        raise ValueError("proxy-url must be http://HOST:PORT")
    header: str | None = read.api_key.get("BearerToken")
    headers = tuple(_list_impersonation(user))
    if not all(value.isprintable() for _, value in (("", header or ""), *headers)):
        raise ValueError("the token or an impersonation field does not fit in a header")

    async def authorize() -> str | None:
        return header

    names = {"server_name": read.tls_server_name, "proxy": read.proxy}
    credentials = Credentials(read.host, tls, authorize, **names, headers=headers)
    if "tokenFile" in user:
        try:
            file = TokenFile(Path(user["tokenFile"]))
        except OSError:
            if not header:
                raise
        else:
            return replace(credentials, authorize=file.authorize, forget=file.forget)
    if "exec" in user and not header:
        spec = user["exec"]
        if missing := [
            f"exec.{field}" for field in ("command", "apiVersion") if not spec.get(field)
        ]:
            raise ValueError(f"{' and '.join(missing)} must be set")
        info = build_cluster_info(cluster, authorities) if spec.get("provideClusterInfo") else {}
        plugin = CredentialPlugin(context.origin, spec, info, tls)
        await plugin.authorize()
        return replace(
            credentials,
            authorize=plugin.authorize,
            forget=plugin.forget,
            renews_certificate=plugin.gives_certificates,
        )
    if is_tls and not header and not certificate:
        raise ValueError("the user has no token, client certificate or credential plugin")
    return credentials


def _check_host(server: URL) -> None:
    """Raise ValueError for a host whose name no resolver takes."""
    try:
        (server.host or "").encode("idna")
    except UnicodeError as error:
        raise ValueError("server has an invalid host name") from error


async def _read(cluster: Fields, user: Fields) -> Any:
    """Have `kubernetes` read a cluster and a user, without files and commands, as its
    Configuration."""
    sent: Fields = {
        field: user[field] for field in ("token", "username", "password") if field in user
    }
    if provider := user.get("auth-provider"):
        if (name := provider["name"]) != "oidc":
            raise ValueError(
                f"auth-provider {name!r} is not supported; use a credential plugin (exec)"
            )
        config = {key: value for key, value in provider["config"].items() if key != "refresh-token"}
        sent["auth-provider"] = {"name": name, "config": config}
    reached = {key: value for key, value in cluster.items() if "certificate-authority" not in key}
    kubeconfig = {
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": reached}],
        "users": [{"name": "it", "user": sent}],
    }
    read = SimpleNamespace(api_key={}, verify_ssl=True, tls_server_name=None, proxy=None)
    reader = import_reader()
    try:
        await reader.load_kube_config_from_dict(kubeconfig, "it", read)
    except reader.ConfigException as error:
        raise ValueError(error) from error
    return read


def _read_pem(entry: Fields, field: str) -> bytes | None:
    """Read a field's PEM data from the entry, or else from the file that the entry names."""
    if data := entry.get(f"{field}-data"):
        try:
            return base64.b64decode(data)
        except (TypeError, ValueError) as error:
            # The error's own text may quote a secret.
            raise ValueError(f"{field}-data is not base64") from error
    return Path(entry[field]).read_bytes() if field in entry else None


def _list_impersonation(user: Fields) -> Iterator[Header]:
    """List the headers for "User impersonation" (Kubernetes documentation)."""
    for field, name in (("as", "Impersonate-User"), ("as-uid", "Impersonate-Uid")):
        if field in user:
            yield name, str(user[field])
    for group in user.get("as-groups", ()):
        yield "Impersonate-Group", str(group)
    for key, values in user.get("as-user-extra", {}).items():
        for value in values:
            yield f"Impersonate-Extra-{quote(key, safe=_HEADER_CHARACTERS)}", str(value)


@cache
def import_reader() -> Any:
    """Import the reader of kubeconfigs in `kubernetes` without its 1,400 other modules, which take
    a third of a second of every command.

    Raises `ModuleNotFoundError` where the package is not installed.
    """
    spec = find_spec("kubernetes")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(
            "the Python package kubernetes is not installed. The image does not include it, since "
            "a Pod uses its ServiceAccount"
        )
    if "kubernetes" not in sys.modules:
        # A release that is laid out otherwise takes longer.
        with contextlib.suppress(Exception):
            return _import_alone(spec.submodule_search_locations[0])
    return import_module(_READER)


def _import_alone(root: str) -> Any:
    try:
        for name in _PACKAGES:
            # Its modules are found, and it imports nothing.
            package = sys.modules[name] = ModuleType(name)
            package.__path__ = [root + name.removeprefix("kubernetes").replace(".", "/")]
            vars(package).update(ApiClient=None, Configuration=None)
        return import_module(_READER)
    finally:
        # Who imports the package after this gets all of it.
        for name in [name for name in sys.modules if name.partition(".")[0] == "kubernetes"]:
            del sys.modules[name]
