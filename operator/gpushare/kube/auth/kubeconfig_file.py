"""Reads one kubeconfig file and checks the types of its fields, as kubectl does.

See "kubeconfig (v1)" in the Kubernetes reference. Fields that no client of ours uses are left out.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Required

import yaml
from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from gpushare.api.documents import parse_settings
from gpushare.kube.errors import CredentialsError

Text = str | None


class _Context(TypedDict, total=False):
    cluster: Text
    user: Text
    namespace: Text


_Cluster = TypedDict(
    "_Cluster",
    {
        "server": Text,
        "tls-server-name": Text,
        "insecure-skip-tls-verify": bool | None,
        "certificate-authority": Text,
        "certificate-authority-data": Text,
        "proxy-url": Text,
        "extensions": list[dict[str, Any]] | None,
    },
    total=False,
)


class _Plugin(TypedDict, total=False):
    apiVersion: Text
    command: Text
    args: list[str] | None
    env: list[dict[str, str]] | None
    installHint: Text
    interactiveMode: Text
    provideClusterInfo: bool | None


_User = TypedDict(
    "_User",
    {
        "client-certificate": Text,
        "client-certificate-data": Text,
        "client-key": Text,
        "client-key-data": Text,
        "token": Text,
        "tokenFile": Text,
        "as": Text,
        "as-uid": Text,
        "as-groups": list[str] | None,
        "as-user-extra": dict[str, list[str]] | None,
        "username": Text,
        "password": Text,
        "auth-provider": dict[str, Any] | None,
        "exec": _Plugin | None,
    },
    total=False,
)


class _NamedContext(TypedDict, total=False):
    name: Required[str]
    context: _Context | None


class _NamedCluster(TypedDict, total=False):
    name: Required[str]
    cluster: _Cluster | None


class _NamedUser(TypedDict, total=False):
    name: Required[str]
    user: _User | None


_File = TypedDict(
    "_File",
    {
        "current-context": Text,
        "contexts": list[_NamedContext] | None,
        "clusters": list[_NamedCluster] | None,
        "users": list[_NamedUser] | None,
    },
    total=False,
)


@cache
def _get_adapter() -> TypeAdapter[Any]:
    return TypeAdapter(_File)


def read_kubeconfig(path: Path) -> Mapping[str, Any]:
    """Read the file's fields.

    Raises `CredentialsError`: the message names the file and the field, and quotes no value.
    """
    try:
        text = path.read_text() if path.is_file() else _read_once(path)
        content = parse_settings(text)
    except (OSError, UnicodeDecodeError) as error:
        raise CredentialsError(f"cannot read {path}: {error}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise CredentialsError(f"{path} is not a kubeconfig: its YAML is invalid") from error
    try:
        fields: Mapping[str, Any] = _get_adapter().validate_python(content or {}, strict=True)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise CredentialsError(f"{path} is not a kubeconfig: {field}: {first['msg']}") from error
    return fields


@cache
def _read_once(path: Path) -> str:
    """Read a pipe, such as that of a shell's process substitution, which has its text only once."""
    return path.read_text()
