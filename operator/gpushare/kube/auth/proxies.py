"""Finds the proxy for a server in the environment, as kubectl does.

aiohttp's `trust_env`, which `kubernetes` uses, takes no HOST:PORT, knows no CIDRs, uses the proxy
for local addresses too, and takes credentials from ~/.netrc.
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
    proxy, no_proxy = (
        environ.get(name) or environ.get(name.lower()) or "" for name in (variable, "NO_PROXY")
    )
    port = url.port or (443 if url.scheme == "https" else 80)
    if not proxy or _is_excepted(url.hostname or "", port, no_proxy):
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    if not is_supported(proxy):
        # The proxy's URL is not shown: it may hold a password.
        raise CredentialsError(
            f"{variable} must be http://HOST:PORT: other proxies are not supported. NO_PROXY "
            "exempts servers from it"
        )
    return proxy


def is_supported(proxy: str) -> bool:
    """Tell whether the proxy uses plain HTTP. aiohttp's errors for others quote a password."""
    with contextlib.suppress(ValueError):
        url = URL(proxy)
        host = (url.host or "").strip().encode("idna")
        return url.scheme == "http" and bool(host) and ":" not in (url.user or "")
    return False


def _is_excepted(host: str, port: int, no_proxy: str) -> bool:
    """Tell whether NO_PROXY names the host or its domain, with or without port, or its network."""
    entries = [entry.strip().removeprefix("*.") for entry in no_proxy.lower().split(",")]
    if host == "localhost" or "*" in entries:
        return True
    try:
        address = ip_address(host)
    except ValueError:
        names = {entry.removesuffix(f":{port}").removeprefix(".") for entry in entries} - {""}
        return f".{host}".endswith(tuple(f".{name}" for name in names))
    exact = {f"{address}:{port}", f"[{address}]:{port}"}
    return address.is_loopback or any(each in exact or _has(each, address) for each in entries)


def _has(network: str, address: IPv4Address | IPv6Address) -> bool:
    with contextlib.suppress(ValueError):
        return address in ip_network(network, strict=False)
    return False
