"""Turns failures of calls to the API server into messages for a user."""

import os

from aiohttp import (
    ClientConnectorDNSError,
    ClientConnectorError,
    ClientError,
    ClientHttpProxyError,
    ClientProxyConnectionError,
    ClientSSLError,
)

from gpushare.analysis.doctor.rights import ON_ACK
from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.kube.errors import (
    ApiError,
    CrdMissingError,
    CredentialsError,
    KubeError,
    OtherVersionError,
    describe_failure,
)

_PROXY = "Check HTTPS_PROXY and NO_PROXY, or the kubeconfig's proxy-url"


def find_api_failure(error: Exception) -> CommandError | None:
    """Find the message of a failed call; None for any other error."""
    told = _tell(error)
    return told and CommandError(*told)


def _tell(error: Exception) -> tuple[Exit, str] | None:
    match error:
        case CredentialsError():
            return Exit.NO_CREDENTIALS, str(error)
        case CrdMissingError() | OtherVersionError():
            return Exit.NOT_INSTALLED, str(error)
        case ApiError(status=401):
            return Exit.NO_CREDENTIALS, (
                f"the API server rejects your credentials ({error}). Renew them, or choose another "
                "context with --context"
            )
        case ApiError(status=403) if not error.is_of_webhook:
            return Exit.FORBIDDEN, (
                f"a right is missing ({error}). Ask for it, or for a snapshot from a user who has "
                f"it. {ON_ACK}"
            )
        case ApiError(retry_after_seconds=float(seconds)) if seconds > 0:
            busy = f"the API server is overloaded ({error}). Try again in {seconds:g} s"
            return Exit.INCOMPLETE, busy
        case ApiError() if not error.is_overload:
            return Exit.FAILURE, f"the API server refuses the call ({error})"
        case ClientSSLError():
            return Exit.NO_CLUSTER, (
                f"no secure connection to {error.host}:{error.port} ({error}). Check the cluster's "
                "certificate-authority in the kubeconfig"
            )
        case ClientProxyConnectionError():
            why = _describe(error.os_error)
            return Exit.NO_CLUSTER, f"no proxy at {error.host}:{error.port} ({why}). {_PROXY}"
        case ClientHttpProxyError():
            why = describe_failure(error)
            return Exit.NO_CLUSTER, f"the proxy does not reach the API server: {why}. {_PROXY}"
        case ClientConnectorDNSError():
            # Of a proxy aiohttp says the same as of the API server.
            return Exit.NO_CLUSTER, (
                f"the name {error.host} has no address ({_describe(error.os_error)}). Check the "
                f"current context. If it is the name of a proxy: {_PROXY}"
            )
        case ClientConnectorError():
            return Exit.NO_CLUSTER, (
                f"no API server at {error.host}:{error.port} ({_describe(error.os_error)}). "
                "Check that it runs, and the current context"
            )
        case TimeoutError():
            return Exit.NO_CLUSTER, "the API server does not answer in time. Try again"
        case KubeError() | ClientError():
            why = describe_failure(error)
            return Exit.INCOMPLETE, f"the API server failed, so nothing is shown: {why}"
    return None


def _describe(error: OSError) -> str:
    """Return the system's text for an error; the event loop's would repeat the address."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error)
