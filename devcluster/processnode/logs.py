"""Serves the kubelet's API for logs, for `kubectl logs` and Helm's hooks."""

import ssl
from collections.abc import Awaitable, Callable

from aiohttp import web

from devcluster.cluster import Cluster
from devcluster.kubeconfig import read_own_kubeconfig
from devcluster.processnode.host import log_name

PORT = 10250
"""Port of a kubelet whose Node names no other."""


async def serve_logs(cluster: Cluster, socket: str) -> None:
    """Listen at the unix `socket`, for as long as the process lasts.

    The answer is the log of the pod's containers so far, also to a request to follow it.
    """
    # An API server that has no --kubelet-certificate-authority takes any certificate.
    user = read_own_kubeconfig(cluster.kubeconfig)["users"][0]["user"]
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(user["client-certificate"], user["client-key"])
    app = web.Application()
    app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", _build_handler(cluster))
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.UnixSite(runner, socket, ssl_context=tls).start()


def _build_handler(cluster: Cluster) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(request: web.Request) -> web.Response:
        log = cluster.logs / log_name(request.match_info["pod"])
        if not log.is_file():
            return web.Response(status=404, text="no container of this pod has run here\n")
        return web.Response(body=log.read_bytes(), content_type="text/plain")

    return answer
