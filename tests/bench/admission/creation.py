"""Pods that are created: in a closed loop, so many at once, or at a steady rate."""

import asyncio
import time
from collections.abc import Iterator
from functools import partial

from tests.bench.api import Api, Json, for_each
from tests.kit.builders import build_pod


class Creator:
    """Creates pods in one namespace; by default nothing of them is kept (`dryRun`)."""

    def __init__(
        self, api: Api, namespace: str, *, gib: int | None = 3, keep: bool = False
    ) -> None:
        self._api = api
        self._path = f"api/v1/namespaces/{namespace}/pods"
        self._gib = gib
        self._params = {} if keep else {"dryRun": "All"}
        self._made = 0

    async def create_closed(self, count: int, in_flight: int) -> None:
        """So many pods, each as soon as one of those before it is there."""
        await for_each(self._create, self._build(count), in_flight=in_flight)

    async def create_open(self, count: int, per_second: float) -> None:
        """So many pods, each at its time, whatever became of those before it."""
        started = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for number, pod in enumerate(self._build(count)):
                await asyncio.sleep(started + number / per_second - time.monotonic())
                group.create_task(self._create(pod))

    async def _create(self, pod: Json) -> None:
        await self._api.call("POST", self._path, pod, **self._params)

    def _build(self, count: int) -> Iterator[Json]:
        first, self._made = self._made, self._made + count
        build = partial(build_pod, gib=self._gib, env={"MODEL": "resnet50"})
        return (build(f"p-{number:06}") for number in range(first, first + count))
