"""Verbs and watches of the API server, for processes that play nodes."""

import ssl
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp
import orjson

from devcluster.apiobject import Object
from devcluster.apiserver import ApiError
from devcluster.kubeconfig import read_own_kubeconfig

CONNECTIONS = 64
LONGEST_LINE_BYTES = 4 * 1024 * 1024  # one watch event; an object is at most 1.5 MiB
PAGE = 500
WATCH_SECONDS = 300

Params = Mapping[str, str]


class Client:
    """An HTTP session with the API server that a devcluster's kubeconfig names."""

    def __init__(self, kubeconfig: Path, *, user_agent: str) -> None:
        config = read_own_kubeconfig(kubeconfig)
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        tls = ssl.create_default_context(cafile=cluster["certificate-authority"])
        tls.load_cert_chain(user["client-certificate"], user["client-key"])
        self._session = aiohttp.ClientSession(
            cluster["server"],
            connector=aiohttp.TCPConnector(ssl=tls, limit=CONNECTIONS),
            headers={"User-Agent": user_agent},
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=5),
            read_bufsize=LONGEST_LINE_BYTES,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._session.close()

    async def get(self, path: str, params: Params | None = None) -> Object:
        """Read an object or a list. Raises ApiError, or OSError when nobody answers."""
        return await self._call("GET", path, params=params)

    async def post(self, path: str, body: Object) -> Object:
        """Create an object. Raises ApiError or OSError."""
        return await self._call("POST", path, body=body, content_type="application/json")

    async def patch(self, path: str, body: Object, params: Params | None = None) -> Object:
        """Apply a strategic merge patch and return the new object. Raises ApiError or OSError."""
        content_type = "application/strategic-merge-patch+json"
        return await self._call("PATCH", path, params=params, body=body, content_type=content_type)

    async def delete(self, path: str, uid: str) -> Object:
        """Delete the object with this UID, without a grace period. Raises ApiError or OSError."""
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        return await self._call("DELETE", path, body=body, content_type="application/json")

    async def list(self, path: str, params: Params) -> tuple[list[Object], int]:
        """Read a list page by page, and its resourceVersion. Raises ApiError or OSError."""
        items: list[Object] = []
        page = {"limit": str(PAGE), **params}
        while True:
            answer = await self.get(path, page)
            items += answer.get("items") or []
            token = answer["metadata"].get("continue")
            if not token:
                return items, int(answer["metadata"]["resourceVersion"])
            page["continue"] = token

    async def watch(
        self, path: str, params: Params, version: int
    ) -> AsyncIterator[tuple[str, Object]]:
        """Yield (type, object) of each event after a resourceVersion, until the server ends it.

        Raises ApiError with status 410 when that version is too old.
        """
        query = {
            **params,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": str(version),
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=WATCH_SECONDS + 30)
        try:
            async with self._session.get(path, params=query, timeout=timeout) as response:
                if response.status >= 400:
                    raise _refuse("watch", path, response.status, await response.text())
                async for line in response.content:
                    event = orjson.loads(line)
                    if event["type"] == "ERROR":
                        refusal = event["object"]
                        raise _refuse("watch", path, refusal["code"], refusal["message"])
                    yield event["type"], event["object"]
        except (TimeoutError, aiohttp.ClientError) as error:
            raise ConnectionError(f"watch {path}: {error}") from error

    async def _call(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: Object | None = None,
        content_type: str = "",
    ) -> Object:
        data = None if body is None else orjson.dumps(body)
        headers = {"Content-Type": content_type} if content_type else {}
        try:
            async with self._session.request(
                method,
                path,
                params=params,
                data=data,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=30, sock_connect=5),
            ) as response:
                answer: Object = orjson.loads(await response.read())
                if response.status >= 400:
                    raise _refuse(method, path, response.status, answer.get("message"))
                return answer
        except (TimeoutError, aiohttp.ClientError, orjson.JSONDecodeError) as error:
            raise ConnectionError(f"{method} {path}: {error}") from error


def _refuse(method: str, path: str, status: int, message: object) -> ApiError:
    return ApiError(status, f"{method} {path}: {status} {message}")
