"""A token in a file, which somebody replaces before it ends: the kubelet, or who wrote the file."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from gpushare.kube.auth.credentials import build_bearer

TOKEN_SECONDS = 60.0
"""A token is read again after so long: the kubelet replaces it well before it ends."""


class TokenFile:
    """The token in the file `path`.

    Raises OSError or ValueError where there is none at first.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._read_at = clock()
        self._bearer = self._read()

    async def authorize(self) -> str:
        """The header Authorization."""
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
