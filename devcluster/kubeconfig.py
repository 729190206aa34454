"""Checks that a kubeconfig is for a devcluster, and writes credentials of a ServiceAccount."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from devcluster.errors import ForeignContextError

CONTEXT_PREFIX = "kwok-devcluster-"
_LOCAL = ("https://127.0.0.1:", "http://127.0.0.1:")


def expect_own_context(kubeconfig: dict[str, Any], *, where: Path) -> None:
    """Raise :class:`ForeignContextError` unless everything in ``kubeconfig`` is a devcluster's."""
    contexts = [context["name"] for context in kubeconfig.get("contexts") or []]
    servers = [cluster["cluster"]["server"] for cluster in kubeconfig.get("clusters") or []]
    current = kubeconfig.get("current-context", "")
    for context in [current, *contexts]:
        if not context.startswith(CONTEXT_PREFIX):
            raise ForeignContextError(
                f"{where}: context {context!r} is not a devcluster's (they start with "
                f"{CONTEXT_PREFIX!r}). Nothing was sent; start a cluster with `make cluster`."
            )
    for server in servers:
        if not server.startswith(_LOCAL):
            raise ForeignContextError(
                f"{where}: server {server} is not on this machine. Nothing was sent; "
                "start a cluster with `make cluster`."
            )


def read_own_kubeconfig(path: Path) -> dict[str, Any]:
    """Read the kubeconfig at ``path`` after :func:`expect_own_context`."""
    kubeconfig: dict[str, Any] = yaml.safe_load(path.read_text()) or {}
    expect_own_context(kubeconfig, where=path)
    return kubeconfig


def write_service_account(admin: dict[str, Any], folder: Path, *, token: str) -> dict[str, str]:
    """Write the files that the kubelet mounts into a Pod; return the Pod's variables."""
    cluster = admin["clusters"][0]["cluster"]
    server = urlsplit(cluster["server"])
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "token").write_text(token)
    (folder / "ca.crt").write_bytes(Path(cluster["certificate-authority"]).read_bytes())
    return {
        "KUBERNETES_SERVICE_HOST": str(server.hostname),
        "KUBERNETES_SERVICE_PORT": str(server.port),
        "GPUSHARE_SERVICE_ACCOUNT": str(folder),
    }


def build_token_kubeconfig(
    admin: dict[str, Any], *, token: str, namespace: str, server: str
) -> dict[str, Any]:
    """Build a kubeconfig for ``admin``'s cluster at ``server`` with a bearer ``token``."""
    name = admin["current-context"]
    cluster = {**admin["clusters"][0]["cluster"], "server": server}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "contexts": [
            {"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}
        ],
        "users": [{"name": name, "user": {"token": token}}],
    }
