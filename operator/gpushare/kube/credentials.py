"""Where the API server is, and by what it knows us."""

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


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
