"""Credentials, and HTTP sessions that carry them.

`kubernetes.aio` reads kubeconfigs, ServiceAccounts and credential plugins, and keeps short-lived
tokens fresh; requests go through aiohttp directly.
"""

from pathlib import Path
from types import SimpleNamespace

import aiohttp
from kubernetes.aio import client as kube_client
from kubernetes.aio import config as kube_config

from gpushare import __version__, names
from gpushare.kube.errors import CredentialsError

REQUEST_TIMEOUT_SECONDS = 30.0
CONNECT_TIMEOUT_SECONDS = 5.0
READ_BUFFER_BYTES = 2**20
"""A watch event is one line, and a busy node's line is long."""


async def load_credentials(kubeconfig: Path | None) -> kube_client.Configuration:
    """The credentials of `kubeconfig`, or of the Pod's ServiceAccount.

    Raises `CredentialsError` where there are none; nothing is sent to the API server.
    """
    configuration = kube_client.Configuration()
    source = str(kubeconfig or "the Pod's ServiceAccount")
    try:
        if kubeconfig is not None:
            await kube_config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=str(kubeconfig),
                client_configuration=configuration,
                persist_config=False,
            )
        else:
            kube_config.load_incluster_config(  # type: ignore[no-untyped-call]
                client_configuration=configuration
            )
    except Exception as error:
        # The library answers what is no kubeconfig with whatever breaks first.
        raise CredentialsError(
            f"no credentials from {source}: {type(error).__name__}: {error}. Run inside a cluster, "
            f"or set {names.SETTINGS_PREFIX}KUBECONFIG to a kubeconfig file."
        ) from error
    token = await configuration.get_api_key_with_prefix("BearerToken")
    if not token and not configuration.cert_file:
        # A failing credential plugin is only logged by the library; calls would go out anonymous.
        raise CredentialsError(
            f"{source} gives neither a token nor a client certificate; check its user entry, and "
            "that its credential plugin works."
        )
    return configuration


def open_session(configuration: kube_client.Configuration) -> aiohttp.ClientSession:
    """A session to the API server of `configuration`; relative paths are below its address.

    A function that a request with a body brings along as `trace_request_ctx` is called right
    before it is sent. What it raises ends the request unsent, and is the cause of the
    ClientConnectionError that the request then raises.
    """

    async def authorize(
        request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        # Asked for each request, so that the library's refresh of short-lived tokens runs.
        if token := await configuration.get_api_key_with_prefix("BearerToken"):
            request.headers["Authorization"] = token
        return await handler(request)

    async def look_again(
        session: aiohttp.ClientSession,
        context: SimpleNamespace,
        params: aiohttp.TraceRequestChunkSentParams,
    ) -> None:
        # Called when the connection is there, in one go with the writing to its socket; the
        # headers are kept back until then.
        if context.trace_request_ctx is not None:
            context.trace_request_ctx()

    tracing = aiohttp.TraceConfig()
    tracing.on_request_chunk_sent.append(look_again)
    tls = kube_client.ApiClient(configuration).rest_client.ssl_context
    return aiohttp.ClientSession(
        base_url=configuration.host.rstrip("/") + "/",
        connector=aiohttp.TCPConnector(ssl=tls, limit=0),
        middlewares=(authorize,),
        trace_configs=[tracing],
        timeout=aiohttp.ClientTimeout(
            total=REQUEST_TIMEOUT_SECONDS, connect=CONNECT_TIMEOUT_SECONDS
        ),
        headers={"User-Agent": f"gpushare-operator/{__version__}", "Accept": "application/json"},
        read_bufsize=READ_BUFFER_BYTES,
        proxy=configuration.proxy,
    )
