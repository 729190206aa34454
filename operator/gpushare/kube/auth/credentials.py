"""Holds the address of the API server and the credentials for it, and reads a Pod's: see "Accessing
the Kubernetes API from a Pod" in the Kubernetes documentation."""

import contextlib
import ssl
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpushare.kube.errors import CredentialsError

Header = tuple[str, str]
"""Name and value of an HTTP header."""
TOKEN_SECONDS = 60.0
"""Time until a token is read again: the kubelet replaces it well before it expires."""
_HOST, _PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


@dataclass(frozen=True, slots=True)
class Credentials:
    """Address of the API server, and the credentials of a session with it."""

    host: str
    """URL of the API server."""
    tls: ssl.SSLContext | None
    """TLS context of connections; None where no connection needs one, as in tests."""
    authorize: Callable[[], Awaitable[str | None]]
    """Returns the Authorization header of the next request; None where there is none."""
    forget: Callable[[], None] = lambda: None
    """Drops a token that the API server answered with 401, so that it is not sent again."""
    renew_trust: Callable[[], None] = lambda: None
    """Reads the CAs again; called where none in `tls` vouches for the API server."""
    renews_certificate: bool = False
    """Whether the client certificate in `tls` changes: a connection goes on with its first one."""
    server_name: str | None = None
    """Name in the API server's certificate, where it differs from that of `host`."""
    proxy: str | None = None
    """URL of the proxy; None for direct connections."""
    headers: tuple[Header, ...] = ()
    """Headers of each request, for impersonation."""


def describe_field_error(error: Exception) -> str:
    """Describe why a field of a kubeconfig, or of a plugin's output, can't be read."""
    match error:
        case KeyError():
            return f"field {error} is missing"
        case AttributeError() | TypeError():
            return f"a field has the wrong type ({error})"
        case _:
            return str(error)


def build_bearer(token: str, source: object = "the token") -> str:
    """Build the Authorization header for a token. Raises ValueError for an invalid token."""
    if not token or not token.isascii() or not token.isprintable():
        # It is not shown: it may be a good part of a secret.
        raise ValueError(f"{source} is empty, or not one line of ASCII")
    return f"Bearer {token}"


class TokenFile:
    """Reads a token from a file that the kubelet or another writer replaces before it expires.

    Raises OSError or ValueError where the file holds no token at first.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path, self._clock = path, clock
        self._read()

    async def authorize(self) -> str:
        """Return the Authorization header."""
        if self._clock() >= self._next:
            # The older token may still be valid; if not, the API server answers 401.
            with contextlib.suppress(OSError, ValueError):
                self._read()
        return self._bearer

    def forget(self) -> None:
        """Read the file again at the next call."""
        self._next = self._clock()

    def _read(self) -> None:
        self._next = self._clock() + TOKEN_SECONDS
        self._bearer = build_bearer(self._path.read_text().strip(), self._path)


def is_pod(environ: Mapping[str, str]) -> bool:
    """Tell whether the kubelet's variables with the API server's address are set."""
    return bool(environ.get(_HOST) and environ.get(_PORT))


def read_service_account(
    folder: Path, environ: Mapping[str, str], clock: Callable[[], float] = time.monotonic
) -> Credentials:
    """Read the credentials that the kubelet put into `folder`, for the API server that `environ`
    names.

    Raises `CredentialsError` where a part is missing or unusable.
    """
    start = f"cannot use the ServiceAccount in {folder}"
    if not is_pod(environ):
        raise CredentialsError(f"{start}: this is not a Pod ({_HOST} or {_PORT} is not set)")
    host = f"[{environ[_HOST]}]" if ":" in environ[_HOST] else environ[_HOST]
    try:
        tls = build_client_tls((folder / "ca.crt").read_bytes())
        token = TokenFile(folder / "token", clock)
    except (OSError, ValueError) as error:
        raise CredentialsError(f"{start}: {error}") from error

    def renew_trust() -> None:
        # In place: connections are opened by this context. What it trusts stays trusted until the
        # process ends.
        with contextlib.suppress(OSError, ValueError):
            tls.load_verify_locations(cadata=(folder / "ca.crt").read_text("ascii"))

    url = f"https://{host}:{environ[_PORT]}"
    return Credentials(url, tls, token.authorize, token.forget, renew_trust)


def build_client_tls(
    authorities_pem: bytes | None = None, *, verify: bool = True
) -> ssl.SSLContext:
    """Build a TLS context that trusts `authorities_pem`, or without it this machine's CAs.

    Raises ValueError where these are no certificates.
    """
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not verify:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    elif authorities_pem is None:
        tls.load_default_certs()
    else:
        try:
            tls.load_verify_locations(cadata=authorities_pem.decode("ascii"))
        except (ValueError, ssl.SSLError) as error:
            raise ValueError(f"the certificate authority is no PEM certificate: {error}") from error
        # As kubectl does: what is named is trusted, even where it is no root.
        tls.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return tls


def load_pair(tls: ssl.SSLContext, certificate_pem: bytes, key_pem: bytes) -> None:
    """Load a certificate and its key into a TLS context. Raises ValueError for unusable ones."""
    # OpenSSL's loader takes files only; this one is readable by this user, and gone at the end.
    with tempfile.NamedTemporaryFile(prefix="gpushare-") as file:
        file.write(certificate_pem + b"\n" + key_pem)
        file.flush()
        # Without a password OpenSSL would ask for one on the terminal.
        try:
            tls.load_cert_chain(file.name, password="")
        except ssl.SSLError as error:
            raise ValueError(
                f"the client certificate and its key are no PEM pair without a password: {error}"
            ) from error
