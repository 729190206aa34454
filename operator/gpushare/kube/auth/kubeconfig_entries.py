"""What a kubeconfig says of a cluster, of a user, and of a user's credential plugin.

As kubectl takes it: "kubeconfig (v1)" in the reference of the Kubernetes documentation.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Struct, field

from gpushare.kube.auth.credentials import Header
from gpushare.kube.auth.proxies import is_supported
from gpushare.kube.errors import CredentialsError

_PLUGIN_VERSIONS = ("v1", "v1beta1")
_PLUGIN_GROUP = "client.authentication.k8s.io"
_EXTENSION = f"{_PLUGIN_GROUP}/exec"
"""Among a cluster's extensions the one for credential plugins."""
_TOKEN_CHARACTERS = "!#$&'*+-.^_`|~"
"""That a header's name may have besides letters and digits (RFC 9110), but for the percent sign,
which escapes all others."""

Part = TypeVar("Part", bound=Struct)


@dataclass(frozen=True, slots=True)
class Entry:
    """One of a kubeconfig's entries, not looked into yet."""

    path: Path
    """The file that it is in: relative paths in it start from there."""
    kind: str
    """`context`, `cluster` or `user`."""
    name: str
    values: Any

    def __str__(self) -> str:
        return f"{self.path}: {self.kind} {self.name}"


class Names(Struct, frozen=True):
    """What a context puts together."""

    cluster: str = ""
    user: str = ""
    namespace: str | None = None


class Extension(Struct, frozen=True):
    """What a program that is not kubectl keeps with a cluster."""

    name: str = ""
    extension: Any = None


class Cluster(Struct, frozen=True, rename="kebab"):
    """Where an API server is, and who vouches for it."""

    server: str
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool | None = None
    tls_server_name: str | None = None
    proxy_url: str | None = None
    extensions: tuple[Extension, ...] | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it is reached without TLS. No credentials are sent there."""
        return urlsplit(self.server).scheme == "http"

    @property
    def plugin_config(self) -> Any:
        """What is meant for credential plugins."""
        found = (each.extension for each in self.extensions or () if each.name == _EXTENSION)
        return next(found, None)


class Variable(Struct, frozen=True):
    """Of a plugin's environment."""

    name: str
    value: str = ""


class Plugin(Struct, frozen=True, rename="camel"):
    """A command that prints credentials."""

    command: str
    api_version: str
    args: tuple[str, ...] | None = None
    env: tuple[Variable, ...] | None = None
    install_hint: str | None = None
    provide_cluster_info: bool | None = None
    interactive_mode: str | None = None


class AuthProvider(Struct, frozen=True):
    """What came before credential plugins."""

    name: str = ""


class User(Struct, frozen=True, rename="kebab"):
    """By what the API server knows somebody."""

    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    token: str | None = None
    token_file: str | None = field(default=None, name="tokenFile")
    username: str | None = None
    password: str | None = None
    impersonated: str | None = field(default=None, name="as")
    as_uid: str | None = None
    as_groups: tuple[str, ...] | None = None
    as_user_extra: dict[str, tuple[str, ...]] | None = None
    auth_provider: AuthProvider | None = None
    exec: Plugin | None = None

    @property
    def has_certificate(self) -> bool:
        return bool(self.client_certificate or self.client_certificate_data)

    @property
    def has_token(self) -> bool:
        return bool(self.token or self.token_file)

    @property
    def has_password(self) -> bool:
        return bool(self.username or self.password)


def parse_names(entry: Entry) -> Names:
    """A context. Raises `CredentialsError` for what is none."""
    if not entry.values:
        raise CredentialsError(f"{entry} is empty")
    return _parse(entry, Names)


def parse_cluster(entry: Entry) -> Cluster:
    """A cluster. Raises `CredentialsError` for what is none, or says two things at once."""
    cluster = _parse(entry, Cluster)
    if not _is_url(cluster.server):
        raise CredentialsError(
            f"{entry}: its server is {cluster.server!r}, expected a URL such as https://HOST:6443"
        )
    authorities = cluster.certificate_authority or cluster.certificate_authority_data
    if cluster.insecure_skip_tls_verify and authorities:
        raise CredentialsError(
            f"{entry}: insecure-skip-tls-verify goes with no certificate-authority; leave one of "
            "them out"
        )
    if cluster.proxy_url and not is_supported(cluster.proxy_url):
        # It may hold a password.
        raise CredentialsError(
            f"{entry}: its proxy-url is no http://HOST:PORT, and no other proxies are supported"
        )
    return cluster


def parse_user(entry: Entry) -> User:
    """A user. Raises `CredentialsError` for what is none, or says two things at once."""
    user = _parse(entry, User)
    if user.auth_provider is not None:
        raise CredentialsError(
            f"{entry}: the auth-provider {user.auth_provider.name!r} is not supported; use a "
            "credential plugin (exec) in its place"
        )
    if user.has_token and user.has_password:
        raise CredentialsError(f"{entry}: has a token and a password; leave one of them out")
    if user.has_certificate and not (user.client_key or user.client_key_data):
        raise CredentialsError(f"{entry}: has a client-certificate without its client-key")
    if not user.impersonated and (user.as_uid or user.as_groups or user.as_user_extra):
        raise CredentialsError(f"{entry}: has as-uid, as-groups or as-user-extra without as")
    if user.exec is not None:
        _check_plugin(entry, user.exec)
    return user


def list_impersonation(entry: Entry, user: User) -> tuple[Header, ...]:
    """Headers of "User impersonation" in the Kubernetes documentation: requests are made as
    somebody else. Raises `CredentialsError` for a name that no header can hold."""
    extra = (user.as_user_extra or {}).items()
    headers = (
        ("Impersonate-User", user.impersonated),
        ("Impersonate-Uid", user.as_uid),
        *(("Impersonate-Group", group) for group in user.as_groups or ()),
        *((_name_extra(key), value) for key, values in extra for value in values),
    )
    given = tuple((name, value) for name, value in headers if value)
    if unfit := next((value for _, value in given if not value.isprintable()), None):
        raise CredentialsError(f"{entry}: is to act as {unfit!r}, which is no name")
    return given


def _name_extra(key: str) -> str:
    return f"Impersonate-Extra-{quote(key, safe=_TOKEN_CHARACTERS)}"


def _parse(entry: Entry, kind: type[Part]) -> Part:
    try:
        return msgspec.convert(entry.values, kind)
    except msgspec.ValidationError as error:
        raise CredentialsError(f"{entry}: {error}") from error


def _check_plugin(entry: Entry, plugin: Plugin) -> None:
    group, _, version = plugin.api_version.partition("/")
    if group != _PLUGIN_GROUP or version not in _PLUGIN_VERSIONS:
        expected = " or ".join(f"{_PLUGIN_GROUP}/{each}" for each in _PLUGIN_VERSIONS)
        raise CredentialsError(
            f"{entry}: its credential plugin speaks {plugin.api_version!r}, expected {expected}"
        )
    if not plugin.command or any(not variable.name for variable in plugin.env or ()):
        raise CredentialsError(
            f"{entry}: its credential plugin has no command, or a variable without a name"
        )
    mode = plugin.interactive_mode or ("IfAvailable" if version == "v1beta1" else None)
    if mode not in ("Never", "IfAvailable", "Always"):
        raise CredentialsError(
            f"{entry}: its credential plugin's interactiveMode is {mode!r}, expected Never, "
            "IfAvailable or Always"
        )


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
