"""The cluster that is measured on, and the operator on it."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from devcluster.cluster import Cluster
from devcluster.installation import Installation, OperatorProcess
from devcluster.processes import observe_processes
from devcluster.startup import tail
from tests.bench.api import MERGE_PATCH, Api, Json, RefusedError
from tests.bench.fleet import PLACEMENT_LABEL, POOL, POOL_LABEL, Fleet
from tests.bench.footprint import measure_cores, until_quiet
from tests.bench.nodewatch import NodeWatch
from tests.bench.waiting import BenchError, until
from tests.kit.audit import AuditTail
from tests.kit.builders import build_pool
from tests.kit.operator import read_metric, wait_ready

PLACEMENT = "binpack"
LABELS = {POOL_LABEL: POOL, PLACEMENT_LABEL: PLACEMENT}
"""Those that are measured."""
_POOLS = "apis/gpushare.io/v1alpha1/gpusharepools"
_IDENTITY = "measured"
_ACTIVE_SECONDS = 60
_CONVERGED_SECONDS = 600
_GUARD_SECONDS = 0.5
_SERVER_SECONDS = 5.0
_REST_FACTOR = 1.25
_REST_CORES = 0.2
_NOT_FOUND = 404
_SIMULATOR = b"devcluster.simulator"


def is_labelled(meta: Json) -> bool:
    """Whether a node has both labels that are measured."""
    labels: dict[str, str] = meta["labels"]
    return LABELS.items() <= labels.items()


@dataclass
class Rig:
    """One cluster of its own, and at most one controller on it."""

    api: Api
    nodes: NodeWatch
    fleet: Fleet
    audit: AuditTail
    installation: Installation
    process: OperatorProcess | None = None
    server_cores: float = 0.0
    """What the API server uses at rest, with as many nodes as there are."""

    @property
    def pid(self) -> int:
        """The controller's process."""
        if self.process is None:
            raise BenchError("the controller does not run")
        return self.process.process.pid

    async def grow(self, size: int) -> float:
        """Add nodes until there are `size`; seconds that it took."""
        seconds = await self.fleet.grow(size)
        self.server_cores = await measure_cores(self._server_pid, _SERVER_SECONDS)
        return seconds

    async def until_server_rests(self) -> None:
        """Until the API server has little more to do than right after the nodes were added.

        What others do about thousands of changed nodes goes on after the last change.
        """

        async def rests() -> bool:
            cores = await measure_cores(self._server_pid, _SERVER_SECONDS)
            return cores < self.server_cores * _REST_FACTOR + _REST_CORES

        await until(rests, "the API server comes to rest", seconds=_CONVERGED_SECONDS)

    async def start_operator(self) -> None:
        """Start the controller with the settings of an installation; returns once it is idle."""
        self.process = self.installation.start("controller", identity=_IDENTITY)
        await asyncio.to_thread(wait_ready, self.process)
        await until(self._is_active, "the controller is active", seconds=_ACTIVE_SECONDS)
        await until_quiet(self.pid)

    async def stop_operator(self) -> None:
        """End the controller as Kubernetes would; fine if none runs."""
        if self.process is not None:
            process, self.process = self.process, None
            await asyncio.to_thread(process.stop)

    async def guard(self) -> None:
        """Run beside everything: raise `BenchError` once the controller ends by itself."""
        while True:
            if self.process is not None and not self.process.alive:
                raise BenchError(f"the controller ended by itself:\n{tail(self.process.log)}")
            await asyncio.sleep(_GUARD_SECONDS)

    async def create_pool(self) -> None:
        """All nodes, in the mode that they are in, with a placement."""
        await self.api.call("POST", _POOLS, build_pool(POOL, placement=PLACEMENT))

    async def until_ready(self) -> None:
        """Until the pool is Ready on all nodes, and the controller is idle."""
        await until(
            self._is_ready, f"pool {POOL} is Ready on all nodes", seconds=_CONVERGED_SECONDS
        )
        await until_quiet(self.pid)

    async def settle(self) -> None:
        """The pool on all nodes, Ready, and the controller idle."""
        await self.start_operator()
        await self.create_pool()
        await self.until_ready()

    async def clear(self) -> None:
        """No controller, no pool, and nodes as they were when they joined."""
        await self.stop_operator()
        path = f"{_POOLS}/{POOL}"
        try:
            await self.api.call("DELETE", path)
            await self.api.call(
                "PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE_PATCH
            )
        except RefusedError as error:
            if error.status != _NOT_FOUND:
                raise
        await self.fleet.reset()

    @property
    def _server_pid(self) -> int:
        return self.installation.cluster.pid("kube-apiserver")

    async def _is_active(self) -> bool:
        assert self.process is not None
        return await asyncio.to_thread(read_metric, self.process, "gpushare_leader") == 1

    async def _is_ready(self) -> bool:
        pool = await self.api.call("GET", f"{_POOLS}/{POOL}")
        status = pool.get("status") or {}
        return (
            status.get("observedGeneration") == pool["metadata"]["generation"]
            and status["nodes"]["matched"] == len(self.fleet)
            and any(c["type"] == "Ready" and c["status"] == "True" for c in status["conditions"])
        )


@asynccontextmanager
async def open_rig(cluster: Cluster) -> AsyncIterator[Rig]:
    """A rig on a running cluster without nodes; what it needs is installed."""
    _end_simulator(cluster)
    installation = Installation(cluster, all_in_one=False)
    installation.apply()
    async with Api(cluster.kubeconfig) as api, asyncio.TaskGroup() as tasks:
        # No webhook is measured, and thousands of pods need not try to reach one.
        hooks = "apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
        await api.call("DELETE", f"{hooks}/gpushare-webhook")
        nodes = NodeWatch(api)
        await nodes.start()
        fleet = Fleet(api, nodes)
        await fleet.install_edition()
        rig = Rig(api, nodes, fleet, AuditTail(cluster.audit_log), installation)
        beside = [tasks.create_task(work) for work in (nodes.run(), rig.guard())]
        try:
            yield rig
        finally:
            await rig.stop_operator()
            rig.audit.close()
            for task in beside:
                task.cancel()


def _end_simulator(cluster: Cluster) -> None:
    """Nothing is played here: nodes offer their memory from the start, and KWOK runs the pods."""
    for pid in observe_processes(cluster.folder):
        if _SIMULATOR in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGTERM)
