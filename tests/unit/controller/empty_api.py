"""An API server of a cluster where nothing is, and nothing happens but to the CRD."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from aiohttp import web
from aiohttp.test_utils import TestServer

from gpushare.kube.resources.admission_tables import PATH as TABLE_PATH
from tests.kit.cluster.kubeconfigs import write_kubeconfig
from tests.kit.values.certificates import build_tls
from tests.kit.values.manifests import Json

GROUP, VERSION, POOLS = "gpushare.io", "v1alpha1", "gpusharepools"
LEASES = "apis/coordination.k8s.io/v1/namespaces/here/leases"
LISTED = {"verbs": ["list", "watch"], "namespaced": False, "singularName": ""}
BOOKMARK = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1"}}}\n'
DISCOVERY: dict[str, Json] = {
    "api": {"versions": ["v1"]},
    "api/v1": {"resources": [{"name": "namespaces", "kind": "Namespace", **LISTED}]},
    "apis": {
        "groups": [
            {
                "name": GROUP,
                "versions": [{"version": VERSION}],
                "preferredVersion": {"version": VERSION},
            }
        ]
    },
    f"apis/{GROUP}/{VERSION}": {"resources": [{"name": POOLS, "kind": "GPUSharePool", **LISTED}]},
}


class EmptyCluster:
    """It says which of its parts have been asked for."""

    def __init__(self) -> None:
        self.has_crd = True
        self.refused: str | None = None
        """The path of a list and a watch that there is no right to."""
        self.is_led = asyncio.Event()
        """Somebody has taken the Lease."""
        self.is_watched = asyncio.Event()
        self.is_discovered = asyncio.Event()
        """Kopf asks which groups there are: it has begun."""
        self.lease: Json | None = None
        self.is_vacated = asyncio.Event()
        """Somebody asks to let go of the Lease."""
        self.is_waited_for = asyncio.Event()
        """Somebody who has let go of it asks whether the CRD is back."""
        self.may_vacate = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        path = request.match_info["path"]
        if path in DISCOVERY:
            if path == "api":
                self.is_discovered.set()
            return web.json_response(DISCOVERY[path])
        if path.startswith(LEASES):
            return await self._answer_lease(request)
        if path == self.refused:
            return web.json_response({}, status=403)
        if path.endswith(POOLS) and not self.has_crd and self.may_vacate.is_set():
            self.is_waited_for.set()
        if path == TABLE_PATH or (path.endswith(POOLS) and not self.has_crd):
            return web.json_response({}, status=404)
        if "watch" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})
        if path.endswith(POOLS):
            self.is_watched.set()
            await asyncio.sleep(0.1)
            return web.Response()
        return await self._send_bookmarks(request)

    async def _send_bookmarks(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        with contextlib.suppress(ConnectionError):
            while request.match_info["path"] != self.refused:
                await answer.write(BOOKMARK)
                await asyncio.sleep(0.1)
        return answer

    async def _answer_lease(self, request: web.Request) -> web.Response:
        if request.method == "GET":
            return web.json_response(self.lease or {}, status=200 if self.lease else 404)
        lease: Json = await request.json()
        if not lease["spec"]["holderIdentity"]:
            self.is_vacated.set()
            await self.may_vacate.wait()
        else:
            self.is_led.set()
        self.lease = lease
        return web.json_response(lease)


@contextlib.asynccontextmanager
async def served(cluster: EmptyCluster, kubeconfig: Path) -> AsyncIterator[None]:
    """It answers, at the address in `kubeconfig`, which is written for it."""
    async with TestServer(_build_app(cluster)) as server:
        at = {"server": str(server.make_url(""))}
        write_kubeconfig(kubeconfig, {"token": "t"}, cluster=at)
        yield


@contextlib.asynccontextmanager
async def served_to_pods(cluster: EmptyCluster, folder: Path) -> AsyncIterator[dict[str, str]]:
    """It answers to the ServiceAccount in `folder`, which is written for it, in a Pod with these
    variables."""
    tls, _, authority = build_tls()
    (folder / "ca.crt").write_bytes(authority.certificate_pem)
    (folder / "token").write_text("t")
    server = TestServer(_build_app(cluster), scheme="https")
    await server.start_server(ssl=tls)
    yield {
        "GPUSHARE_SERVICE_ACCOUNT": str(folder),
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": str(server.port),
    }
    await server.close()


def _build_app(cluster: EmptyCluster) -> web.Application:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", cluster.answer)
    return app
