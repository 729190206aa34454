"""Runs one pod: starts, probes, restarts and stops its process, and writes its status."""

import asyncio
import contextlib
import logging
import os
import subprocess
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from devcluster.apiserver import ApiError
from devcluster.client import Client
from devcluster.processnode.addresses import reach
from devcluster.processnode.host import Host
from devcluster.processnode.pod import Container, Pod, UnplayableError, parse_container
from devcluster.processnode.probing import verdicts
from devcluster.processnode.status import Ended, State, build_status, now

log = logging.getLogger(__name__)

_FIRST_BACK_OFF_SECONDS = 1.0
_LONGEST_BACK_OFF_SECONDS = 60.0
_FORGIVEN_SECONDS = 600.0
"""Runtime after which a container's next restart is immediate."""
_TOKEN_RETRY_SECONDS = 1.0
_SIGNALLED = 128


class PodRunner:
    """Runs one pod from its binding until `delete` or `vanish`."""

    def __init__(self, client: Client, host: Host, pod: Pod, address: str) -> None:
        self._client, self._host, self._pod, self._address = client, host, pod, address
        self._since = now()
        self._state = State()
        self._changed = asyncio.Event()
        self._stopping = asyncio.Event()
        self._grace_seconds = pod.grace_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._is_gone = False

    def delete(self, grace_seconds: float) -> None:
        """Stop the pod's process, which is being deleted, within the grace period."""
        self._grace_seconds = grace_seconds
        self._stopping.set()

    def vanish(self) -> None:
        """End the process of a pod that is gone."""
        self._is_gone = True
        self.delete(0)
        if self._process is not None:
            self._process.kill()

    async def run(self) -> None:
        """Play the pod until it is gone."""
        try:
            container = parse_container(self._pod.source, self._address)
            if self._host.finds_no_image(container.image):
                raise UnplayableError(f"image {container.image}: only the operator's is known here")
        except UnplayableError as error:
            log.error("%s: %s", self._pod.path, error)
            raw = self._pod.source["spec"]["containers"][0]
            container = Container(raw["name"], raw["image"], (), {}, None, None, None)
            self._set(waits_for=("CreateContainerConfigError", str(error)))
            await self._write_status(container)
        else:
            if not self._stopping.is_set():
                async with self._reporting(container), self._with_token():
                    await self._live(container)
        await self._stopping.wait()
        if not self._is_gone:
            await self._call(self._client.delete(self._pod.path, self._pod.uid))

    async def _live(self, container: Container) -> None:
        back_off_seconds = 0.0
        while not self._stopping.is_set():
            started = time.monotonic()
            exit_code = await self._run_once(container)
            if self._is_over(exit_code):
                self._set(phase="Failed" if exit_code else "Succeeded")
                return
            if time.monotonic() - started > _FORGIVEN_SECONDS:
                back_off_seconds = 0.0
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), back_off_seconds)
            back_off_seconds = min(
                max(_FIRST_BACK_OFF_SECONDS, 2 * back_off_seconds), _LONGEST_BACK_OFF_SECONDS
            )

    def _is_over(self, exit_code: int) -> bool:
        policy = self._pod.restart_policy
        return (
            self._stopping.is_set()
            or policy == "Never"
            or (policy == "OnFailure" and exit_code == 0)
        )

    async def _run_once(self, container: Container) -> int:
        """Run the container once; return its exit code."""
        restarts = self._state.restarts + int(self._state.ended is not None)
        process = self._process = self._host.start(self._pod, container, self._address)
        self._set(
            phase="Running", pid=process.pid, started_at=now(), restarts=restarts, is_started=False
        )
        ending = asyncio.create_task(_wait_end(process))
        dying = asyncio.create_task(self._probe(container))
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait({ending, dying, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not ending.done():
            log.info("%s: to end within %g s", self._pod.path, self._grace_seconds)
            process.terminate()
            # Readiness is looked at up to the end: a pod that ends may still serve.
            await asyncio.wait({ending}, timeout=self._grace_seconds)
        process.kill()
        exit_code = await ending
        for task in (dying, stopping):
            task.cancel()
        self._set_ready(False)
        self._set(
            pid=None,
            is_started=False,
            ended=Ended(exit_code, self._state.started_at, now()),
            waits_for=("CrashLoopBackOff", f"it ended with {exit_code}"),
        )
        log.info("%s: ended with %d", self._pod.path, exit_code)
        return exit_code

    async def _probe(self, container: Container) -> None:
        """Return when a probe requires to kill the container: not started in time, or not alive."""
        host = reach(self._address)
        if container.startup is not None:
            async for has_started in verdicts(container.startup, host):
                if has_started:
                    break
                return
        self._set(is_started=True)
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._watch_readiness(container, host))
            if container.liveness is None:
                # Nothing asks, so it lives for ever.
                await asyncio.Event().wait()
                return
            async for is_alive in verdicts(container.liveness, host):
                if not is_alive:
                    watching.cancel()
                    return

    async def _watch_readiness(self, container: Container, host: str) -> None:
        if container.readiness is None:
            self._set_ready(True)
            return
        async for is_ready in verdicts(container.readiness, host):
            self._set_ready(is_ready)

    @contextlib.asynccontextmanager
    async def _reporting(self, container: Container) -> AsyncIterator[None]:
        """Write each change of the state within the block, the last one before its end."""
        reporting = asyncio.create_task(self._write_changes(container))
        try:
            yield
        finally:
            reporting.cancel()
            await asyncio.gather(reporting, return_exceptions=True)
            await self._write_status(container)

    async def _write_changes(self, container: Container) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._write_status(container)

    async def _write_status(self, container: Container) -> None:
        if self._is_gone:
            return
        status = build_status(
            self._pod,
            container.name,
            container.image,
            self._state,
            address=self._address,
            since=self._since,
        )
        body = {"metadata": {"uid": self._pod.uid}, "status": status}
        await self._call(self._client.patch(f"{self._pod.path}/status", body))

    @contextlib.asynccontextmanager
    async def _with_token(self) -> AsyncIterator[None]:
        """Keep a valid token of the pod within the block."""
        if self._pod.token_seconds is None:
            yield
            return
        is_mounted = asyncio.Event()
        mounting = asyncio.create_task(self._keep_token(is_mounted))
        stopping = asyncio.create_task(self._stopping.wait())
        mounted = asyncio.create_task(is_mounted.wait())
        try:
            await asyncio.wait({mounted, stopping}, return_when=asyncio.FIRST_COMPLETED)
            yield
        finally:
            for task in (mounting, mounted, stopping):
                task.cancel()

    async def _keep_token(self, is_mounted: asyncio.Event) -> None:
        while True:
            try:
                seconds = await self._host.mount_token(self._client, self._pod)
            except (ApiError, OSError) as error:
                log.warning("%s has no token: %s", self._pod.path, error)
                await asyncio.sleep(_TOKEN_RETRY_SECONDS)
                continue
            is_mounted.set()
            # The kubelet asks for another when a fifth of the time is left.
            await asyncio.sleep(0.8 * seconds)

    async def _call(self, call: Any) -> None:
        try:
            await call
        except ApiError as error:
            if error.status not in (404, 409):
                log.warning("%s", error)
        except OSError as error:
            log.warning("%s", error)

    def _set_ready(self, is_ready: bool) -> None:
        if is_ready != self._state.is_ready:
            self._set(is_ready=is_ready, ready_changed_at=now())

    def _set(self, **changes: Any) -> None:
        self._state = replace(self._state, **changes)
        self._changed.set()


async def _wait_end(process: subprocess.Popen[bytes]) -> int:
    """Wait for the exit code of a container: 128 plus the number of a signal."""
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    descriptor = os.pidfd_open(process.pid)
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
    code = process.wait()
    return code if code >= 0 else _SIGNALLED - code
