"""Decides which requests the page's server answers.

It listens on 127.0.0.1, where every program of the machine can call it, and every web page through
the browser. So each request must be one that a browser makes from the address bar or from the page
itself; who is let in further must know the secret in the path.
"""

from collections.abc import Mapping

HOSTS = ("127.0.0.1", "localhost")
"""Another name may be an attacker's that leads here (DNS rebinding)."""
_USUAL = 80
"""The port that a browser leaves out."""
OWN_SITES = frozenset({"same-origin", "none"})
"""Values of Sec-Fetch-Site for requests of the page itself, and for typed addresses ("Fetch
Metadata Request Headers", W3C)."""
HEADERS: Mapping[str, str] = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "object-src 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Server": "gpushare",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Headers of every response."""


def find_refusal(method: str, headers: Mapping[str, str], port: int) -> tuple[int, str] | None:
    """Find the status and text with which the server at `port` refuses a request with these
    headers; None if it answers."""
    hosts = {f"{host}:{port}" for host in HOSTS} | (set(HOSTS) if port == _USUAL else set())
    if headers.get("Host", "").lower() not in hosts:
        return (421, f"The server answers only under the name 127.0.0.1:{port}")
    if method != "GET":
        return (405, "Only GET is allowed")
    if headers.get("Sec-Fetch-Site", "none") not in OWN_SITES:
        return (403, "asked for by another site")
    origin = headers.get("Origin")
    if origin is not None and origin.lower() not in {f"http://{host}" for host in hosts}:
        return (403, "asked for by another site")
    return None
