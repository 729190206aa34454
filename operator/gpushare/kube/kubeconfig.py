"""Credentials of a kubeconfig, credential plugins included, as `kubernetes.aio` reads them."""

import logging
from pathlib import Path

from kubernetes.aio import client as kube_client
from kubernetes.aio import config as kube_config

from gpushare.kube.credentials import Credentials
from gpushare.kube.errors import CredentialsError

_READER = "kubernetes.aio.config.kube_config"
"""Logger of the library: why a credential plugin failed is said there alone."""


class _Complaints(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


async def load_kubeconfig(path: Path | str, context: str | None = None) -> Credentials:
    """The credentials of `context`, or else of the current one; nothing is sent to the API server.

    `path` may name several files, as the variable KUBECONFIG does. Raises `CredentialsError` where
    there are none, and for what is no kubeconfig whatever breaks first.
    """
    configuration = kube_client.Configuration()
    complaints = _Complaints()
    reader = logging.getLogger(_READER)
    reader.addHandler(complaints)
    try:
        await kube_config.load_kube_config(  # type: ignore[no-untyped-call]
            config_file=str(path),
            context=context,
            client_configuration=configuration,
            persist_config=False,
        )
    finally:
        reader.removeHandler(complaints)

    async def authorize() -> str | None:
        # The library refreshes short-lived tokens.
        token: str | None = await configuration.get_api_key_with_prefix("BearerToken")
        return token

    if not await authorize() and not configuration.cert_file:
        # A failing credential plugin is only logged by the library; calls would go out anonymous.
        raise CredentialsError(
            f"{path} gives neither a token nor a client certificate; check its user entry, and "
            f"that its credential plugin works{''.join(f' ({said})' for said in complaints.said)}"
        )
    tls = kube_client.ApiClient(configuration).rest_client.ssl_context
    return Credentials(configuration.host, tls, authorize, configuration.proxy)
