"""The API server's verbs, with raw JSON.

No generated models: a third of the CPU time, and unknown fields survive.
"""

from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import aiohttp
import orjson

from gpushare import names
from gpushare.kube.errors import ApiError, NotLeaderError
from gpushare.kube.session import load_credentials, open_session

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
"""Server-side apply; JSON is YAML."""

Json = dict[str, Any]


class RequestObserver(Protocol):
    """Told of every answered request; metrics listen here."""

    def __call__(self, verb: str, resource: str, code: int) -> None: ...


def _no_observer(verb: str, resource: str, code: int) -> None:
    return None


def _always() -> bool:
    return True


class ApiServer:
    """The API server, as this process's identity sees it.

    Use `connect()`; it is an async context manager. Every call names what it is about in its
    errors (`ApiError`); connection errors are aiohttp's `ClientError` and `TimeoutError`.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        observer: RequestObserver = _no_observer,
        may_write: Callable[[], bool] = _always,
    ):
        self._session = session
        self._observer = observer
        self._may_write = may_write

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._session.close()

    def only_while(self, may_write: Callable[[], bool]) -> "ApiServer":
        """The same API server; writes raise `NotLeaderError` while `may_write` says no."""
        return ApiServer(self._session, self._observer, may_write)

    async def get(self, path: str, **params: str) -> Json:
        return await self._request("GET", path, params=params)

    async def create(self, path: str, body: Json) -> Json:
        return await self._request("POST", path, body=body)

    async def replace(self, path: str, body: Json) -> Json:
        return await self._request("PUT", path, body=body)

    async def patch(self, path: str, body: Any, *, content_type: str) -> Json:
        return await self._request("PATCH", path, body=body, content_type=content_type)

    async def apply(self, path: str, body: Json) -> Json:
        """Server-side apply as our field manager, taking over what others own.

        `body` must carry `metadata.uid`: an apply without it creates what does not exist.
        """
        if not body["metadata"].get("uid"):
            raise ValueError(f"apply of {path} without metadata.uid could create it")
        params = {"fieldManager": names.FIELD_MANAGER, "force": "true"}
        return await self._request(
            "PATCH", path, params=params, body=body, content_type=APPLY_PATCH
        )

    async def delete(self, path: str, *, uid: str) -> Json:
        """Delete just the object with `uid`; one of the same name and another UID is a 409."""
        return await self._request("DELETE", path, body={"preconditions": {"uid": uid}})

    async def watch(
        self, path: str, *, timeout_seconds: float, **params: str
    ) -> AsyncGenerator[Json, None]:
        """Events of a watch, until the server ends it; `TimeoutError` where it falls silent."""
        params = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(int(timeout_seconds)),
            **params,
        }
        timeout = aiohttp.ClientTimeout(total=None, sock_read=timeout_seconds + 5)
        async with self._session.get(path, params=params, timeout=timeout) as response:
            self._observer("WATCH", _resource(path), response.status)
            if response.status != 200:
                raise ApiError(response.status, await response.read(), what=f"watch {path}")
            async for line in response.content:
                yield orjson.loads(line)

    async def _request(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, str] | None = None,
        body: Any = None,
        content_type: str = JSON,
    ) -> Json:
        # The metrics' verb is that of the API server's own: it counts an apply as APPLY.
        verb = "APPLY" if content_type == APPLY_PATCH else method
        if method != "GET" and not self._may_write():
            raise NotLeaderError(f"{verb} {path} not sent: the Lease is not held any more")
        async with self._session.request(
            method,
            path,
            params=params,
            data=None if body is None else orjson.dumps(body),
            headers={} if body is None else {"Content-Type": content_type},
        ) as response:
            answer = await response.read()
            self._observer(verb, _resource(path), response.status)
            if response.status >= 300:
                retry_after = response.headers.get("Retry-After", "")
                raise ApiError(
                    response.status,
                    answer,
                    what=f"{verb} {path}",
                    retry_after=float(retry_after) if retry_after.isdigit() else None,
                )
            result: Json = orjson.loads(answer)
            return result


async def connect(kubeconfig: Path | None, observer: RequestObserver = _no_observer) -> ApiServer:
    """The API server of `kubeconfig`, or of the cluster this runs in.

    Raises `CredentialsError` where there are no credentials.
    """
    return ApiServer(open_session(await load_credentials(kubeconfig)), observer)


def _resource(path: str) -> str:
    """The resource that a path is about, for a metric's label: never a name."""
    parts = path.split("/")
    parts = parts[3:] if parts[0] == "apis" else parts[2:]
    if parts[0] == "namespaces" and len(parts) > 2:
        parts = parts[2:]
    return f"{parts[0]}/{parts[2]}" if len(parts) > 2 else parts[0]
