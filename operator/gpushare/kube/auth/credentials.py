"""Where the API server is, and by what it knows us."""

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

Header = tuple[str, str]
"""Name and value."""


def _forget_nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a session with the API server needs."""

    host: str
    """A URL."""
    tls: ssl.SSLContext | None
    """None for plain HTTP."""
    authorize: Callable[[], Awaitable[str | None]]
    """The header Authorization, asked for before each request, since tokens are short-lived; None
    where there is none."""
    proxy: str | None = None
    """A URL."""
    forget: Callable[[], None] = _forget_nothing
    """To be called when the API server answers 401: what it does not know is not given again."""
    renews_certificate: bool = False
    """Whether the client certificate in `tls` is replaced now and then; a connection knows only
    the one that it was opened with, so that none may be kept."""
    headers: tuple[Header, ...] = ()
    """Of each request: whom it is made as."""


def build_bearer(token: str) -> str:
    """The header Authorization for a token. Raises ValueError for what can't be one."""
    if not token or not token.isascii() or not token.isprintable():
        # It is not shown: it may be a good part of a secret.
        raise ValueError("a token is one line of ASCII, and this one is not")
    return f"Bearer {token}"
