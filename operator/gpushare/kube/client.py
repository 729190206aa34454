"""The API server's verbs, with raw JSON: all calls but those that Kopf makes.

No generated models: a third of the CPU time, and unknown fields survive.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

import aiohttp
import orjson
from aiohttp.http_exceptions import LineTooLong

from gpushare import names
from gpushare.kube.auth.credentials import Credentials
from gpushare.kube.errors import (
    AnswerTooLongError,
    ApiError,
    MalformedAnswerError,
    NotLeaderError,
    SilentWatchError,
)
from gpushare.kube.retry_after import RetryAfter, parse_retry_after
from gpushare.kube.session import CONNECT_TIMEOUT_SECONDS, open_session
from gpushare.kube.watch_health import OVERTIME_SECONDS

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
"""Server-side apply; JSON is YAML."""

Json = dict[str, Any]
PAGE = 500
"""Objects of one page, so that no side holds a long list as a whole."""


class RequestObserver(Protocol):
    """Called for every answered request, for the metrics."""

    def __call__(self, verb: str, resource: str, code: int) -> None: ...


def _unobserved(verb: str, resource: str, code: int) -> None:
    return None


class ApiClient:
    """Client of the API server; an async context manager that `connect()` opens.

    Errors (`ApiError`, `MalformedAnswerError`) name the verb and the path of the call; connection
    errors are aiohttp's `ClientError` and `TimeoutError`. A call waits where the API server asked
    for that by Retry-After.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        observer: RequestObserver = _unobserved,
        may_write: Callable[[], bool] = lambda: True,
        throttle: RetryAfter | None = None,
    ):
        self._session = session
        self._observer = observer
        self._may_write = may_write
        self._throttle = throttle or RetryAfter()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._session.close()

    def only_while(self, may_write: Callable[[], bool]) -> "ApiClient":
        """Return a client whose writes raise `NotLeaderError` while `may_write` returns False."""
        return ApiClient(self._session, self._observer, may_write, self._throttle)

    async def get(self, path: str, **params: str) -> Json:
        return await self._request("GET", path, params=params)

    async def get_at_most(self, most_bytes: int, path: str, **params: str) -> Json:
        """Get what may be of any length. Raises `AnswerTooLongError`."""
        return await self._request("GET", path, params=params, most_bytes=most_bytes)

    async def find(self, path: str, **params: str) -> Json | None:
        """Get an object; None where it does not exist."""
        try:
            return await self.get(path, **params)
        except ApiError as error:
            if error.is_not_found:
                return None
            raise

    async def create(self, path: str, body: Json, **params: str) -> Json:
        return await self._request("POST", path, params=params, body=body)

    async def try_create(self, path: str, body: Json) -> tuple[Json, tuple[str, ...]]:
        """Create an object as a dry run; return the object and the API server's warnings."""
        warnings: list[str] = []
        created = await self._request(
            "POST", path, params={"dryRun": "All"}, body=body, warnings=warnings
        )
        return created, tuple(warnings)

    async def replace(self, path: str, body: Json) -> Json:
        return await self._request("PUT", path, body=body)

    async def patch(self, path: str, body: Any, *, content_type: str, **params: str) -> Json:
        return await self._request(
            "PATCH", path, params=params, body=body, content_type=content_type
        )

    async def apply(
        self,
        path: str,
        body: Json,
        *,
        manager: str = names.FIELD_MANAGER,
        force: bool = True,
        dry_run: bool = False,
    ) -> Json:
        """Apply on the server side as a field manager; with `force` take over fields of others.

        `body` must have `metadata.uid`: an apply without it creates a missing object.
        """
        if not body["metadata"].get("uid"):
            raise ValueError(f"apply of {path} without metadata.uid could create it")
        params = {"fieldManager": manager, "force": "true" if force else "false"}
        if dry_run:
            params["dryRun"] = "All"
        return await self._request(
            "PATCH", path, params=params, body=body, content_type=APPLY_PATCH
        )

    async def delete(self, path: str, *, uid: str) -> Json:
        """Delete the object with this UID; where the name has another UID, a 409 is raised."""
        return await self._request("DELETE", path, body={"preconditions": {"uid": uid}})

    async def watch(
        self, path: str, *, timeout_seconds: float, **params: str
    ) -> AsyncGenerator[Json, None]:
        """Yield the events of a watch, until the server ends it.

        Raises `SilentWatchError` where the server does not: a dead connection looks like a quiet
        one.
        """
        params = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(int(timeout_seconds)),
            **params,
        }
        timeout = aiohttp.ClientTimeout(
            total=timeout_seconds + OVERTIME_SECONDS, sock_connect=CONNECT_TIMEOUT_SECONDS
        )
        await self._throttle.wait("GET", path)
        async with self._session.get(
            path, params=params, timeout=timeout, allow_redirects=False
        ) as response:
            self._observer("WATCH", _resource(path), response.status)
            if response.status != 200:
                body = await response.read()
                raise self._refusal(response, body, f"watch {path}", "GET", path)
            try:
                async for line in response.content:
                    yield _parse_event(line, path)
            except LineTooLong as error:
                raise MalformedAnswerError(f"watch {path}: an event is too long") from error
            except TimeoutError as error:
                raise SilentWatchError(
                    f"watch {path}: still open after {timeout.total:g} s, but the server should "
                    f"have ended it after {timeout_seconds:g} s"
                ) from error

    async def _request(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, str] | None = None,
        body: Any = None,
        content_type: str = JSON,
        warnings: list[str] | None = None,
        most_bytes: int | None = None,
    ) -> Json:
        """Send a request and return the answer; its warnings are added to `warnings`."""
        # The verb of the API server's own metrics, which count an apply as APPLY.
        verb = _name_verb(method, path, content_type)
        await self._throttle.wait(method, path)

        def check() -> None:
            if method != "GET" and not self._may_write():
                raise NotLeaderError(f"{verb} {path} not sent: the Lease is no longer held")

        check()
        try:
            async with self._session.request(
                method,
                path,
                params=params,
                data=None if body is None else orjson.dumps(body),
                headers={} if body is None else {"Content-Type": content_type},
                # A redirect leads to a server that no CA of ours has vouched for.
                allow_redirects=False,
                # Checked again once connected: opening a connection, and our turn, take a while.
                trace_request_ctx=check,
            ) as response:
                self._observer(verb, _resource(path), response.status)
                answer = await read_answer(response, most_bytes)
                if response.status >= 300:
                    raise self._refusal(response, answer, f"{verb} {path}", method, path)
                if warnings is not None:
                    warnings += map(_parse_warning, response.headers.getall("Warning", ()))
                return _parse_object(answer, f"{verb} {path}")
        except aiohttp.ClientConnectionError as error:
            if isinstance(error.__cause__, NotLeaderError):
                raise error.__cause__ from None
            raise

    def _refusal(
        self, response: aiohttp.ClientResponse, body: bytes, what: str, method: str, path: str
    ) -> ApiError:
        """Build the error of an answer; its Retry-After holds back later calls too."""
        seconds = parse_retry_after(response.headers.get("Retry-After"))
        if response.status < 400:
            target = response.headers.get("Location", "nowhere")
            body = f"the redirect to {target} is not followed; set that server instead".encode()
        error = ApiError(response.status, body, what=what, retry_after=seconds)
        is_of_one_pod = path.endswith("/eviction") and error.keeps_pod is not None
        if seconds is not None and not is_of_one_pod:
            self._throttle.close(method, path, seconds)
        return error


def connect(credentials: Credentials, observer: RequestObserver = _unobserved) -> ApiClient:
    """Connect to the API server of `credentials`; nothing is sent yet."""
    return ApiClient(open_session(credentials), observer)


async def read_answer(response: aiohttp.ClientResponse, most_bytes: int | None = None) -> bytes:
    """Read the body of an answer. Raises `AnswerTooLongError` for more than `most_bytes`."""
    if most_bytes is None:
        return await response.read()
    parts: list[bytes] = []
    left = most_bytes
    async for part in response.content.iter_any():
        parts.append(part)
        left -= len(part)
        if left < 0:
            raise AnswerTooLongError(f"more than {most_bytes / 2**20:g} MiB")
    return b"".join(parts)


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list."""

    version: str
    """resourceVersion of the list, equal on all of its pages."""
    items: tuple[Json, ...]


async def list_pages(api: ApiClient, path: str, **params: str) -> AsyncIterator[Page]:
    """List the objects under `path`, page by page.

    Raises what a call may raise, at any page: the pages before it are then no complete list. A
    list that takes minutes expires (410).
    """
    params = {"limit": str(PAGE), **params}
    while True:
        answer = await api.get(path, **params)
        meta, items = answer.get("metadata"), answer.get("items") or []
        if not (isinstance(meta, dict) and meta.get("resourceVersion") and isinstance(items, list)):
            raise MalformedAnswerError(f"list {path}: the answer is not a list")
        yield Page(meta["resourceVersion"], tuple(items))
        token = meta.get("continue")
        if not token:
            return
        params["continue"] = token


def _parse_warning(header: str) -> str:
    """Parse the text of `299 - "text"` (RFC 7234, 5.5), in which a backslash escapes."""
    _, _, quoted = header.partition('"')
    return re.sub(r"\\(.)", r"\1", quoted.removesuffix('"'))


def _parse_object(text: bytes, what: str) -> Json:
    try:
        parsed: Any = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise MalformedAnswerError(f"{what}: {error}") from error
    if not isinstance(parsed, dict):
        # Answers are never quoted: they hold Pods and Secrets.
        kind = type(parsed).__name__
        raise MalformedAnswerError(
            f"{what}: expected a JSON object, got {kind} ({len(text)} bytes)"
        )
    return parsed


def _parse_event(line: bytes, path: str) -> Json:
    event = _parse_object(line, f"watch {path}")
    if not isinstance(event.get("type"), str) or not isinstance(event.get("object"), dict):
        has = ", ".join(sorted(event)) or "nothing"
        raise MalformedAnswerError(f"watch {path}: expected an event, got an object with {has}")
    return event


def _resource(path: str) -> str:
    """Return the resource of a path for a metric's label, without the object's name."""
    parts = _split(path)
    if not parts:
        return "discovery"
    return f"{parts[0]}/{parts[2]}" if len(parts) > 2 else parts[0]


def _name_verb(method: str, path: str, content_type: str) -> str:
    """Name the verb as the API server's `apiserver_request_total` does."""
    if content_type == APPLY_PATCH:
        return "APPLY"
    return "LIST" if method == "GET" and len(_split(path)) == 1 else method


def _split(path: str) -> list[str]:
    """Return the resource, name and subresource of a path, as far as the path has them."""
    parts = path.split("/")
    parts = parts[3:] if parts[0] == "apis" else parts[2:]
    return parts[2:] if parts[:1] == ["namespaces"] and len(parts) > 2 else parts


def escape_pointer(key: str) -> str:
    """Escape a key as part of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")
