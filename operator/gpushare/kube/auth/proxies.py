"""The proxy that the environment names for a server, as kubectl finds it.

By the rules of Go's golang.org/x/net/http/httpproxy. Those of urllib, which aiohttp's `trust_env`
follows, know no CIDRs, send what is local to a proxy too, and take credentials from ~/.netrc.
"""

import re
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from yarl import URL

from gpushare.kube.errors import CredentialsError

Address = IPv4Address | IPv6Address

_PORTS = {"http": 80, "https": 443}
_HOST_AND_PORT = re.compile(r"(?:\[(?P<bracketed>.*)\]|(?P<plain>[^:]*)):(?P<port>[^:]*)")


def find_proxy(server: str, environ: Mapping[str, str]) -> str | None:
    """URL of the proxy for requests to `server`; None where none is named, or NO_PROXY excepts it.

    Raises `CredentialsError` for a proxy that is not supported.
    """
    url = urlsplit(server)
    variable = f"{url.scheme.upper()}_PROXY"
    proxy = _get(environ, variable)
    port = str(url.port or _PORTS[url.scheme])
    if not proxy or _is_excepted(url.hostname or "", port, _get(environ, "NO_PROXY")):
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    if not is_supported(proxy):
        # It may hold a password.
        raise CredentialsError(
            f"{variable} names no http://HOST:PORT, and no other proxies are supported; "
            "NO_PROXY excepts servers from it"
        )
    return proxy


def is_supported(proxy: str) -> bool:
    """Whether it is the URL of a proxy that is spoken to without TLS.

    Only one that aiohttp takes: its own complaint quotes the URL, password and all.
    """
    try:
        parts, url = urlsplit(proxy), URL(proxy)
        (url.host or "").encode("idna")
        return (
            parts.scheme == "http"
            and bool((parts.hostname or "").strip())
            and parts.port != 0
            and ":" not in (url.user or "")
        )
    except ValueError:
        return False


def _get(environ: Mapping[str, str], variable: str) -> str:
    return environ.get(variable) or environ.get(variable.lower()) or ""


def _is_excepted(host: str, port: str, no_proxy: str) -> bool:
    address = _parse_address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    entries = (entry.strip().lower() for entry in no_proxy.split(","))
    return any(_excepts(entry, host, address, port) for entry in entries)


def _excepts(entry: str, host: str, address: Address | None, port: str) -> bool:
    """Whether an entry of NO_PROXY is about `host`, which has that `address` if it is one."""
    if entry == "*":
        return True
    if "/" in entry:
        return address is not None and _contains(entry, address)
    name, of_port = entry, ""
    if (split := _HOST_AND_PORT.fullmatch(entry)) is not None:
        name, of_port = split["bracketed"] or split["plain"] or "", split["port"]
    if not name or of_port not in ("", port):
        return False
    if address is not None:
        return _parse_address(name) == address
    name = name[1:] if name.startswith("*.") else name
    return host.endswith(f".{name.removeprefix('.')}") or host == name


def _contains(network: str, address: Address) -> bool:
    try:
        return address in ip_network(network, strict=False)
    except ValueError:
        return False


def _parse_address(text: str) -> Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None
