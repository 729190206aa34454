"""What the client makes of answers: late, endless, unreadable, or asking for patience."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer, TestServer

from gpushare.kube.auth.credentials import Credentials
from gpushare.kube.client import ApiClient, Json, connect
from gpushare.kube.errors import (
    CALL_FAILURES,
    ApiError,
    MalformedAnswerError,
    SilentWatchError,
    describe_failure,
)
from gpushare.kube.session import open_session
from tests.kit.values.fake_api import Answer, be_anybody, says, served_by


async def read_watch(api: ApiClient) -> list[Json]:
    return [event async for event in api.watch("api/v1/things", timeout_seconds=0.1)]


@pytest.mark.parametrize(
    "body", [b"\n", b"null", b'["hunter2"]', b'"hunter2"', b"<hunter2>", b'{"hunter2": ']
)
async def test_an_answer_that_is_no_object_is_a_failed_call_that_quotes_nothing_of_it(
    body: bytes,
) -> None:
    assert issubclass(MalformedAnswerError, CALL_FAILURES)
    async with served_by(says(body)) as api:
        with pytest.raises(MalformedAnswerError, match="LIST api/v1/secrets") as whole:
            await api.get("api/v1/secrets")
        with pytest.raises(MalformedAnswerError) as watched:
            await read_watch(api)
    assert "hunter2" not in f"{whole.value} {watched.value}"


async def test_a_proxys_password_is_not_said() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        proxy = f"http://user:hunter2@{address}"
        credentials = Credentials("https://api.example", None, authorize=be_anybody, proxy=proxy)
        async with connect(credentials) as api:
            with pytest.raises(CALL_FAILURES) as failed:
                await api.get("api/v1/nodes")
    said = describe_failure(failed.value)
    assert said == f"http://{address}: 407 Proxy Authentication Required"


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        b"{}",
        b'{"type":"ADDED"}',
        b'{"type":"ADDED","object":[]}',
        b'{"type":1,"object":{}}',
        b'{"type":"ADDED","object":{"note":"' + b"x" * 2**22 + b'"}}',
    ],
    ids=["cut off", "a list", "empty", "no object", "a list as object", "no type", "too long"],
)
async def test_a_line_that_is_no_event_is_a_failed_watch(line: bytes) -> None:
    async with served_by(says(line + b"\n")) as api:
        with pytest.raises(MalformedAnswerError, match="watch api/v1/things"):
            await read_watch(api)


async def test_a_watch_ends_where_the_server_ends_it() -> None:
    event = b'{"type":"ADDED","object":{"metadata":{}}}\n'
    async with served_by(says(event * 2)) as api:
        assert len(await read_watch(api)) == 2


async def test_a_watch_that_the_server_forgets_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However often it still says something."""

    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            while True:
                await response.write(b'{"type":"BOOKMARK","object":{}}\n')
                await asyncio.sleep(0.02)
        return response

    monkeypatch.setattr("gpushare.kube.client.OVERTIME_SECONDS", 0.1)
    async with served_by(drip) as api:
        with pytest.raises(SilentWatchError):
            await read_watch(api)


@pytest.mark.parametrize("code", ["gone", 0, True, None])
def test_a_message_and_a_code_in_a_shape_of_their_own_are_quoted(code: object) -> None:
    error = ApiError.from_status({"message": {"a": 1}, "code": code}, what="watch of pods")
    assert (error.status, str(error)) == (500, "watch of pods: 500 {'a': 1}")


def points_to(target: str) -> Answer:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=307, headers={"Location": target})

    return answer


@contextlib.asynccontextmanager
async def listening() -> AsyncIterator[tuple[str, list[str]]]:
    """The address of a server, and the Authorization of each call that reaches it."""
    heard: list[str] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        heard.append(request.headers.get("Authorization", ""))
        return web.json_response({})

    async with RawTestServer(answer) as server:
        yield str(server.make_url("/elsewhere")), heard


async def test_nobody_is_asked_to_whom_the_api_server_points() -> None:
    async with listening() as (elsewhere, heard), served_by(points_to(elsewhere)) as api:
        said = f"307 the redirect to {elsewhere} is not followed"
        with pytest.raises(ApiError, match=said):
            await api.get("api/v1/things")
        with pytest.raises(ApiError, match=said):
            await read_watch(api)
    assert heard == []


async def test_a_session_that_is_pointed_elsewhere_leaves_its_token_at_home() -> None:
    """Kopf's own calls follow."""

    async def give_token() -> str:
        return "Bearer secret"

    async with listening() as (elsewhere, heard):
        app = web.Application()
        app.router.add_get("/away", points_to(elsewhere))
        async with TestServer(app) as server:
            credentials = Credentials(str(server.make_url("/")), None, give_token)
            async with open_session(credentials) as session:
                await session.get("away")
                await session.get(elsewhere)
    assert heard == ["", ""]
