"""The life of a pod's process: started, started again, ended in its time, and told of."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

from devcluster import names
from devcluster.client import Client
from devcluster.processnode.host import Host
from devcluster.processnode.pod import parse_pod
from devcluster.processnode.runner import PodRunner

Json = dict[str, Any]

RUNS_ON = "import time; time.sleep(60)"
IGNORES_SIGTERM = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "print('deaf', flush=True); time.sleep(60)"
)


class FakeClient:
    """An API server that takes every write."""

    def __init__(self) -> None:
        self.statuses: list[Json] = []
        self.deleted: list[str] = []
        self._written = asyncio.Event()

    async def patch(self, path: str, body: Json) -> Json:
        self.statuses.append(body["status"])
        self._written.set()
        return body

    async def delete(self, path: str, uid: str) -> Json:
        self.deleted.append(uid)
        return {}

    async def until(self, holds: Callable[[Json], bool]) -> Json:
        """The first status that is so, of those that come."""
        while not any(map(holds, self.statuses)):
            self._written.clear()
            await self._written.wait()
        return next(filter(holds, self.statuses))


class FakeHost:
    """A node whose only image runs a script."""

    def __init__(self, script: str) -> None:
        self._script = script
        self.processes: list[subprocess.Popen[bytes]] = []

    def finds_no_image(self, image: str) -> bool:
        return image != "known:1"

    def start(self, *_: object) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-c", self._script], stdout=subprocess.PIPE)
        self.processes.append(process)
        return process


class Scene:
    """One pod that is being played."""

    def __init__(self, script: str, *, policy: str = "Always", image: str = "known:1") -> None:
        pod = parse_pod(
            {
                "metadata": {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "1"},
                "spec": {
                    "nodeName": "system-1",
                    "nodeSelector": {names.RUNS_PROCESSES: "true"},
                    "serviceAccountName": "default",
                    "restartPolicy": policy,
                    "terminationGracePeriodSeconds": 30,
                    "containers": [{"name": "main", "image": image}],
                },
                "status": {},
            }
        )
        assert pod is not None
        self.client, self.host = FakeClient(), FakeHost(script)
        client, host = cast(Client, self.client), cast(Host, self.host)
        self.runner = PodRunner(client, host, pod, "10.1.0.1")

    async def until_container(self, holds: Callable[[Json], bool]) -> Json:
        status = await self.client.until(lambda status: holds(status["containerStatuses"][0]))
        container: Json = status["containerStatuses"][0]
        return container


@contextlib.asynccontextmanager
async def played(scene: Scene) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(scene.runner.run())
    try:
        async with asyncio.timeout(15):
            yield task
    finally:
        scene.runner.vanish()
        await task
        for process in scene.host.processes:
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


async def test_one_that_is_killed_is_started_again_at_once() -> None:
    scene = Scene(RUNS_ON)
    async with played(scene):
        await scene.until_container(lambda c: bool(c["ready"]))
        scene.host.processes[0].kill()
        container = await scene.until_container(lambda c: c["restartCount"] == 1 and c["ready"])
        assert container["lastState"]["terminated"]["exitCode"] == 137


async def test_a_pod_that_is_deleted_ends_by_sigterm_and_then_is_gone() -> None:
    scene = Scene(RUNS_ON)
    async with played(scene) as task:
        await scene.until_container(lambda c: bool(c["ready"]))
        scene.runner.delete(30)
        await task
        assert scene.host.processes[0].returncode == -15
        assert scene.client.deleted == ["u"]


async def test_one_that_ignores_that_is_killed_when_its_grace_is_over() -> None:
    scene = Scene(IGNORES_SIGTERM)
    async with played(scene) as task:
        await scene.until_container(lambda c: bool(c["ready"]))
        said = scene.host.processes[0].stdout
        assert said is not None
        await asyncio.to_thread(said.readline)
        scene.runner.delete(0.1)
        await task
        assert scene.host.processes[0].returncode == -9
