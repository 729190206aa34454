"""Loads the credentials of the user who runs a command: a kubeconfig's, or the Pod's."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gpushare.kube.auth.contexts import DEFAULT_PATH, VARIABLE, find_context
from gpushare.kube.auth.credentials import Credentials
from gpushare.kube.auth.kubeconfig import load_kubeconfig
from gpushare.kube.auth.proxies import find_proxy
from gpushare.kube.auth.service_account import is_pod, read_service_account
from gpushare.kube.errors import CredentialsError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def find_own_namespace(kubeconfig: Path | None, context: str | None) -> str:
    """Find the namespace that kubectl would use: the context's, else the Pod's, else `default`.

    Raises `CredentialsError`.
    """
    if found := find_context(kubeconfig, context):
        return found.namespace
    try:
        return (SERVICE_ACCOUNT / "namespace").read_text().strip() or "default"
    except (OSError, UnicodeDecodeError):
        return "default"


async def load_own_credentials(
    kubeconfig: Path | None,
    context: str | None,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> Credentials:
    """Load credentials as kubectl finds them: the file asked for, else those of KUBECONFIG, the
    default one, the Pod's ServiceAccount. Outside of a Pod with the proxy that the environment
    names, unless the kubeconfig names one.

    Raises `CredentialsError`; nothing is sent to the API server.
    """
    if found := find_context(kubeconfig, context, environ):
        credentials = await load_kubeconfig(found)
        proxy = credentials.proxy or find_proxy(credentials.host, environ)
        return replace(credentials, proxy=proxy)
    if context is not None or not is_pod(environ):
        raise CredentialsError(
            f"no kubeconfig found: {DEFAULT_PATH} does not exist, {VARIABLE} is not set, and this "
            "is not a Pod. Set --kubeconfig, or read a snapshot with --snapshot"
        )
    return read_service_account(service_account, environ)
