"""HTTP sessions with the API server, with their credentials."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import aiohttp
from yarl import URL

from gpushare import __version__, names
from gpushare.kube.auth.credentials import Credentials, read_service_account
from gpushare.kube.errors import CredentialsError

REQUEST_TIMEOUT_SECONDS = 30.0
CONNECT_TIMEOUT_SECONDS = 5.0
READ_BUFFER_BYTES = 2**20
"""A watch event is one line, and a busy node's line is long."""


async def load_credentials(
    kubeconfig: Path | None, service_account: Path, environ: Mapping[str, str]
) -> Credentials:
    """Load the credentials of `kubeconfig`, or else those of the Pod's ServiceAccount folder.

    A proxy of the environment is not used. Raises `CredentialsError` where there are none;
    nothing is sent to the API server.
    """
    if kubeconfig is not None:
        # Its imports take memory, and no Pod needs them.
        from gpushare.kube.auth.kubeconfig import find_context, load_kubeconfig

        context = find_context(kubeconfig, None)
        assert context is not None, "a file that is named and missing is an error"
        return await load_kubeconfig(context)
    try:
        return read_service_account(service_account, environ)
    except CredentialsError as error:
        raise CredentialsError(
            f"{error}. Run in a cluster, or set {names.SETTINGS_PREFIX}KUBECONFIG to a kubeconfig"
        ) from error


def open_session(credentials: Credentials) -> aiohttp.ClientSession:
    """Open a session with the API server of `credentials`; relative paths are below its address.

    A function that a request with a body has as `trace_request_ctx` is called right before it is
    sent. An error in it ends the request unsent, and is the cause of the ClientConnectionError
    that the request then raises.
    """

    origin = URL(credentials.host).origin()

    async def authorize(
        request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        # Kopf's calls follow redirects; another server must not get our token.
        if request.url.origin() == origin:
            request.server_hostname = credentials.server_name
            if authorization := await credentials.authorize():
                request.headers["Authorization"] = authorization
        try:
            response = await handler(request)
        except aiohttp.ClientConnectorCertificateError:
            # For the next call.
            credentials.renew_trust()
            raise
        if response.status == 401:
            credentials.forget()
        return response

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
    return aiohttp.ClientSession(
        base_url=credentials.host.rstrip("/") + "/",
        # True is for plain HTTP alone: aiohttp's own context has no CA file (cli/imports.py).
        connector=aiohttp.TCPConnector(
            ssl=credentials.tls or True, limit=0, force_close=credentials.renews_certificate
        ),
        middlewares=(authorize,),
        trace_configs=[tracing],
        timeout=aiohttp.ClientTimeout(
            total=REQUEST_TIMEOUT_SECONDS, connect=CONNECT_TIMEOUT_SECONDS
        ),
        headers=(
            ("User-Agent", f"gpushare-operator/{__version__}"),
            ("Accept", "application/json"),
            *credentials.headers,
        ),
        read_bufsize=READ_BUFFER_BYTES,
        proxy=credentials.proxy,
    )
