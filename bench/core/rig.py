"""The cluster of a benchmark, with the operator."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.core.api import MERGE_PATCH, Api, Json
from bench.core.fleet import PLACEMENT_LABEL, POOL, POOL_LABEL, READ_LABEL, Fleet
from bench.core.nodewatch import NodeWatch
from bench.core.processes import measure_cores, read_rss_mib, until_quiet
from bench.core.session import say
from bench.core.waiting import BenchError, until
from devcluster.cluster import Cluster
from devcluster.installation import Installation, OperatorProcess
from devcluster.processes import observe_processes
from devcluster.startup import tail
from tests.kit.cluster.audit_log import AuditTail
from tests.kit.cluster.operator_processes import read_metric, wait_ready
from tests.kit.values.manifests import build_pool

PLACEMENT = "binpack"
LABELS = {POOL_LABEL: POOL, PLACEMENT_LABEL: PLACEMENT}
"""Labels that are measured."""
_HOOKS = "apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
_POOLS = "apis/gpushare.io/v1alpha1/gpusharepools"
_ACTIVE_SECONDS = 60
_CONVERGED_SECONDS = 600
_GUARD_SECONDS = 0.5
_SERVER_SECONDS = 5.0
_REST_FACTOR, _REST_CORES = 1.25, 0.2


def is_labelled(meta: Json) -> bool:
    """Tell whether a node has all measured labels."""
    labels: dict[str, str] = meta["labels"]
    return LABELS.items() <= labels.items()


@dataclass
class Rig:
    """A cluster with at most one controller."""

    api: Api
    nodes: NodeWatch
    fleet: Fleet
    audit: AuditTail
    installation: Installation
    process: OperatorProcess | None = None
    server_cores: float = 0.0
    """Cores that the API server uses at rest, with the current number of nodes."""

    @property
    def pid(self) -> int:
        """Process ID of the controller."""
        if self.process is None:
            raise BenchError("the controller does not run")
        return self.process.process.pid

    @property
    def server_pid(self) -> int:
        """Process ID of the API server."""
        return self.installation.cluster.pid("kube-apiserver")

    async def grow(self, size: int) -> None:
        """Add nodes until there are `size`, and print how long that took."""
        seconds = await self.fleet.grow(size)
        self.server_cores = await measure_cores(self.server_pid, _SERVER_SECONDS)
        say(f"{size} nodes with their plugin, after {seconds:.0f} s")

    async def until_server_rests(self) -> None:
        """Wait until the API server is almost as idle as after the nodes were added.

        Controllers process thousands of changed nodes for a while after the last change.
        """

        async def rests() -> bool:
            cores = await measure_cores(self.server_pid, _SERVER_SECONDS)
            return cores < self.server_cores * _REST_FACTOR + _REST_CORES

        await until(rests, "the API server comes to rest", seconds=_CONVERGED_SECONDS)

    async def start_operator(self) -> None:
        """Start the controller with the settings of an installation; return once it is idle."""
        self.process = self.installation.start("controller", identity="measured")
        await asyncio.to_thread(wait_ready, self.process)
        leads = partial(asyncio.to_thread, read_metric, self.process, "gpushare_leader")
        await until(leads, "the controller is active", seconds=_ACTIVE_SECONDS)
        await until_quiet(self.pid)

    async def stop_operator(self) -> None:
        """End the controller as Kubernetes would, if one runs."""
        if self.process is not None:
            process, self.process = self.process, None
            await asyncio.to_thread(process.stop)

    async def measure_webhook(self) -> float:
        """Measure the resident memory in MiB of a ready webhook without calls; then end it."""
        await asyncio.to_thread(self.installation.apply)
        webhook = self.installation.start("webhook", identity="measured-too")
        await asyncio.to_thread(wait_ready, webhook)
        await until_quiet(webhook.process.pid)
        rss_mib = read_rss_mib(webhook.process.pid)
        await asyncio.to_thread(webhook.stop)
        await self.remove_webhooks()
        return rss_mib

    async def remove_webhooks(self) -> None:
        """Remove the webhook configuration, so that thousands of pods need no webhook."""
        await self.api.call("DELETE", f"{_HOOKS}/gpushare-webhook")

    async def guard(self) -> None:
        """Raise `BenchError` once the controller ends by itself; runs beside everything."""
        while True:
            if self.process is not None and not self.process.alive:
                raise BenchError(f"the controller ended by itself:\n{tail(self.process.log)}")
            await asyncio.sleep(_GUARD_SECONDS)

    async def create_pool(self) -> None:
        """Create a pool of all nodes in their current mode, with a placement."""
        pool = build_pool(POOL, placement=PLACEMENT)
        read = {"key": READ_LABEL, "operator": "NotIn", "values": ["never"]}
        pool["spec"]["nodes"]["selector"]["matchExpressions"] = [read]
        await self.api.call("POST", _POOLS, pool)

    async def until_ready(self) -> None:
        """Wait until the pool is Ready on all nodes, and the controller is idle."""
        await until(self._is_ready, "the pool is Ready everywhere", seconds=_CONVERGED_SECONDS)
        await until_quiet(self.pid)

    async def settle(self) -> None:
        """Create the pool, and wait until it is Ready on all nodes and the controller idle."""
        await self.start_operator()
        await self.create_pool()
        await self.until_ready()

    async def clear(self) -> None:
        """End the controller, delete the pool and reset the nodes."""
        await self.stop_operator()
        path, freed = f"{_POOLS}/{POOL}", {"metadata": {"finalizers": None}}
        await self.api.call("DELETE", path)
        await self.api.call("PATCH", path, freed, content_type=MERGE_PATCH)
        await self.fleet.reset()

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
    """Open a rig on a running cluster without nodes, and install what it needs."""
    _end_simulator(cluster)
    installation = Installation(cluster, all_in_one=False)
    installation.apply()
    async with Api(cluster.kubeconfig) as api, asyncio.TaskGroup() as tasks:
        nodes = NodeWatch(api)
        await nodes.start()
        fleet = Fleet(api, nodes)
        await fleet.install_edition()
        audit = AuditTail(cluster.audit_log)
        rig = Rig(api, nodes, fleet, audit, installation)
        await rig.remove_webhooks()
        beside = [tasks.create_task(work) for work in (nodes.run(), rig.guard())]
        try:
            yield rig
        finally:
            await rig.stop_operator()
            audit.close()
            for task in beside:
                task.cancel()


def _end_simulator(cluster: Cluster) -> None:
    """End the simulator: nodes offer their memory from the start, and KWOK runs the pods."""
    for pid in observe_processes(cluster.folder):
        if b"devcluster.simulator" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGTERM)
