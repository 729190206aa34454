"""Credentials of a kubeconfig, credential plugins included, as `kubernetes.aio` reads them."""

from pathlib import Path

from kubernetes.aio import client as kube_client
from kubernetes.aio import config as kube_config

from gpushare.kube.credentials import Credentials
from gpushare.kube.errors import CredentialsError


async def load_kubeconfig(path: Path) -> Credentials:
    """The credentials of the current context; nothing is sent to the API server.

    Raises `CredentialsError` where there are none, and for what is no kubeconfig whatever breaks
    first.
    """
    configuration = kube_client.Configuration()
    await kube_config.load_kube_config(  # type: ignore[no-untyped-call]
        config_file=str(path), client_configuration=configuration, persist_config=False
    )

    async def authorize() -> str | None:
        # The library refreshes short-lived tokens.
        token: str | None = await configuration.get_api_key_with_prefix("BearerToken")
        return token

    if not await authorize() and not configuration.cert_file:
        # A failing credential plugin is only logged by the library; calls would go out anonymous.
        raise CredentialsError(
            f"{path} gives neither a token nor a client certificate; check its user entry, and "
            "that its credential plugin works."
        )
    tls = kube_client.ApiClient(configuration).rest_client.ssl_context
    return Credentials(configuration.host, tls, authorize, configuration.proxy)
