"""What the failures of calls to the API server come down to for a person."""

import os

from aiohttp import (
    ClientConnectorDNSError,
    ClientConnectorError,
    ClientError,
    ClientHttpProxyError,
    ClientProxyConnectionError,
    ClientSSLError,
)

from gpushare.cli.exit_codes import CommandError, Exit
from gpushare.core.analysis.doctor.rights import ON_ACK
from gpushare.kube.errors import (
    ApiError,
    CrdMissingError,
    CredentialsError,
    KubeError,
    OtherVersionError,
    describe_failure,
)

_PROXY = "check HTTPS_PROXY and NO_PROXY, or the kubeconfig's proxy-url"


def find_api_failure(error: Exception) -> CommandError | None:
    """None for what is no failure of a call."""
    match error:
        case CredentialsError():
            return CommandError(Exit.NO_CREDENTIALS, str(error))
        case CrdMissingError() | OtherVersionError():
            return CommandError(Exit.NOT_INSTALLED, str(error))
        case ApiError(status=401):
            return CommandError(
                Exit.NO_CREDENTIALS,
                f"the API server does not know you ({error}); renew your credentials, or name "
                "another context with --context",
            )
        case ApiError(status=403):
            return CommandError(
                Exit.FORBIDDEN,
                f"a right is missing ({error}); ask for it, or for a snapshot by somebody who "
                f"has it; {ON_ACK}",
            )
        case ApiError(retry_after_seconds=float(seconds)) if seconds > 0:
            return CommandError(
                Exit.INCOMPLETE,
                f"the API server has too much to do ({error}); try again in {seconds:g} s",
            )
        case KubeError():
            return CommandError(
                Exit.INCOMPLETE, f"the API server failed on the way, and nothing is shown: {error}"
            )
        case ClientSSLError():
            return CommandError(
                Exit.NO_CLUSTER,
                f"no safe connection to {error.host}:{error.port} ({error}); check the cluster's "
                "certificate-authority in the kubeconfig",
            )
        case ClientProxyConnectionError():
            return CommandError(
                Exit.NO_CLUSTER,
                f"no proxy at {error.host}:{error.port} ({_describe(error.os_error)}); {_PROXY}",
            )
        case ClientHttpProxyError():
            return CommandError(
                Exit.NO_CLUSTER,
                f"the proxy leads to no API server: {describe_failure(error)}; {_PROXY}",
            )
        case ClientConnectorDNSError():
            # Of a proxy aiohttp says the same as of the API server.
            return CommandError(
                Exit.NO_CLUSTER,
                f"the name {error.host} has no address ({_describe(error.os_error)}); {_PROXY} "
                "where it is a proxy's, and else which context you are in",
            )
        case ClientConnectorError():
            return CommandError(
                Exit.NO_CLUSTER,
                f"no API server at {error.host}:{error.port} ({_describe(error.os_error)}); "
                "check that it runs, and which context you are in",
            )
        case TimeoutError():
            return CommandError(
                Exit.NO_CLUSTER, "the API server does not answer in time; try again"
            )
        case ClientError():
            return CommandError(
                Exit.INCOMPLETE,
                "the API server failed on the way, and nothing is shown: "
                f"{describe_failure(error)}",
            )
    return None


def _describe(error: OSError) -> str:
    """What the system calls it; the event loop says it with the address, once more."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error)
