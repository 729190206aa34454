"""Starts and ends pods whose processes run on this machine."""

import asyncio
import itertools
import logging

from devcluster.client import Client
from devcluster.cluster import Cluster
from devcluster.mirror import Mirror
from devcluster.processnode.addresses import pod_address
from devcluster.processnode.host import Host
from devcluster.processnode.pod import Pod, parse_pod
from devcluster.processnode.runner import PodRunner

log = logging.getLogger(__name__)

_BOUND = {"fieldSelector": "spec.nodeName!="}


class NodeAgent:
    """Plays all nodes whose pods are processes, for as long as their cluster lasts."""

    def __init__(self, client: Client, cluster: Cluster) -> None:
        self._client = client
        self._host = Host(cluster)
        self._first_port = cluster.ports.first
        self._numbers = itertools.count(1)
        self._runners: dict[str, PodRunner] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._pods = Mirror(client, "/api/v1/pods", _BOUND, parse_pod, self._change)

    async def run(self) -> None:
        """Follow the pods until cancelled."""
        await self._pods.run()

    def _change(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            if old is not None and (runner := self._runners.pop(old.uid, None)):
                runner.vanish()
            return
        runner = self._runners.get(new.uid)
        if runner is None:
            runner = self._start(new)
        if runner is not None and new.is_deleted:
            runner.delete(new.grace_seconds)

    def _start(self, pod: Pod) -> PodRunner:
        address = pod_address(self._first_port, next(self._numbers))
        log.info("%s: taken in, with address %s", pod.path, address)
        runner = PodRunner(self._client, self._host, pod, address)
        self._runners[pod.uid] = runner
        task = asyncio.create_task(runner.run(), name=pod.path)
        self._tasks.add(task)
        task.add_done_callback(self._note_end)
        return runner

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s is no longer played", task.get_name(), exc_info=error)
