"""Makes thousands of calls to a cluster's API server, as its administrator."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import orjson

from bench.core.waiting import BenchError
from devcluster.client import Client

Json = dict[str, Any]
Item = TypeVar("Item")

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

IN_FLIGHT = 64
MANAGER = "gpushare-bench"
"""Field manager of all writes that are not measured."""


class RefusedError(BenchError):
    """The API server's answer is an error."""


class Api(Client):
    """Client of a kubeconfig's API server; an async context manager. Watches have only metadata.

    Calls of the administrator skip RBAC and the API server's queues: as a floor, no client can be
    faster.
    """

    def __init__(self, kubeconfig: Path) -> None:
        super().__init__(kubeconfig, user_agent=MANAGER)
        self._session.headers["Accept"] = METADATA_ONLY

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = JSON,
        manager: str = MANAGER,
        accept: str = JSON,
        **params: str,
    ) -> Json:
        """Make a call and return the JSON answer. Raises `RefusedError` for a status >= 300."""
        if method in ("POST", "PATCH"):
            params["fieldManager"] = manager
        async with self._session.request(
            method,
            path,
            params=params,
            data=None if body is None else orjson.dumps(body),
            headers={"Content-Type": content_type, "Accept": accept},
        ) as response:
            answer = await response.read()
            if response.status >= 300:
                text = answer.decode(errors="replace")
                raise RefusedError(f"{method} {path}: {response.status} {text[:300]}")
            result: Json = orjson.loads(answer)
            return result


async def for_each(action: Callable[[Item], Awaitable[object]], items: Iterable[Item]) -> None:
    """Await `action` for every item, IN_FLIGHT at once; the first failure ends all."""
    queue = iter(items)

    async def work() -> None:
        for item in queue:
            await action(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(work())
