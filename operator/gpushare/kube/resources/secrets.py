"""Reads, creates and replaces Secrets."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpushare.kube.client import ApiClient, Json


@dataclass(frozen=True, slots=True)
class Secret:
    """A Secret as it was read; a replacement is sent for this resourceVersion only."""

    data: dict[str, bytes] = field(repr=False)
    raw: Json = field(repr=False)


async def read_secret(api: ApiClient, namespace: str, name: str) -> Secret | None:
    """Read a Secret; None where it does not exist. A value that is not base64 reads as empty."""
    raw = await api.find(_path(namespace, name))
    if raw is None:
        return None
    return Secret(
        {key: decode_base64(value) for key, value in (raw.get("data") or {}).items()}, raw
    )


async def create_secret(
    api: ApiClient,
    namespace: str,
    name: str,
    data: Mapping[str, bytes],
    *,
    kind: str,
    labels: Mapping[str, str],
) -> None:
    """Create a Secret of type `kind`. Raises `ApiError`: a 409 where another process was first."""
    await api.create(
        _path(namespace),
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
            "type": kind,
            "data": _encode(data),
        },
    )


async def replace_secret(
    api: ApiClient, namespace: str, name: str, secret: Secret, data: Mapping[str, bytes]
) -> None:
    """Replace the data of `secret`. Raises `ApiError`: a 409 where the Secret has changed."""
    await api.replace(_path(namespace, name), {**secret.raw, "data": _encode(data)})


def _path(namespace: str, name: str = "") -> str:
    return f"api/v1/namespaces/{namespace}/secrets" + (f"/{name}" if name else "")


def _encode(data: Mapping[str, bytes]) -> dict[str, str]:
    return {key: base64.b64encode(value).decode() for key, value in data.items()}


def decode_base64(value: Any) -> bytes:
    """Decode base64; empty where the value is unset or invalid."""
    try:
        return base64.b64decode(value or b"", validate=True)
    except (binascii.Error, TypeError, ValueError):
        return b""
