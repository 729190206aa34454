"""The controller as a process, when its CRD is removed under it."""

import asyncio
import contextlib
import gc
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from gpushare.controller.handlers import build_settings
from gpushare.controller.role import run_controller
from gpushare.observe.metrics import Metrics
from gpushare.settings import Settings

Json = dict[str, Any]

GROUP, VERSION, POOLS = "gpushare.io", "v1alpha1", "gpusharepools"
LEASES = "apis/coordination.k8s.io/v1/namespaces/here/leases"
LISTED = {"verbs": ["list", "watch"], "namespaced": False, "singularName": ""}
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
    f"apis/{GROUP}/{VERSION}": {
        "resources": [{"name": POOLS, "kind": "GPUSharePool", **LISTED}],
    },
}


class Cluster:
    """An API server of a cluster where nothing is, and nothing happens but to the CRD."""

    def __init__(self) -> None:
        self.has_crd = True
        self.is_watched = asyncio.Event()
        self.lease: Json | None = None
        self.is_vacated = asyncio.Event()
        """Somebody asks to let go of the Lease."""
        self.is_waited_for = asyncio.Event()
        """Somebody who has let go of it asks whether the CRD is back."""
        self.may_vacate = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        path = request.match_info["path"]
        if path in DISCOVERY:
            return web.json_response(DISCOVERY[path])
        if path.startswith(LEASES):
            return await self._answer_lease(request)
        if path.endswith(POOLS) and not self.has_crd and self.may_vacate.is_set():
            self.is_waited_for.set()
        if path.endswith(POOLS) and not self.has_crd:
            return web.json_response({}, status=404)
        if "watch" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})
        if path.endswith(POOLS):
            self.is_watched.set()
        await asyncio.sleep(0.1)
        return web.Response()

    async def _answer_lease(self, request: web.Request) -> web.Response:
        if request.method == "GET":
            return web.json_response(self.lease or {}, status=200 if self.lease else 404)
        lease: Json = await request.json()
        if not lease["spec"]["holderIdentity"]:
            self.is_vacated.set()
            await self.may_vacate.wait()
        self.lease = lease
        return web.json_response(lease)


@contextlib.asynccontextmanager
async def running(cluster: Cluster, folder: Path) -> AsyncIterator[asyncio.Task[None]]:
    """A controller that follows the pools of the cluster."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", cluster.answer)
    async with TestServer(app) as server:
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(
            yaml.safe_dump(
                {
                    "current-context": "c",
                    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                    "clusters": [{"name": "c", "cluster": {"server": str(server.make_url(""))}}],
                    "users": [{"name": "u", "user": {"token": "t"}}],
                }
            )
        )
        settings = Settings(
            kubeconfig=kubeconfig,
            namespace="here",
            identity="this",
            metrics_host="127.0.0.1",
            metrics_port=0,
        )
        controller = asyncio.create_task(run_controller(settings))
        await cluster.is_watched.wait()
        yield controller


async def test_told_to_stop_while_it_takes_in_that_its_crd_is_gone_it_ends(tmp_path: Path) -> None:
    # Both come at once with `helm uninstall` and crds.keep=false.
    cluster = Cluster()
    async with running(cluster, tmp_path) as controller:
        cluster.has_crd = False
        await cluster.is_vacated.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        cluster.may_vacate.set()
        await controller
    assert cluster.lease is not None
    assert cluster.lease["spec"]["holderIdentity"] == ""


async def test_while_it_waits_for_its_crd_it_tells_of_no_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Else each would be told to be silent, by an alert of its own.
    metrics = Metrics()
    monkeypatch.setattr("gpushare.controller.role.Metrics", lambda **options: metrics)
    cluster = Cluster()
    async with running(cluster, tmp_path) as controller:
        assert list_watches(metrics)
        cluster.has_crd = False
        await cluster.is_vacated.wait()
        cluster.may_vacate.set()
        async with asyncio.timeout(10):
            await cluster.is_waited_for.wait()
        assert list_watches(metrics) == []
        os.kill(os.getpid(), signal.SIGTERM)
        await controller


async def test_one_that_stands_by_waits_for_its_crd_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # It has nothing to let go of, so nothing holds up what follows when Kopf ends.
    cluster = Cluster()
    cluster.lease = {"spec": {"holderIdentity": "another", "renewTime": "once"}}
    cluster.may_vacate.set()
    async with running(cluster, tmp_path) as controller:
        cluster.has_crd = False
        async with asyncio.timeout(8):
            await cluster.is_waited_for.wait()
        assert not controller.done()
        os.kill(os.getpid(), signal.SIGTERM)
        await controller
    # Where a task that failed is of no more use its traceback is logged.
    gc.collect()
    assert [record.message for record in caplog.records if record.exc_info] == []


def list_watches(metrics: Metrics) -> list[str]:
    """What the process says that it watches."""
    return [s.labels["resource"] for f in metrics.watch_last_event.collect() for s in f.samples]


def test_nothing_kills_a_controller_that_waits_for_its_crd() -> None:
    assert build_settings().process.ultimate_exiting_timeout is None
