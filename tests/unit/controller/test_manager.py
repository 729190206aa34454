"""The controller as a process: who logs in, and what becomes of it without its CRD."""

import asyncio
import contextlib
import gc
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from kopf._core.intents.causes import Activity

from gpushare.controller.informers import Informers
from gpushare.controller.kopf_handlers import build_registry
from gpushare.controller.manager import run_controller
from gpushare.controller.reconciler import Reconciler
from gpushare.kube.client import ApiClient
from gpushare.kube.errors import NotLeaderError, SyncLostError
from gpushare.observe.metrics.controller import ControllerMetrics
from gpushare.settings import Settings
from tests.kit.cluster.command_line import start_python
from tests.unit.controller.empty_api import EmptyCluster, served


@contextlib.asynccontextmanager
async def running(cluster: EmptyCluster, folder: Path) -> AsyncIterator[asyncio.Task[None]]:
    """A controller that follows the pools of the cluster, and is told to stop in the end."""
    kubeconfig = folder / "kubeconfig"
    async with served(cluster, kubeconfig):
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
        if not controller.done():
            os.kill(os.getpid(), signal.SIGTERM)
        await controller


async def nothing() -> None:
    return None


def test_kopf_logs_in_by_our_handler_alone_also_where_kubernetes_is_installed() -> None:
    # Else it adds one that reads a kubeconfig, or whatever the environment names.
    assert "kubernetes" in sys.modules
    registry = build_registry(
        on_pool=lambda raw, *, deleted: None,
        on_cleanup=nothing,
        open_session=aiohttp.ClientSession,
        server="https://10.0.0.1",
    )
    logins = registry._activities.get_handlers(activity=Activity.AUTHENTICATION)
    assert [handler.fn.__module__ for handler in logins] == [build_registry.__module__]


async def test_told_to_stop_while_it_takes_in_that_its_crd_is_gone_it_ends(tmp_path: Path) -> None:
    # Both come at once with `helm uninstall` and crds.keep=false.
    cluster = EmptyCluster()
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
    metrics = ControllerMetrics()
    monkeypatch.setattr("gpushare.controller.manager.ControllerMetrics", lambda **options: metrics)
    cluster = EmptyCluster()
    async with running(cluster, tmp_path):
        assert list_watches(metrics)
        cluster.has_crd = False
        await cluster.is_vacated.wait()
        cluster.may_vacate.set()
        await cluster.is_waited_for.wait()
        assert list_watches(metrics) == []


async def test_one_that_stands_by_waits_for_its_crd_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # It has nothing to let go of, so nothing holds up what follows when Kopf ends.
    cluster = EmptyCluster()
    cluster.lease = {"spec": {"holderIdentity": "another", "renewTime": "once"}}
    cluster.may_vacate.set()
    async with running(cluster, tmp_path) as controller:
        cluster.has_crd = False
        await cluster.is_waited_for.wait()
        assert not controller.done()
    # Where a task that failed is of no more use its traceback is logged.
    gc.collect()
    assert [record.message for record in caplog.records if record.exc_info] == []


@pytest.mark.parametrize("path", ["api/v1/pods", "apis/gpushare.io/v1alpha1/gpusharepools"])
async def test_one_that_hears_nothing_of_a_kind_for_long_gives_the_lease_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Its connection is good, so it would renew the Lease for ever, and know nothing."""
    monkeypatch.setattr("gpushare.controller.pool_store.LIST_SECONDS", 0.0)
    patience, find_unsynced = [3600.0], Informers.find_unsynced
    monkeypatch.setattr(
        Informers, "find_unsynced", lambda informers, _: find_unsynced(informers, patience[0])
    )
    cluster = EmptyCluster()
    cluster.may_vacate.set()

    async def refuse() -> None:
        async with running(cluster, tmp_path) as controller:
            await cluster.is_led.wait()
            cluster.refused, patience[0] = path, 1.0
            await controller

    with pytest.raises(ExceptionGroup) as raised:
        await refuse()
    assert raised.group_contains(SyncLostError)
    assert cluster.lease is not None
    assert cluster.lease["spec"]["holderIdentity"] == ""


async def test_one_that_does_not_know_everything_yet_leaves_the_lease_to_others(
    tmp_path: Path,
) -> None:
    cluster = EmptyCluster()
    cluster.refused = "api/v1/pods"
    cluster.may_vacate.set()
    async with running(cluster, tmp_path):
        assert cluster.lease is None
        cluster.refused = None
        await cluster.is_led.wait()


async def test_one_that_takes_over_reads_everything_anew_before_it_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    has_begun = asyncio.Event()

    async def relist(informers: Informers) -> None:
        done.append("read")

    async def run(reconciler: Reconciler) -> None:
        done.append("decide")
        has_begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(Informers, "relist", relist)
    monkeypatch.setattr(Reconciler, "run", run)
    cluster = EmptyCluster()
    cluster.may_vacate.set()
    async with running(cluster, tmp_path):
        await has_begun.wait()
    assert done == ["read", "decide"]


async def test_what_decides_can_write_nothing_without_the_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[ApiClient] = []

    class Watched(Reconciler):
        def __init__(self, api: ApiClient, settings: Settings, metrics: ControllerMetrics) -> None:
            given.append(api)
            super().__init__(api, settings, metrics)

    monkeypatch.setattr("gpushare.controller.manager.Reconciler", Watched)
    cluster = EmptyCluster()
    cluster.lease = {"spec": {"holderIdentity": "another", "renewTime": "once"}}
    async with running(cluster, tmp_path):
        with pytest.raises(NotLeaderError):
            await given[0].delete("api/v1/pods/a", uid="1")


def list_watches(metrics: ControllerMetrics) -> list[str]:
    """What the process says that it watches."""
    return [s.labels["resource"] for f in metrics.watch_last_event.collect() for s in f.samples]


def test_kopf_brings_no_kubernetes_into_the_process() -> None:
    loads = "import sys, gpushare.controller.manager; print('kubernetes' in sys.modules)"
    assert start_python("-c", loads).out == "False\n"
