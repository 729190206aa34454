"""Finds the proxy for a server in the environment, as kubectl does.

aiohttp's `trust_env`, by which `kubernetes` goes, takes no HOST:PORT, knows no CIDRs, sends what is
local to a proxy too, and takes credentials from ~/.netrc.
"""

import contextlib
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from yarl import URL

from gpushare.kube.errors import CredentialsError


def find_proxy(server: str, environ: Mapping[str, str]) -> str | None:
    """Find the URL of the proxy for `server`; None where none is set, or NO_PROXY exempts it.

    Raises `CredentialsError` for a proxy that is not supported.
    """
    url = urlsplit(server)
    variable = f"{url.scheme.upper()}_PROXY"
    proxy = _get(environ, variable)
    port = url.port or (443 if url.scheme == "https" else 80)
    if not proxy or _is_excepted(url.hostname or "", port, _get(environ, "NO_PROXY")):
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    if not is_supported(proxy):
        # It is not shown: it may hold a password.
        raise CredentialsError(
            f"{variable} must be http://HOST:PORT: other proxies are not supported. NO_PROXY "
            "exempts servers from it"
        )
    return proxy


def is_supported(proxy: str) -> bool:
    """Tell whether the proxy uses plain HTTP. What aiohttp says of others quotes a password."""
    with contextlib.suppress(ValueError):
        url = URL(proxy)
        host = (url.host or "").strip().encode("idna")
        return url.scheme == "http" and bool(host) and ":" not in (url.user or "")
    return False


def _get(environ: Mapping[str, str], variable: str) -> str:
    return environ.get(variable) or environ.get(variable.lower()) or ""


def _is_excepted(host: str, port: int, no_proxy: str) -> bool:
    entries = [entry.strip().removeprefix("*.") for entry in no_proxy.lower().split(",")]
    if host == "localhost" or "*" in entries:
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return any(_names(entry, host, port) for entry in entries)
    return address.is_loopback or any(_has(entry, port, address) for entry in entries)


def _names(entry: str, host: str, port: int) -> bool:
    """Tell whether an entry is that name or a suffix of it, with its port or without."""
    name, _, wanted = entry.removeprefix(".").partition(":")
    return bool(name) and wanted in ("", str(port)) and f".{host}".endswith(f".{name}")


def _has(entry: str, port: int, address: IPv4Address | IPv6Address) -> bool:
    """Tell whether an entry is that address, with its port or without, or a network with it."""
    named = {f"{address}:{port}", f"[{address}]:{port}"}
    with contextlib.suppress(ValueError):
        return entry in named or address in ip_network(entry, strict=False)
    return False
