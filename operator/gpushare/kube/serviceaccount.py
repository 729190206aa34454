"""The credentials that the kubelet gives to a Pod ("Accessing the Kubernetes API from a Pod").

`kubernetes.aio` can read them too, but takes 12 MiB of memory for it.
"""

import contextlib
import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from gpushare.kube.credentials import Credentials

TOKEN_SECONDS = 60.0
"""A token is read again after so long: the kubelet replaces it well before it ends."""


def read_service_account(
    folder: Path, environ: Mapping[str, str], clock: Callable[[], float] = time.monotonic
) -> Credentials:
    """The credentials in `folder`, for the API server that `environ` names.

    Raises OSError, KeyError or ValueError for what is not there, or is of no use.
    """
    address, port = environ["KUBERNETES_SERVICE_HOST"], environ["KUBERNETES_SERVICE_PORT"]
    host = f"[{address}]" if ":" in address else address
    tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    return Credentials(f"https://{host}:{port}", tls, _Token(folder / "token", clock).authorize)


class _Token:
    """A file whose content is replaced now and then."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path = path
        self._clock = clock
        self._read_at = clock()
        self._token = self._read()

    async def authorize(self) -> str:
        """The header Authorization."""
        if self._clock() - self._read_at >= TOKEN_SECONDS:
            self._read_at = self._clock()
            # The older one may still do, and else the API server says so.
            with contextlib.suppress(OSError, ValueError):
                self._token = self._read()
        return f"Bearer {self._token}"

    def _read(self) -> str:
        token = self._path.read_text().strip()
        if not token:
            raise ValueError(f"{self._path} is empty")
        return token
