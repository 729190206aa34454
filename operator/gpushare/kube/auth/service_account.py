"""The credentials that the kubelet gives to a Pod ("Accessing the Kubernetes API from a Pod")."""

import contextlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from gpushare.kube.auth.credentials import Credentials, TokenFile
from gpushare.kube.auth.tls import build_client_tls
from gpushare.kube.errors import CredentialsError

_HOST, _PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


def is_pod(environ: Mapping[str, str]) -> bool:
    """Tell whether the kubelet says where the API server is."""
    return bool(environ.get(_HOST) and environ.get(_PORT))


def read_service_account(
    folder: Path, environ: Mapping[str, str], clock: Callable[[], float] = time.monotonic
) -> Credentials:
    """Read the credentials in `folder`, for the API server that `environ` names.

    Raises `CredentialsError` where something is not there, or is of no use.
    """
    start = f"cannot use the ServiceAccount in {folder}"
    if not is_pod(environ):
        raise CredentialsError(f"{start}: this is not a Pod ({_HOST} or {_PORT} is not set)")
    address, port = environ[_HOST], environ[_PORT]
    host = f"[{address}]" if ":" in address else address
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

    return Credentials(
        f"https://{host}:{port}",
        tls,
        token.authorize,
        forget=token.forget,
        renew_trust=renew_trust,
    )
