"""A fake API server with a few objects, over real HTTP: names, versions, conflicts, 404. Some kinds
are always empty."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import jsonpatch
import orjson
from aiohttp import web
from aiohttp.test_utils import TestServer

from gpushare.kube.auth.credentials import Credentials
from gpushare.kube.client import MERGE_PATCH, ApiClient, RequestObserver, connect

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]

_EMPTY_LIST = {"metadata": {"resourceVersion": "1"}, "items": []}


def _ignore(verb: str, resource: str, code: int) -> None:
    return None


class FakeApi:
    """Objects by path. `writes` lists each write as `VERB path`, `conflicts` those with a conflict.
    Lists and watches of the paths `empty` are empty; paths `forbidden` are refused; calls of the
    `broken_verbs` fail with 504 after the write."""

    def __init__(self, *empty: str) -> None:
        self._empty = empty
        self.objects: dict[str, dict[str, Any]] = {}
        self.forbidden: set[str] = set()
        self.broken_verbs: set[str] = set()
        self.writes: list[str] = []
        self.conflicts: list[str] = []
        self._version = 0

    def put(self, path: str, body: dict[str, Any]) -> None:
        """Store `body` under `path`, as a write of another client."""
        self._version += 1
        metadata = {**body.get("metadata", {}), "resourceVersion": str(self._version)}
        self.objects[path] = {**body, "metadata": metadata}

    @contextlib.asynccontextmanager
    async def connected(self, observer: RequestObserver = _ignore) -> AsyncIterator[ApiClient]:
        """Serve these objects within the block; `observer` is called for each request."""
        async with served_by(self._answer, observer) as api:
            yield api

    async def _answer(self, request: web.Request) -> web.Response:
        path = request.match_info["path"]
        body = orjson.loads(await request.read() or b"null")
        if path in self.forbidden:
            return _refuse(403, "Forbidden")
        if path in self._empty:
            is_list = "watch" not in request.query
            return web.json_response(_EMPTY_LIST) if is_list else web.Response()
        if request.method == "POST":
            path = f"{path}/{body['metadata']['name']}"
            if path in self.objects:
                return self._conflict(request, path)
            self.put(path, body)
        elif path not in self.objects:
            return _refuse(404, "NotFound")
        elif request.method in ("PUT", "PATCH"):
            stored = self.objects[path]
            if request.method == "PATCH":
                is_merge = request.content_type == MERGE_PATCH
                body = (_merge if is_merge else jsonpatch.apply_patch)(stored, body)
            versions = [o["metadata"].get("resourceVersion") for o in (body, stored)]
            if versions[0] != versions[1]:
                return self._conflict(request, path)
            if "dryRun" in request.query:
                return web.json_response(body)
            self.put(path, body)
        if request.method != "GET":
            self.writes.append(f"{request.method} {path}")
        stored = self.objects[path]
        if request.method == "DELETE":
            del self.objects[path]
        if request.method in self.broken_verbs:
            return _refuse(504, "Timeout")
        return web.json_response(stored)

    def _conflict(self, request: web.Request, path: str) -> web.Response:
        self.conflicts.append(f"{request.method} {path}")
        return _refuse(409, "Conflict")


@contextlib.asynccontextmanager
async def served_by(
    answer: Answer, observer: RequestObserver = _ignore
) -> AsyncIterator[ApiClient]:
    """Serve this answer to every request; `observer` is called for each request."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(app) as server:
        credentials = Credentials(str(server.make_url("/")), None, be_anybody)
        async with connect(credentials, observer) as api:
            yield api


def says(body: bytes = b"{}", status: int = 200) -> Answer:
    """Build an answer that is equal for every request."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=body, status=status)

    return answer


async def be_anybody() -> None:
    return None


def _merge(stored: Any, patch: Any) -> Any:
    """Apply a JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    merged = {**stored} if isinstance(stored, dict) else {}
    merged |= {key: _merge(merged.get(key), value) for key, value in patch.items()}
    return {key: value for key, value in merged.items() if patch.get(key, value) is not None}


def _refuse(status: int, reason: str) -> web.Response:
    return web.json_response({"kind": "Status", "reason": reason}, status=status)
