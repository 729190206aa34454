"""Holds the address of the API server and the credentials for it."""

import contextlib
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

Header = tuple[str, str]
"""Name and value."""


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
    forget: Callable[[], None] = lambda: None
    """To be called when the API server answers 401: what it does not know is not given again."""
    renew_trust: Callable[[], None] = lambda: None
    """To be called when the API server's certificate is of none of the CAs in `tls`: there may be
    a new one."""
    renews_certificate: bool = False
    """Whether the client certificate in `tls` is replaced now and then; a connection knows only
    the one that it was opened with, so that none may be kept."""
    headers: tuple[Header, ...] = ()
    """Of each request: whom it is made as."""


def build_bearer(token: str) -> str:
    """Build the header Authorization for a token. Raises ValueError for what can't be one."""
    if not token or not token.isascii() or not token.isprintable():
        # It is not shown: it may be a good part of a secret.
        raise ValueError("the token is not one line of ASCII")
    return f"Bearer {token}"


TOKEN_SECONDS = 60.0
"""A token is read again after so long: the kubelet replaces it well before it ends."""


class TokenFile:
    """Reads a token from a file that the kubelet or another writer replaces before it expires.

    Raises OSError or ValueError where there is none at first.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._read_at = clock()
        self._bearer = self._read()

    async def authorize(self) -> str:
        """Return the header Authorization."""
        if self._clock() - self._read_at >= TOKEN_SECONDS:
            self._read_at = self._clock()
            # The older one may still do, and else the API server says so.
            with contextlib.suppress(OSError, ValueError):
                self._bearer = self._read()
        return self._bearer

    def forget(self) -> None:
        """Have the file read at the next call."""
        self._read_at = self._clock() - TOKEN_SECONDS

    def _read(self) -> str:
        token = self._path.read_text().strip()
        if not token:
            raise ValueError(f"{self._path} is empty")
        try:
            return build_bearer(token)
        except ValueError as error:
            raise ValueError(f"{self._path}: {error}") from error
